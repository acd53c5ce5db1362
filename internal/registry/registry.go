// Package registry is the table of API kinds: for each, where it is stored, how it is defaulted, validated, updated, shown and
// selected. It is pure: rules take objects and times and return objects and errors. Adding a kind is one file or folder
// that returns a *Kind, and one line in All.
package registry

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
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
	// StoredVersion, when set, is the older version of the kind that etcd keeps it in, as upstream does for a while so that an older
	// server can read it: every field of ours has the same number there.
	StoredVersion string
	// Deprecated, when set, is the warning that every request for the kind is answered with.
	Deprecated string
	// Verbs served, in discovery's order (create, delete, deletecollection, get, list, patch, update, watch).
	Verbs []string

	New     func() runtime.Object
	NewList func() runtime.Object

	// ValidName checks metadata.name; upstream's message texts. nil leaves the metadata until Validate has found nothing, and then
	// asks of the name only that it fits in a path (events).
	ValidName func(name string, prefix bool) []string
	// ValidNameOf, when set, is ValidName for one object, where the rest of it says what its name may be.
	ValidNameOf func(obj runtime.Object) func(name string, prefix bool) []string
	// Unreadable, when set, says why an object that a client sent cannot be read as one of the kind, though it has its form: upstream
	// cannot convert it. Default is called only where there is no such reason.
	Unreadable func(obj runtime.Object) error
	// Default fills what the client left out; idempotent. The verbs call it on every decoded object, stored ones included.
	Default func(obj runtime.Object)
	// Types, when set, gives the objects within one their types: protobuf, in which they are stored, has none for them.
	Types func(obj runtime.Object)
	// PrepareForCreate drops what a client may not set on create (status, disabled fields) and sets what only the server says
	// (generation 1). The verbs have set creationTimestamp, uid and the generated name before.
	PrepareForCreate func(obj runtime.Object)
	// NoteCreator, when set, writes into a new object who creates it, after PrepareForCreate.
	NoteCreator func(obj runtime.Object, who authenticationv1.UserInfo)
	// Validate checks a whole object on create, metadata excepted. Callers use CheckCreate.
	Validate func(obj runtime.Object) field.ErrorList
	// Outdated, when set, tells what a new object says in a way of earlier times, before PrepareForCreate turns it into today's.
	Outdated func(obj runtime.Object) []string
	// Warnings, when set, tells what is accepted on create but unwise (Warning headers).
	Warnings func(obj runtime.Object) []string

	// Updates has the rules of each endpoint that accepts PUT and PATCH: "" is the object itself, then "status" and other
	// subresources that take the whole object.
	Updates map[string]Update
	// Graceful, when set, decides how a deletion proceeds: it edits obj (deletionTimestamp and grace are set by the
	// verbs from the returned value) and returns the seconds of grace; 0 deletes at once.
	Graceful func(obj runtime.Object, o *metav1.DeleteOptions) (graceSeconds int64)
	// Dependents is what becomes of an object's dependents when a deletion does not say it.
	Dependents Dependents
	// DeleteWarning, when set, is told to who deletes without saying what becomes of the dependents.
	DeleteWarning string
	// ReturnsDeleted says that the answer to a deletion is the object, not a Status; DeletedIsStatus, that upstream's OpenAPI says
	// Status all the same, and so Podo's.
	ReturnsDeleted  bool
	DeletedIsStatus bool

	// Selectable are the fields that a fieldSelector may name, metadata.name and metadata.namespace included.
	Selectable func(obj runtime.Object) fields.Set
	// Unselectable, when set, says in words of the kind's own that a fieldSelector may not name a field.
	Unselectable func(name string) string
	// Columns and Row make `kubectl get`: a row has one cell a column. now is for ages.
	Columns []metav1.TableColumnDefinition
	Row     func(obj runtime.Object, now time.Time) []any
	// RowAmong, when set, makes Row for the objects of one list, where a row tells of an object what it is among the others.
	RowAmong func(all []runtime.Object) func(obj runtime.Object, now time.Time) []any
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
	// Computed says of an Unstored kind that its objects are made when they are asked for: it can be read, and nothing else.
	Computed bool
	// Served, when set, makes the row a further version of another one.
	Served *Served
	// Parts are subresources with a type of their own that are computed from the object and written back into it ("scale").
	Parts map[string]Part
	// Subresources that are served otherwise than through Updates, for discovery: "binding", "log", "exec", ...
	Subresources []Subresource
}

// Dependents are the objects that name another one as their owner.
type Dependents int

// What can become of them by default: they are deleted in the background, they stay without their owner, or the kind has none.
const (
	DeleteDependents Dependents = iota
	OrphanDependents
	NoDependents
)

