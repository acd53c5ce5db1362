package verbs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// futureWait is how long a read waits for a resourceVersion that has not been seen yet.
const futureWait = 3 * time.Second

// Get reads one object. rv "" is consistent, "0" is whatever the view has, anything else is at least that revision.
// A subresource that takes the whole object (status) reads the whole object.
func (v *Verbs) Get(ctx context.Context, u user.Info, ref client.Ref, rv string) (*view.Entry, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, u, "get", ref, nil); err != nil {
		return nil, err
	}
	if k.Computed {
		return v.getComputed(ctx, k, ref)
	}
	e, err := v.get(ctx, k, ref, rv)
	if part, ok := k.Parts[ref.Subresource]; ok && err == nil {
		e = partOf(part, e)
	}
	return e, err
}

func (v *Verbs) get(ctx context.Context, k *registry.Kind, ref client.Ref, rv string) (*view.Entry, error) {
	revision, err := parseRev(rv)
	if err != nil {
		return nil, err
	}
	if rv == "" {
		return v.newest(ctx, k, ref)
	}
	if k.NotCached {
		if err := v.reached(ctx, revision); err != nil {
			return nil, err
		}
		return v.freshly(ctx, k, ref)
	}
	s, err := v.atLeast(ctx, revision)
	if err != nil {
		return nil, err
	}
	if e := s.Get(k.Stored().GroupResource(), ref.Namespace, ref.Name); e != nil {
		return e, nil
	}
	return nil, apierrors.NewNotFound(k.GroupResource(), ref.Name)
}

// viewPatience is how long a consistent read of one object waits for the view before it asks the store. The store may take as
// long: while it flushes its database it answers nobody.
const viewPatience = 100 * time.Millisecond

// newest reads one object consistently: from the view once that has caught up with the store, or from the store itself when the
// view does not catch up, or has no readable object.
func (v *Verbs) newest(ctx context.Context, k *registry.Kind, ref client.Ref) (*view.Entry, error) {
	if k.NotCached {
		return v.freshly(ctx, k, ref)
	}
	wait, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	if s, err := v.c.View.Fresh(wait); err == nil {
		if e := s.Get(k.Stored().GroupResource(), ref.Namespace, ref.Name); e != nil && !v.c.View.Overtaken(k.Key(ref.Namespace, ref.Name)) {
			return e, nil
		}
	}
	return v.freshly(ctx, k, ref)
}

// atLeast is a snapshot not older than revision; a revision that stays unknown is refused as upstream does.
func (v *Verbs) atLeast(ctx context.Context, revision int64) (view.Snapshot, error) {
	s := v.c.View.Snapshot()
	if s.Rev() >= revision {
		return s, nil
	}
	wait, cancel := context.WithTimeout(ctx, futureWait)
	defer cancel()
	s, err := v.c.View.WaitFor(wait, revision)
	if errors.Is(err, store.ErrFuture) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return s, tooLarge(revision, v.c.View.Snapshot().Rev(), 1)
	}
	return s, viewError(err)
}

// reached refuses a revision that the store has not reached, for reads that upstream's server answers from its store and not from
// memory: at once, and without a hint to try again.
func (v *Verbs) reached(ctx context.Context, revision int64) error {
	if v.c.View.Snapshot().Rev() >= revision {
		return nil
	}
	s, err := v.c.View.Fresh(ctx)
	if err != nil {
		return viewError(err)
	}
	if s.Rev() < revision {
		return tooLarge(revision, s.Rev(), 0)
	}
	return nil
}

func tooLarge(asked, current int64, retry int) error {
	e := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), retry)
	e.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return e
}

// parseRev reads the resourceVersion of a query. Upstream's error for an invalid one has a reason only in lists.
func parseRev(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(rv, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), rv, err.Error())
	}
	return int64(n), nil
}

// Pod and Node are for the server's own use and unauthorized: from the view, or from the store when the view has none.
func (v *Verbs) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	e, err := v.known(ctx, client.Pods.At(namespace, name))
	if err != nil {
		return nil, err
	}
	return e.Object.(*v1.Pod), nil
}

// Node is described at Pod.
func (v *Verbs) Node(ctx context.Context, name string) (*v1.Node, error) {
	e, err := v.known(ctx, client.Nodes.At("", name))
	if err != nil {
		return nil, err
	}
	return e.Object.(*v1.Node), nil
}

// Service is described at Pod.
func (v *Verbs) Service(ctx context.Context, namespace, name string) (*v1.Service, error) {
	e, err := v.known(ctx, client.Resource{Resource: "services"}.At(namespace, name))
	if err != nil {
		return nil, err
	}
	return e.Object.(*v1.Service), nil
}

// EndpointSlices are those of a Service in the view, for the server's own use like Pod.
func (v *Verbs) EndpointSlices(namespace, service string) (out []*discoveryv1.EndpointSlice) {
	slices := schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	for e := range v.c.View.Snapshot().By(slices, registry.SliceService, namespace+"/"+service) {
		out = append(out, e.Object.(*discoveryv1.EndpointSlice))
	}
	return out
}

func (v *Verbs) known(ctx context.Context, ref client.Ref) (*view.Entry, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	e, _, err := v.current(ctx, k, ref, 0)
	return e, err
}
