package volumebinder

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/storageobject"
	"podo.dev/podo/internal/view"
)

var (
	pods    = schema.GroupResource(client.Pods)
	claims  = schema.GroupResource(client.Claims)
	volumes = schema.GroupResource(client.Volumes)
	classes = schema.GroupResource(client.StorageClasses)
)

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	// Remove deletes the directory of a hostPath volume on this machine.
	Remove func(path string) error
	Logger *slog.Logger
}

type controller struct {
	Config
	ops *operations
}

// New makes the controller. Its keys are claims by namespace and name, and volumes by name alone.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || c.Remove == nil {
		return nil, errors.New("volumebinder: View, Client, Events and Remove are required")
	}
	k := &controller{c, newOperations()}
	return loop.New(loop.Config{
		Name: "persistent-volume-binder", View: c.View, Reconcile: k.reconcile, Workers: 1, Logger: c.Logger,
		Metrics: append([]prometheus.Collector{newCensus(c.View)}, k.ops.all()...),
		Watches: []loop.Watch{
			{Resource: claims, Keys: k.ofClaim},
			{Resource: volumes, Keys: k.ofVolume},
			{Resource: classes, Keys: k.ofClass},
			{Resource: pods, Keys: k.ofPod},
		},
	})
}

func claimKey(namespace, name string) view.Key { return view.Key{Namespace: namespace, Name: name} }

// gone tells of what was there that it has gone; another one of its name may be there.
func gone(c view.Change) bool {
	return c.Old != nil && (c.New == nil || c.New.Meta.GetUID() != c.Old.Meta.GetUID())
}

func (k *controller) ofClaim(c view.Change) (out []view.Key) {
	if gone(c) {
		k.ops.forget(c.Old.Meta.GetUID())
	}
	if c.New != nil {
		return []view.Key{c.New.Key}
	}
	for e := range k.View.Snapshot().By(volumes, registry.ClaimIndex, c.Old.Key.Namespace+"/"+c.Old.Key.Name) {
		out = append(out, e.Key)
	}
	return out
}

// ofVolume: the volume, the claim that it names, those that name it, and, when it is free, those that may take it.
func (k *controller) ofVolume(c view.Change) (out []view.Key) {
	s, e := k.View.Snapshot(), c.New
	if gone(c) {
		k.ops.step(c.Old.Meta.GetUID(), nil)
	}
	if e == nil {
		e = c.Old
	} else {
		out = append(out, e.Key)
	}
	pv := e.Object.(*v1.PersistentVolume)
	if ref := pv.Spec.ClaimRef; ref != nil {
		out = append(out, claimKey(ref.Namespace, ref.Name))
	} else if c.New != nil && pv.Status.Phase == v1.VolumeAvailable {
		for e := range s.By(claims, registry.UnboundIndex, storagehelpers.GetPersistentVolumeClass(pv)) {
			out = append(out, e.Key)
		}
	}
	for e := range s.By(claims, registry.VolumeIndex, pv.Name) {
		out = append(out, e.Key)
	}
	return out
}

// ofClass: claims of the class, and of none, as it may be the default now.
func (k *controller) ofClass(c view.Change) (out []view.Key) {
	if c.New == nil {
		return nil
	}
	names := []string{c.New.Key.Name}
	if storageobject.MarkedDefault(c.New.Object.(*storagev1.StorageClass)) {
		names = append(names, "")
	}
	for _, name := range names {
		for e := range k.View.Snapshot().By(claims, registry.UnboundIndex, name) {
			out = append(out, e.Key)
		}
	}
	return out
}