// Served is how a row shows the objects of another one. What is stored and cached, and what every rule of the row gets, are objects of
// the other row; clients read and write them in this form.
type Served struct {
	Stored  *Kind
	New     func() runtime.Object
	NewList func() runtime.Object
	// In and Out turn a served object into a stored one and back, sharing what they can. Out leaves the type to Kind.Out.
	In, Out func(obj runtime.Object) runtime.Object
	// ByValue says that which fields a served object has depends on what is in the stored one, not only on which fields that has.
	ByValue bool
}

// Stored is the row whose objects these are.
func (k *Kind) Stored() *Kind {
	if k.Served != nil {
		return k.Served.Stored
	}
	return k
}

// NewServed makes an object of the type that clients see, and NewServedList a list of them.
func (k *Kind) NewServed() runtime.Object {
	if k.Served != nil {
		return k.Served.New()
	}
	return k.New()
}

// NewServedList is described at NewServed.
func (k *Kind) NewServedList() runtime.Object {
	if k.Served != nil {
		return k.Served.NewList()
	}
	return k.NewList()
}

// In is the object that the rules know of one that a client has sent; Out is the other way round. Both return what they are given where
// there is only one form.
func (k *Kind) In(obj runtime.Object) runtime.Object {
	if k.Served == nil {
		return obj
	}
	return k.Served.In(obj)
}

// Out is described at In.
func (k *Kind) Out(obj runtime.Object) runtime.Object {
	if k.Served == nil {
		return obj
	}
	obj = k.Served.Out(obj)
	obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	return obj
}

// Part is a subresource with a type of its own.
type Part struct {
	// Kind is the part's type: of its fields GVK, Namespaced, New, Columns and Row count.
	Kind *Kind
	// Path is the field of the object that is written by the part, as "spec.replicas": who owns it is told in both.
	Path string
	// Of makes the part of an object, sharing nothing that changes; Into writes what may change of a part into an object.
	Of   func(obj runtime.Object) runtime.Object
	Into func(part, obj runtime.Object)
	// Validate checks a part before it is written.
	Validate func(part runtime.Object) field.ErrorList
}

// Subresource is a line of discovery for a part of a kind.
type Subresource struct {
	Name  string
	GVK   schema.GroupVersionKind
	Verbs []string
}

// proxyPart is the line of the subresource "proxy", whose options are of the named kind.
func proxyPart(options string) Subresource {
	return Subresource{Name: "proxy", GVK: v1.SchemeGroupVersion.WithKind(options), Verbs: []string{"create", "delete", "get", "patch", "update"}}
}

// Update are the rules of one endpoint.
type Update struct {
	// Prepare copies from old into obj what this endpoint may not change, and raises metadata.generation where it counts.
	Prepare func(obj, old runtime.Object)
	// Stamp, when set, notes after Prepare when what changed did.
	Stamp func(obj, old runtime.Object, now time.Time)
	// Validate checks the change: the new object whole, and what is immutable; metadata excepted. Callers use CheckUpdate.
	Validate func(obj, old runtime.Object) field.ErrorList
	// ValidateAt stands for Validate where it matters when the change is made: see At.
	ValidateAt func(obj, old runtime.Object, now time.Time) field.ErrorList
	// Warnings, when set, tells what of an accepted change is unwise.
	Warnings func(obj, old runtime.Object) []string
	// Resets are the fields that a write through this endpoint does not change, whatever is sent ("status",
	// "metadata.ownerReferences"): its writer does not come to own them. Those of the object itself ("") hold for its creation too.
	Resets []string
	// AllowCreate lets a PUT to a missing name create it; AllowUnconditional lets one without resourceVersion pass.
	AllowCreate        bool
	AllowUnconditional bool
	// PutOnly says that it is neither read here nor patched.
	PutOnly bool
}

// At are the rules of a change that is made now.
func (u Update) At(now time.Time) Update {
	if at := u.ValidateAt; at != nil {
		u.Validate = func(obj, old runtime.Object) field.ErrorList { return at(obj, old, now) }
	}
	return u
}

// GroupResource names the kind as client.Ref and the view do.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// GroupVersion is the version that is served.
func (k *Kind) GroupVersion() schema.GroupVersion { return k.GVK.GroupVersion() }

// StoredGVK is the type that a stored value names.
func (k *Kind) StoredGVK() schema.GroupVersionKind {
	gvk := k.Stored().GVK
	if v := k.Stored().StoredVersion; v != "" {
		gvk.Version = v
	}
	return gvk
}

// Prefix is where the store keeps the kind: /registry/<dir>/.
func (k *Kind) Prefix() string { return "/registry/" + k.Dir + "/" }

// Key is an object's place in the store.
func (k *Kind) Key(namespace, name string) string {
	if k.Namespaced {
		return k.Prefix() + namespace + "/" + name
	}
	return k.Prefix() + name
}
