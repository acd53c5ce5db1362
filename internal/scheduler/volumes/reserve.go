package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/view"
)

// Reserve promises the node's volumes to the pod's claims.
func (x *binding) Reserve(n *framework.Node) (framework.Reservation, error) {
	if len(x.delayed) == 0 {
		return nil, nil
	}
	bits, d := x.on(n)
	if bits != 0 {
		return nil, errors.New(bindingRejections[bits].Reasons[0])
	}
	s := x.b.s
	for _, m := range d.matches {
		s.taken[m.volume.Name] = m.claim
	}
	for _, p := range d.provisions {
		s.chosen[p.claim.UID] = n.Name
	}
	return &reservation{s, x.pod, n.Object, d, x.b.args.BindTimeout}, nil
}

// reservation is what one pod has been promised.
type reservation struct {
	s       *Storage
	pod     *v1.Pod
	node    *v1.Node
	d       decision
	timeout time.Duration
}

func (*reservation) Name() string { return bindingName }

func (r *reservation) End(bool) {
	for _, m := range r.d.matches {
		delete(r.s.taken, m.volume.Name)
	}
	for _, p := range r.d.provisions {
		delete(r.s.chosen, p.claim.UID)
	}
}

// PreBind writes what was decided and waits until the claims are bound. A failure takes nothing back: a bound volume is still a
// good choice when the pod is tried again, and a provisioner that cannot make a volume removes the node's name from the claim.
func (r *reservation) PreBind(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var wrote int64
	for _, m := range r.d.matches {
		out, err := c.Mutate(ctx, client.Volumes.At("", m.volume.Name), func(o runtime.Object) (bool, error) {
			pv := o.(*v1.PersistentVolume)
			if pv.Spec.ClaimRef != nil && !storagehelpers.IsVolumeBoundToClaim(pv, m.claim) {
				return false, apierrors.NewConflict(v1.Resource("persistentvolumes"), pv.Name, errors.New("it is bound to another claim"))
			}
			clone, changed, err := storagehelpers.GetBindVolumeToClaim(pv, m.claim)
			if err == nil && changed {
				*pv = *clone
			}
			return changed, err
		})
		if err != nil {
			return err
		}
		wrote = max(wrote, revision(out))
	}
	for _, p := range r.d.provisions {
		out, err := c.Mutate(ctx, client.Claims.At(p.claim.Namespace, p.claim.Name), func(o runtime.Object) (bool, error) {
			claim := o.(*v1.PersistentVolumeClaim)
			node := claim.Annotations[storagehelpers.AnnSelectedNode]
			if claim.UID != p.claim.UID || node != "" && node != r.node.Name {
				return false, apierrors.NewConflict(v1.Resource("persistentvolumeclaims"), claim.Name, errors.New("it is to be on another node"))
			}
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnSelectedNode, r.node.Name)
			return node == "", nil
		})
		if err != nil {
			return err
		}
		wrote = max(wrote, revision(out))
	}
	if err := r.wait(ctx, wrote); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

func revision(o runtime.Object) (rev int64) {
	if m, ok := o.(metav1.Object); ok {
		_, _ = fmt.Sscan(m.GetResourceVersion(), &rev)
	}
	return rev
}

// wait checks each change of claims, volumes and pods from revision wrote on.
func (r *reservation) wait(ctx context.Context, wrote int64) error {
	s, err := r.s.view.WaitFor(ctx, wrote)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 1)
	for _, kind := range []schema.GroupResource{claims, volumes, pods} {
		w, err := r.s.view.Watch(kind, s.Rev())
		if err != nil {
			return err
		}
		go follow(ctx, w, changed)
	}
	for {
		if done, err := r.bound(now{s, r.s}); done || err != nil {
			return err
		}
		select {
		case err := <-changed:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		s = r.s.view.Snapshot()
	}
}

// follow signals changes; those that nobody has received yet count as one.
func follow(ctx context.Context, w *view.Watcher, changed chan<- error) {
	defer w.Close()
	for {
		_, _, err := w.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			select {
			case changed <- err:
			case <-ctx.Done():
			}
			return
		}
		select {
		case changed <- nil:
		default:
		}
	}
}

// bound tells whether everything that was decided has come about, or why it will not. It reads what is stored, without promises.
func (r *reservation) bound(n now) (bool, error) {
	if _, ok := get[*v1.Pod](n, pods, r.pod.Namespace, r.pod.Name); !ok {
		return false, fmt.Errorf("pod does not exist any more: %w", apierrors.NewNotFound(v1.Resource("pod"), r.pod.Name))
	}
	all := true
	for _, m := range r.d.matches {
		pv, ok := get[*v1.PersistentVolume](n, volumes, "", m.volume.Name)
		if !ok {
			return false, fmt.Errorf("failed to check binding: %w", apierrors.NewNotFound(v1.Resource("persistentvolume"), m.volume.Name))
		}
		if err := r.fits(pv); err != nil {
			return false, err
		}
		if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
			return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
		}
		c, ok := get[*v1.PersistentVolumeClaim](n, claims, m.claim.Namespace, m.claim.Name)
		if !ok {
			return false, fmt.Errorf("failed to check binding: %w", apierrors.NewNotFound(v1.Resource("persistentvolumeclaim"), m.claim.Name))
		}
		all = all && ready(c)
	}
	for _, p := range r.d.provisions {
		c, ok := get[*v1.PersistentVolumeClaim](n, claims, p.claim.Namespace, p.claim.Name)
		if !ok {
			return false, fmt.Errorf("failed to check provisioning pvc: %w", apierrors.NewNotFound(v1.Resource("persistentvolumeclaim"), p.claim.Name))
		}
		switch node, set := c.Annotations[storagehelpers.AnnSelectedNode]; {
		case len(c.Annotations) == 0:
			return false, fmt.Errorf("selectedNode annotation reset for PVC %q", c.Name)
		case !set || node != r.node.Name:
			return false, fmt.Errorf("provisioning failed for PVC %q", c.Name)
		}
		if pv, ok := get[*v1.PersistentVolume](n, volumes, "", c.Spec.VolumeName); ok {
			if err := r.fits(pv); err != nil {
				return false, err
			}
		}
		all = all && ready(c)
	}
	return all, nil
}

// ready tells whether a claim is bound and says so: the node may mount it at once.
func ready(c *v1.PersistentVolumeClaim) bool { return fullyBound(c) && c.Status.Phase == v1.ClaimBound }

func (r *reservation) fits(pv *v1.PersistentVolume) error {
	if err := storagehelpers.CheckNodeAffinity(pv, r.node.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, r.node.Name, err)
	}
	return nil
}