// ofPod: a new pod is what a claim may have waited for.
func (k *controller) ofPod(c view.Change) (out []view.Key) {
	if c.Old != nil || c.New == nil {
		return nil
	}
	pod := c.New.Object.(*v1.Pod)
	for _, name := range registry.ClaimsOf(pod) {
		e := k.View.Snapshot().Get(claims, pod.Namespace, name)
		if e != nil && !metav1.HasAnnotation(e.Object.(*v1.PersistentVolumeClaim).ObjectMeta, storagehelpers.AnnBindCompleted) {
			out = append(out, e.Key)
		}
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	d := &deed{controller: k, ctx: ctx}
	var err error
	// What goes while it is looked at may have been told as gone before its operation began.
	left := func(r schema.GroupResource, of *view.Entry) bool {
		now := k.View.Snapshot().Get(r, key.Namespace, key.Name)
		return now == nil || now.Meta.GetUID() != of.Meta.GetUID()
	}
	if key.Namespace == "" {
		if e := s.Get(volumes, "", key.Name); e != nil {
			if err = d.volume(e.Object.(*v1.PersistentVolume), world{s}); left(volumes, e) {
				k.ops.step(e.Meta.GetUID(), nil)
			}
		}
	} else if e := s.Get(claims, key.Namespace, key.Name); e != nil {
		if err = d.claim(e.Object.(*v1.PersistentVolumeClaim), world{s}); left(claims, e) {
			k.ops.forget(e.Meta.GetUID())
		}
	}
	if apierrors.IsNotFound(err) { // gone meanwhile
		err = nil
	}
	return loop.Result{Wrote: d.wrote}, err
}

// world is a snapshot as the plans ask it.
type world struct{ s view.Snapshot }

func (w world) Volume(name string) *v1.PersistentVolume {
	if e := w.s.Get(volumes, "", name); e != nil {
		return e.Object.(*v1.PersistentVolume)
	}
	return nil
}

func (w world) Volumes() (out []*v1.PersistentVolume) {
	for e := range w.s.All(volumes, "", view.Key{}) {
		out = append(out, e.Object.(*v1.PersistentVolume))
	}
	return out
}

func (w world) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	if e := w.s.Get(claims, namespace, name); e != nil {
		return e.Object.(*v1.PersistentVolumeClaim)
	}
	return nil
}

func (w world) Class(name string) *storagev1.StorageClass {
	if e := w.s.Get(classes, "", name); e != nil {
		return e.Object.(*storagev1.StorageClass)
	}
	return nil
}

func (w world) DefaultClass() *storagev1.StorageClass {
	var all []*storagev1.StorageClass
	for e := range w.s.All(classes, "", view.Key{}) {
		all = append(all, e.Object.(*storagev1.StorageClass))
	}
	return storageobject.DefaultOf(all)
}

func (w world) Waiting(c *v1.PersistentVolumeClaim) (out []string) {
	for e := range w.s.By(pods, registry.ClaimIndex, c.Namespace+"/"+c.Name) {
		pod := e.Object.(*v1.Pod)
		if pod.Spec.NodeName == "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			out = append(out, pod.Name)
		}
	}
	return out
}

// deed is one reconciliation: what is written in it.
type deed struct {
	*controller
	ctx   context.Context
	wrote int64
}

func (d *deed) tell(obj runtime.Object, e *Event) {
	if e != nil {
		d.Events.Event(obj, e.Type, e.Reason, e.Message)
	}
}

func (d *deed) claim(c *v1.PersistentVolumeClaim, w World) error {
	p := ForClaim(c, w)
	if p.Bind != nil {
		err := d.bind(p.Bind, c)
		d.ops.step(c.UID, err)
		return err
	}
	if p.Class != "" {
		_, err := edit(d, c, "", func(c *v1.PersistentVolumeClaim) (bool, error) {
			if storagehelpers.PersistentVolumeClaimHasClass(c) {
				return false, nil
			}
			c.Spec.StorageClassName = &p.Class
			return true, nil
		})
		d.ops.classed(err)
		return err
	}
	if p.Provisioner != "" {
		d.ops.begin(c.UID, p.Provisioner, "provision")
		if _, err := edit(d, c, "", func(c *v1.PersistentVolumeClaim) (bool, error) { return provisionedBy(c, p.Provisioner), nil }); err != nil {
			d.ops.step(c.UID, err)
			d.tell(c, warning("ProvisioningFailed", "Error saving claim: %v", err))
			return err
		}
	}
	if !p.Once || c.Status.Phase != p.Phase {
		d.tell(c, p.Event)
	}
	if p.Phase != "" && report(c.DeepCopy(), p.Phase, nil) {
		if _, err := edit(d, c, "status", func(c *v1.PersistentVolumeClaim) (bool, error) { return report(c, p.Phase, nil), nil }); err != nil {
			return err
		}
	}
	return p.Err
}

