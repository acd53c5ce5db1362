package follow

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

var (
	secretKind    = schema.GroupResource{Resource: "secrets"}
	configMapKind = schema.GroupResource{Resource: "configmaps"}
	claimKind     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumeKind    = schema.GroupResource{Resource: "persistentvolumes"}
)

// reference is an object that a pod names.
type reference struct {
	kind schema.GroupResource
	view.Key
}

// followed is one that is followed while pods refer to it.
type followed struct {
	name   string
	users  int
	volume string // of a claim, once it is in the view
	stop   context.CancelFunc
	there  chan struct{} // closed once it is known whether it exists
}

func (x *followed) isThere() bool {
	select {
	case <-x.there:
		return true
	default:
		return false
	}
}

// acquire follows an object for one more pod. f.mu is held.
func (f *Follower) acquire(r reference) {
	if x := f.references[r]; x != nil {
		x.users++
		return
	}
	ctx, stop := context.WithCancel(f.ctx)
	x := &followed{name: r.kind.Resource + " " + r.Namespace + "/" + r.Name, users: 1, stop: stop}
	f.references[r] = x
	if r.kind == claimKind {
		x.there = make(chan struct{})
		f.tasks.Go(func() { f.readClaim(ctx, r, x) })
		return
	}
	sample := runtime.Object(&v1.Secret{})
	if r.kind == configMapKind {
		sample = &v1.ConfigMap{}
	}
	s := newSink(single{f, ctx, part{f.c.Feed, r.kind, func(k view.Key) bool { return k == r.Key }}})
	x.there = s.synced
	f.reflectUntil(ctx, r.kind, r.Namespace, fieldOfName+r.Name, sample, s)
}

// release ends that for one pod. f.mu is held.
func (f *Follower) release(r reference) {
	x := f.references[r]
	if x.users--; x.users > 0 {
		return
	}
	delete(f.references, r)
	x.stop()
	gone := []reference{r}
	if x.volume != "" {
		gone = append(gone, reference{volumeKind, view.Key{Name: x.volume}})
	}
	for _, g := range gone {
		if err := f.c.Feed.Delete(g.kind, g.Key); err != nil {
			f.c.Log.Error("an object cannot be taken out of the view", "object", x.name, "err", err)
		}
	}
}

// single is the part of one object while it is followed: what comes later is not brought into the view again.
type single struct {
	f   *Follower
	ctx context.Context
	part
}

func (s single) put(obj runtime.Object) error {
	return s.during(func() error { return s.part.put(obj) })
}

func (s single) remove(obj runtime.Object) error {
	return s.during(func() error { return s.part.remove(obj) })
}

func (s single) replace(objs []runtime.Object) error {
	return s.during(func() error { return s.part.replace(objs) })
}

func (s single) during(do func() error) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil
	}
	return do()
}

// Pauses between two looks at a claim that is not bound yet.
const (
	firstLook = 500 * time.Millisecond
	lastLook  = 15 * time.Second
)

// readClaim reads a claim, and its volume once it is bound: kubelets may get them and nothing else, so that nobody tells when they
// change. It ends when there is nothing more to come.
func (f *Follower) readClaim(ctx context.Context, r reference, x *followed) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		known, bound := f.lookAtClaim(ctx, r, x)
		if known && !x.isThere() {
			close(x.there)
		}
		if bound {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// lookAtClaim returns whether it is known if there is one, and whether it and its volume are in the view for good.
func (f *Follower) lookAtClaim(ctx context.Context, r reference, x *followed) (known, bound bool) {
	obj, err := f.c.API.Get(ctx, client.Ref{Resource: claimKind, Namespace: r.Namespace, Name: r.Name})
	if err != nil {
		return apierrors.IsNotFound(err), false
	}
	claim, ok := obj.(*v1.PersistentVolumeClaim)
	if !ok {
		return true, false
	}
	bound = claim.Status.Phase == v1.ClaimBound
	if claim.Spec.VolumeName != "" {
		obj, err := f.c.API.Get(ctx, client.Ref{Resource: volumeKind, Name: claim.Spec.VolumeName})
		if err == nil {
			f.bring(ctx, x, volumeKind, obj)
		} else {
			bound = false
			known = apierrors.IsNotFound(err)
		}
	}
	f.bring(ctx, x, claimKind, claim)
	return known || bound || claim.Spec.VolumeName == "", bound
}

// bring puts an object into the view unless its following has ended meanwhile.
func (f *Follower) bring(ctx context.Context, x *followed, kind schema.GroupResource, obj runtime.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if kind == volumeKind {
		x.volume = keyOf(obj).Name
	}
	if err := f.c.Feed.Put(kind, obj); err != nil {
		f.c.Log.Error("an object cannot be brought into the view", "kind", kind, "err", err)
	}
}

// references are the objects that the node has to know for a pod.
func references(p *v1.Pod) map[reference]bool {
	all := map[reference]bool{}
	add := func(kind schema.GroupResource, name string) {
		if name != "" {
			all[reference{kind, view.Key{Namespace: p.Namespace, Name: name}}] = true
		}
	}
	for _, s := range p.Spec.ImagePullSecrets {
		add(secretKind, s.Name)
	}
	for i := range p.Spec.Volumes {
		volumeReferences(p, &p.Spec.Volumes[i], add)
	}
	environment := func(from []v1.EnvFromSource, env []v1.EnvVar) {
		for _, s := range from {
			if s.SecretRef != nil {
				add(secretKind, s.SecretRef.Name)
			}
			if s.ConfigMapRef != nil {
				add(configMapKind, s.ConfigMapRef.Name)
			}
		}
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add(secretKind, e.ValueFrom.SecretKeyRef.Name)
			}
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				add(configMapKind, e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			environment(list[i].EnvFrom, list[i].Env)
		}
	}
	for i := range p.Spec.EphemeralContainers {
		environment(p.Spec.EphemeralContainers[i].EnvFrom, p.Spec.EphemeralContainers[i].Env)
	}
	return all
}

// volumeReferences are those of one volume, of the kinds that the kubelet mounts.
func volumeReferences(p *v1.Pod, v *v1.Volume, add func(kind schema.GroupResource, name string)) {
	switch {
	case v.Secret != nil:
		add(secretKind, v.Secret.SecretName)
	case v.ConfigMap != nil:
		add(configMapKind, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil:
		add(claimKind, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		add(claimKind, p.Name+"-"+v.Name)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		add(secretKind, v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(secretKind, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				add(configMapKind, s.ConfigMap.Name)
			}
		}
	}
}
