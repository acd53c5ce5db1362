// Package registry is the table of API kinds: for each, where it is stored, how it is defaulted, validated, updated, shown and
// selected. It is pure: rules take objects and times and return objects and errors. Adding a kind is one file or folder
// that returns a *Kind, and one line in All.
package registry

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is one row of the table. Objects are the external types of k8s.io/api in the version named by GVK, which is both
// served and stored.
type Kind struct {
	GVK        schema.GroupVersionKind
	Resource   string // plural, lower case
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// Dir is the folder under /registry/ where etcd keeps it ("pods", "minions", "leases").
	Dir string
	// Deprecated, when set, is the warning that every request for the kind is answered with.
	Deprecated string
	// Verbs served, in discovery's order (create, delete, deletecollection, get, list, patch, update, watch).
	Verbs []string

	New     func() runtime.Object
	NewList func() runtime.Object

	// ValidName checks metadata.name; upstream's message texts. nil leaves the metadata until Validate has found nothing, and then
	// asks of the name only that it fits in a path (events).
	ValidName func(name string, prefix bool) []string
	// Default fills what the client left out; idempotent. The verbs call it on every decoded object, stored ones included.
	Default func(obj runtime.Object)
	// PrepareForCreate drops what a client may not set on create (status, disabled fields) and sets what only the server says
	// (generation 1). The verbs have set creationTimestamp, uid and the generated name before.
	PrepareForCreate func(obj runtime.Object)
	// Validate checks a whole object on create, metadata excepted. Callers use CheckCreate.
	Validate func(obj runtime.Object) field.ErrorList
	// Warnings, when set, tells what is accepted on create but unwise (Warning headers).
	Warnings func(obj runtime.Object) []string

	// Updates has the rules of each endpoint that accepts PUT and PATCH: "" is the object itself, then "status" and other
	// subresources that take the whole object.
	Updates map[string]Update
	// Graceful, when set, decides how a deletion proceeds: it edits obj (deletionTimestamp and grace are set by the
	// verbs from the returned value) and returns the seconds of grace; 0 deletes at once.
	Graceful func(obj runtime.Object, o *metav1.DeleteOptions) (graceSeconds int64)
	// ReturnsDeleted says that the answer to a deletion is the object, not a Status.
	ReturnsDeleted bool

	// Selectable are the fields that a fieldSelector may name, metadata.name and metadata.namespace included.
	Selectable func(obj runtime.Object) fields.Set
	// Columns and Row make `kubectl get`: a row has one cell a column. now is for ages.
	Columns []metav1.TableColumnDefinition
	Row     func(obj runtime.Object, now time.Time) []any
	// RowConditions, when set, are a row's conditions (a pod that has completed).
	RowConditions func(obj runtime.Object) []metav1.TableRowCondition
	// Indexes are the view's secondary indexes on this kind: name -> values of an object.
	Indexes map[string]func(obj runtime.Object) []string

	// TTL > 0 lets an object go by itself (events).
	TTL func(obj runtime.Object) time.Duration
	// NotCached says that the view keeps no decoded copy (events): reads go to the store.
	NotCached bool
	// Unstored says that a creation is answered and nothing is kept (reviews): only GVK to NewList, Verbs (create), Default and
	// Validate count.
	Unstored bool
	// Subresources that are served otherwise than through Updates, for discovery: "binding", "log", "exec", ...
	Subresources []Subresource
}

// Subresource is a line of discovery for a part of a kind.
type Subresource struct {
	Name  string
	GVK   schema.GroupVersionKind
	Verbs []string
}

// Update are the rules of one endpoint.
type Update struct {
	// Prepare copies from old into obj what this endpoint may not change, and raises metadata.generation where it counts.
	Prepare func(obj, old runtime.Object)
	// Stamp, when set, notes after Prepare when what changed did.
	Stamp func(obj, old runtime.Object, now time.Time)
	// Validate checks the change: the new object whole, and what is immutable; metadata excepted. Callers use CheckUpdate.
	Validate func(obj, old runtime.Object) field.ErrorList
	// Warnings, when set, tells what of an accepted change is unwise.
	Warnings func(obj, old runtime.Object) []string
	// Resets are the fields that a write through this endpoint does not change, whatever is sent ("status",
	// "metadata.ownerReferences"): its writer does not come to own them. Those of the object itself ("") hold for its creation too.
	Resets []string
	// AllowCreate lets a PUT to a missing name create it; AllowUnconditional lets one without resourceVersion pass.
	AllowCreate        bool
	AllowUnconditional bool
}

// GroupResource names the kind as client.Ref and the view do.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// GroupVersion is the version that is served.
func (k *Kind) GroupVersion() schema.GroupVersion { return k.GVK.GroupVersion() }

// Prefix is where the store keeps the kind: /registry/<dir>/.
func (k *Kind) Prefix() string { return "/registry/" + k.Dir + "/" }

// Key is an object's place in the store.
func (k *Kind) Key(namespace, name string) string {
	if k.Namespaced {
		return k.Prefix() + namespace + "/" + name
	}
	return k.Prefix() + name
}