// bind has both name each other, the volume first, and both say so. Where all is said already nothing is written.
func (d *deed) bind(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) error {
	var err error
	if _, needed, _ := storagehelpers.GetBindVolumeToClaim(pv, c); needed || pv.Spec.ClaimRef == nil {
		if pv, err = edit(d, pv, "", func(pv *v1.PersistentVolume) (bool, error) { return bindVolume(pv, c) }); err != nil {
			return err
		}
	}
	if phased(pv.DeepCopy(), v1.VolumeBound, "") {
		if pv, err = edit(d, pv, "status", func(pv *v1.PersistentVolume) (bool, error) { return phased(pv, v1.VolumeBound, ""), nil }); err != nil {
			return err
		}
	}
	if needed, err := bindClaim(c.DeepCopy(), pv); err != nil {
		return err
	} else if needed {
		if c, err = edit(d, c, "", func(c *v1.PersistentVolumeClaim) (bool, error) { return bindClaim(c, pv) }); err != nil {
			return err
		}
	}
	if report(c.DeepCopy(), v1.ClaimBound, pv) {
		_, err = edit(d, c, "status", func(c *v1.PersistentVolumeClaim) (bool, error) { return report(c, v1.ClaimBound, pv), nil })
	}
	return err
}

func (d *deed) volume(pv *v1.PersistentVolume, w World) error {
	p := ForVolume(pv, w)
	d.tell(pv, p.Event)
	if p.ClaimEvent != nil {
		d.tell(w.Claim(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name), p.ClaimEvent)
	}
	if p.Unbind {
		out, err := edit(d, pv, "", func(pv *v1.PersistentVolume) (bool, error) { return unbind(pv), nil })
		if err != nil {
			return err
		}
		pv, p.Phase = out, v1.VolumeAvailable
	}
	if p.Phase != "" {
		if err := d.phase(pv, p.Phase, ""); err != nil {
			return err
		}
	}
	if p.Reclaim.Delete {
		d.ops.begin(pv.UID, p.Reclaim.By, "delete")
	}
	switch r := p.Reclaim; {
	case r.Failed != nil:
		d.ops.step(pv.UID, errors.New(r.Failed.Message))
		return d.failed(pv, r.Failed)
	case r.Remove != "":
		if err := d.Remove(r.Remove); err != nil {
			d.ops.step(pv.UID, err)
			return d.failed(pv, warning("VolumeFailedDelete", "%v", err))
		}
		if pv.DeletionTimestamp != nil {
			return nil
		}
		err := d.Client.Delete(d.ctx, client.Volumes.At("", pv.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}})
		if err != nil { // else it is over when the volume has gone
			d.ops.step(pv.UID, err)
		}
		return err
	}
	return nil
}

func (d *deed) phase(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase, message string) error {
	if pv.Status.Phase == phase {
		return nil
	}
	_, err := edit(d, pv, "status", func(pv *v1.PersistentVolume) (bool, error) { return phased(pv, phase, message), nil })
	return err
}

// failed is told once.
func (d *deed) failed(pv *v1.PersistentVolume, why *Event) error {
	if pv.Status.Phase == v1.VolumeFailed {
		return nil
	}
	if err := d.phase(pv, v1.VolumeFailed, why.Message); err != nil {
		return err
	}
	d.tell(pv, why)
	return nil
}

// edit changes the object that was looked at, and notes the revision of the write. Another one of its name is a conflict.
func edit[T metav1.Object](d *deed, of T, subresource string, change func(T) (bool, error)) (T, error) {
	ref := client.Claims.At(of.GetNamespace(), of.GetName()).Sub(subresource)
	if of.GetNamespace() == "" {
		ref = client.Volumes.At("", of.GetName()).Sub(subresource)
	}
	out, err := d.Client.Mutate(d.ctx, ref, func(o runtime.Object) (bool, error) {
		now := o.(T)
		if now.GetUID() != of.GetUID() {
			return false, conflict(ref.Resource.Resource, ref.Name, "it was made anew")
		}
		return change(now)
	})
	if err != nil {
		var none T
		return none, err
	}
	d.wrote = max(d.wrote, loop.Revision(out))
	return out.(T), nil
}
