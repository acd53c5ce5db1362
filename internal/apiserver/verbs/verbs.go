// Package verbs is the API without a wire: decoded objects and a user in, decoded objects out. HTTP (package apiserver/wire)
// and in-process callers (package client/local) go through the same functions, so nobody skips authorization, admission or
// validation.
//
// A write is: authorize, admit (mutate), default, prepare, validate, admit (validate), then one store transaction whose
// conditions name everything that was read, then the written object as the answer. Nothing is locked meanwhile: two writers of
// one object meet in the transaction, and the later one decides again on what is there.
//
// A read comes from the view and reflects every write acknowledged before it, unless the caller allows otherwise.
package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/admit/settings"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/authz/review"
	"podo.dev/podo/internal/apiserver/owners"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// Config is what Verbs are made of. Store, View and Kinds are required.
type Config struct {
	Store store.Store
	View  *view.View
	Kinds []*registry.Kind
	// Authorizer defaults to one over the view.
	Authorizer *modes.Authorizer
	// Admission are further rules, put into upstream's order among the built-in ones. A rule with the name of a built-in one
	// replaces it.
	Admission admit.Chain
	// Reviews answer the creation of kinds that are not stored.
	Reviews map[schema.GroupResource]Review
	// Tokens makes ServiceAccounts' tokens; nil serves none.
	Tokens *tokens.Issuer
	// Computed make the objects of computed kinds; a kind without one has no objects.
	Computed map[schema.GroupResource]Computer
	// Audit records the requests of the server's own parts (those of clients are recorded by the wire); nil: none.
	Audit *audit.Log
	// Append takes timeline records of pods (accepted, stored, deleting, deleted). Default timeline.Discard.
	Append timeline.Append
	Now    func() time.Time
	NewUID func() types.UID
	Logger *slog.Logger
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Store == nil || c.View == nil || len(c.Kinds) == 0 {
		return errors.New("verbs: Config needs Store, View and Kinds")
	}
	return nil
}

// Verbs are safe for concurrent use.
type Verbs struct {
	c      Config
	kinds  map[schema.GroupVersionResource]*registry.Kind // by each served version, and by "" the stored one
	chain  admit.Chain
	owners *owners.Owners
	store  *measured // c.Store

	evictions turn
}

// Options belong to every write.
type Options struct {
	DryRun bool
	// Manager becomes the owner of the fields that the write sets, in metadata.managedFields: the program, not its user.
	Manager string
	// Part names the part of a program that asks, where several share a user; the timeline shows it instead.
	Part string
	// Warn receives warnings for the client, whatever becomes of its write; nil drops them.
	Warn func(text string)
}

func (o *Options) warn(texts []string) {
	for _, t := range texts {
		o.warning(t)
	}
}

func (o *Options) warning(text string) {
	if o.Warn != nil {
		o.Warn(text)
	}
}

// New makes Verbs.
func New(c Config) (*Verbs, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Append == nil {
		c.Append = timeline.Discard
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewUID == nil {
		c.NewUID = uuid.NewUUID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Verbs{c: c, kinds: map[schema.GroupVersionResource]*registry.Kind{}, evictions: make(turn, 1)}
	v.store = newMeasured(c.Store, c.View, c.Kinds)
	for _, k := range c.Kinds {
		r := k.GroupResource()
		v.kinds[r.WithVersion(k.GVK.Version)] = k
		if k.Served == nil || k.Stored().GroupResource() != r {
			v.kinds[r.WithVersion("")] = k
		}
	}
	var err error
	if v.owners, err = owners.New(c.Kinds, func() time.Time { return v.c.Now() }); err != nil {
		return nil, err
	}
	if c.Authorizer == nil {
		v.c.Authorizer = modes.New(c.View)
	}
	v.c.Reviews = maps.Clone(c.Reviews)
	if v.c.Reviews == nil {
		v.c.Reviews = map[schema.GroupResource]Review{}
	}
	for r, answer := range review.Access(v.c.Authorizer) {
		v.c.Reviews[r] = answer
	}
	v.chain, err = v.rules()
	return v, err
}

// rules are the built-in admission rules and those of the configuration, in upstream's order.
func (v *Verbs) rules() (admit.Chain, error) {
	view := v.c.View
	configured, err := settings.Rules("", view)
	if err != nil {
		return nil, err
	}
	all := append(configured,
		&admit.NamespaceLifecycle{Get: v.namespace},
		&admit.ServiceAccount{Get: v.account},
		&admit.LimitRanger{View: view},
		&admit.NodeRestriction{View: view, Authorizer: v.c.Authorizer},
		admit.TaintNewNodes{},
		&admit.Priority{View: view},
		admit.DefaultTolerations{},
		&admit.DefaultStorageClass{View: view},
		admit.StorageInUse{},
		&admit.ClaimResize{View: view},
		&admit.RuntimeClass{View: view},
		&admit.CertificateApproval{Authorizer: v.c.Authorizer},
		&admit.CertificateSigning{Authorizer: v.c.Authorizer},
		&admit.ClusterTrustBundleAttest{Authorizer: v.c.Authorizer},
		admit.CertificateSubjectRestriction{},
		&admit.DefaultIngressClass{View: view},
		&admit.PodCertificateSigning{Authorizer: v.c.Authorizer},
		&admit.PodTopologyLabels{View: view},
		&admit.NodeDeclaredFeatures{View: view},
		&admit.PodResize{View: view},
		&admit.Escalation{View: view, Authorizer: v.c.Authorizer, Rules: v.c.Authorizer.RBAC},
	)
	return admit.Ordered(append(all, v.c.Admission...)...), nil
}

// Authorizer is the verbs' authorizer; the wire also asks it about paths that are no resources.
func (v *Verbs) Authorizer() authz.Authorizer { return v.c.Authorizer }

// Kind finds a row of the table; nil when the resource is not served.
func (v *Verbs) Kind(r schema.GroupResource) *registry.Kind { return v.kinds[r.WithVersion("")] }

// Authorize asks whether u may do verb with what ref names; the error is Forbidden in upstream's words.
func (v *Verbs) Authorize(ctx context.Context, u user.Info, verb string, ref client.Ref) error {
	return v.authorize(ctx, u, verb, ref, nil)
}

// request is what a user, or a part of the server itself, asks of an object.
type request struct {
	user user.Info
	kind *registry.Kind
	ref  client.Ref
	Options
	inURL string // the name in the request's URL; an object that is created may have another one, or none yet
}

// request begins what u asks for: it knows the kind, and that u may do verb.
func (v *Verbs) request(ctx context.Context, u user.Info, verb string, ref client.Ref, o Options) (request, error) {
	k, err := v.kind(ref)
	if err != nil {
		return request{}, err
	}
	return request{u, k, ref, o, ref.Name}, v.authorize(ctx, u, verb, ref, nil)
}

// sub is the same request about a part of the object.
func (r request) sub(part string) request {
	r.ref = r.ref.Sub(part)
	return r
}

// attributes are what admission is told of the request; obj is nil for a deletion, old for a creation.
func (r *request) attributes(op admit.Operation, obj, old runtime.Object) *admit.Attributes {
	return &admit.Attributes{Op: op, User: r.user, Kind: r.kind, Ref: r.ref, InURL: r.inURL, Object: obj, Old: old, DryRun: r.DryRun, Warn: r.warning}
}

// kind finds a row of the table, or returns the error for an unknown URL.
func (v *Verbs) kind(ref client.Ref) (*registry.Kind, error) {
	if k := v.kinds[ref.Resource.WithVersion(ref.Version)]; k != nil {
		return k, nil
	}
	return nil, apierrors.NewGenericServerResponse(404, "", ref.Resource, "", "404 page not found", 0, false)
}

func (v *Verbs) authorize(ctx context.Context, u user.Info, verb string, ref client.Ref, sel fields.Selector) error {
	if ref.Resource == namespaces {
		ref.Namespace = ref.Name // for authorization a namespace is inside itself, as upstream has it
	}
	return authz.Check(ctx, v.c.Authorizer, &authz.Attributes{
		User: u, Verb: verb, Group: ref.Resource.Group, Resource: ref.Resource.Resource, Subresource: ref.Subresource,
		Namespace: ref.Namespace, Name: ref.Name, Fields: sel,
	})
}

// namespace reads a namespace for admission: from the view and, before it says that there is none, from the store.
func (v *Verbs) namespace(ctx context.Context, name string) (*v1.Namespace, string, int64, error) {
	k := v.Kind(namespaces)
	if k == nil {
		return nil, "", 0, apierrors.NewInternalError(errors.New("namespaces are not served"))
	}
	e := v.c.View.Snapshot().Get(k.GroupResource(), "", name)
	if e == nil || e.Meta.GetDeletionTimestamp() != nil {
		fresh, err := v.c.View.Fresh(ctx)
		if err != nil {
			return nil, "", 0, viewError(err)
		}
		if e = fresh.Get(k.GroupResource(), "", name); e == nil {
			return nil, "", 0, nil
		}
	}
	return e.Object.(*v1.Namespace), k.Key("", name), e.Rev, nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// encode is the stored form. obj's resourceVersion must be empty; its type is set here.
func encode(k *registry.Kind, obj runtime.Object) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(k.StoredGVK())
	b, err := codec.Encode(obj)
	obj.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return b, nil
}

// accessor is the metadata of a served object; all kinds have it.
func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(fmt.Sprintf("%T has no metadata", obj))
	}
	return m
}

func formatRev(rev int64) string { return strconv.FormatInt(rev, 10) }

// who asks, as the timeline tells it.
func (r *request) who() string {
	if r.Part != "" {
		return r.Part
	}
	return r.user.GetName()
}

// record appends a timeline record when obj is a pod.
func (v *Verbs) record(stage timeline.Stage, obj runtime.Object, fields ...timeline.Field) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	v.c.Append(timeline.Record{
		At:     v.c.Now(),
		Pod:    timeline.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Stage:  stage,
		Cause:  leaves(stage, pod),
		Fields: fields,
	})
}

// recordNew appends the beginning of a pod's story: who made it, and for which owner.
func (v *Verbs) recordNew(obj runtime.Object, by string) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	fields := []timeline.Field{{Key: "by", Value: by}}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		fields = append(fields, timeline.Field{Key: "owner", Value: owner.Kind + "/" + owner.Name})
	}
	v.record(timeline.Accepted, obj, fields...)
}

// leaves is why a pod is deleted, if its status says so: an eviction, preemption, a taint.
func leaves(stage timeline.Stage, pod *v1.Pod) string {
	if stage != timeline.Deleting && stage != timeline.Deleted {
		return ""
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}
