package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/owning"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Name is of the component, and of the events' source.
const Name = "deployment-controller"

const workers = 5

var (
	kind        = appsv1.SchemeGroupVersion.WithKind("Deployment")
	setKind     = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	deployments = client.Resource{Group: appsv1.GroupName, Resource: "deployments"}
	sets        = client.Resource{Group: appsv1.GroupName, Resource: "replicasets"}
	pods        = schema.GroupResource(client.Pods)
)

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct{ Config }

// New makes the controller. Its keys are Deployments.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("deployment"); err != nil {
		return nil, err
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: Name, View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(deployments), Keys: loop.Itself},
			{Resource: schema.GroupResource(sets), Keys: k.setKeys},
			{Resource: pods, Keys: k.podKeys},
		},
	})
}

// setKeys: whose the ReplicaSet was and is; of one that nobody controls, everybody who might take it.
func (k *controller) setKeys(c view.Change) (out []view.Key) {
	for _, e := range []*view.Entry{c.Old, c.New} {
		if e == nil {
			continue
		}
		if name := ownerOf(e.Meta, kind); name != "" {
			out = append(out, view.Key{Namespace: e.Key.Namespace, Name: name})
		}
		if e != c.New || metav1.GetControllerOfNoCopy(e.Meta) != nil {
			continue
		}
		for d := range k.View.Snapshot().All(schema.GroupResource(deployments), e.Key.Namespace, view.Key{}) {
			s, err := metav1.LabelSelectorAsSelector(d.Object.(*appsv1.Deployment).Spec.Selector)
			if err == nil && s.Matches(labels.Set(e.Meta.GetLabels())) {
				out = append(out, d.Key)
			}
		}
	}
	return out
}

// podKeys: a Deployment that makes its pods anew waits for the end of the old ones.
func (k *controller) podKeys(c view.Change) []view.Key {
	if c.Old == nil || c.New != nil && !(ended(c.New.Object) && !ended(c.Old.Object)) {
		return nil
	}
	now := k.View.Snapshot()
	e := now.Get(schema.GroupResource(sets), c.Old.Key.Namespace, ownerOf(c.Old.Meta, setKind))
	if e == nil {
		return nil
	}
	d := now.Get(schema.GroupResource(deployments), e.Key.Namespace, ownerOf(e.Meta, kind))
	if d == nil || d.Object.(*appsv1.Deployment).Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return []view.Key{d.Key}
}

// ownerOf is the name of an object's controller when it is of the kind.
func ownerOf(m metav1.Object, owner schema.GroupVersionKind) string {
	ref := metav1.GetControllerOfNoCopy(m)
	if ref == nil || ref.Kind != owner.Kind {
		return ""
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != owner.Group {
		return ""
	}
	return ref.Name
}

func ended(obj runtime.Object) bool {
	p := obj.(*v1.Pod).Status.Phase
	return p == v1.PodSucceeded || p == v1.PodFailed
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(deployments), key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	d := e.Object.(*appsv1.Deployment)
	plan := Decide(see(s, d), time.Now())
	w := &work{controller: k, ctx: ctx, d: d}
	err := w.apply(&plan)
	return loop.Result{Wrote: w.rev, Again: plan.Again}, err
}

// see gathers what a plan needs.
func see(s view.Snapshot, d *appsv1.Deployment) Seen {
	seen := Seen{Deployment: d}
	for _, owner := range []string{string(d.UID), registry.Uncontrolled(d.Namespace)} {
		for e := range s.By(schema.GroupResource(sets), registry.ControllerIndex, owner) {
			seen.Sets = append(seen.Sets, e.Object.(*appsv1.ReplicaSet))
		}
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return seen
	}
	seen.Running = map[types.UID]bool{}
	for _, rs := range seen.Sets {
		for e := range s.By(pods, registry.ControllerIndex, string(rs.UID)) {
			if !ended(e.Object) {
				seen.Running[rs.UID] = true
				break
			}
		}
	}
	return seen
}

// work is a plan being done.
type work struct {
	*controller
	ctx context.Context
	d   *appsv1.Deployment
	rev int64 // of the last write
}

func (w *work) wrote(obj runtime.Object) { w.rev = max(w.rev, loop.Revision(obj)) }

func (w *work) apply(p *Plan) error {
	for _, rs := range p.Release {
		if err := w.own(rs, w.release); err != nil {
			return err
		}
	}
	for _, rs := range p.Adopt {
		if err := w.own(rs, w.adopt); err != nil {
			return err
		}
	}
	for _, e := range p.Events {
		w.Events.Event(w.d, e.Type, e.Reason, e.Message)
	}
	if p.Rollback != nil {
		return w.rollBack(p.Rollback)
	}
	if p.Create != nil {
		if created, err := w.create(p); !created || err != nil {
			return err
		}
	}
	for _, c := range p.Change {
		if err := w.change(c); err != nil {
			return err
		}
	}
	for _, rs := range p.Delete {
		err := w.Client.Delete(w.ctx, sets.At(rs.Namespace, rs.Name), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return w.report(&p.Status, p.Revision)
}

// own changes whose a ReplicaSet is.
func (w *work) own(rs *appsv1.ReplicaSet, change func(*appsv1.ReplicaSet) bool) error {
	out, err := w.Client.Mutate(w.ctx, sets.At(rs.Namespace, rs.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.ReplicaSet)
		return fresh.UID == rs.UID && change(fresh), nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.wrote(out)
	return err
}

func (w *work) adopt(rs *appsv1.ReplicaSet) bool {
	return rs.DeletionTimestamp == nil && owning.Take(rs, w.d, kind)
}

func (w *work) release(rs *appsv1.ReplicaSet) bool { return owning.Drop(rs, w.d.UID) }

// stale is returned when an object is not what the plan was made of: another one is made.
func stale(r client.Resource, name string) error {
	return apierrors.NewConflict(schema.GroupResource(r), name, errors.New("it has changed"))
}

func (w *work) rollBack(b *Rollback) error {
	out, err := w.Client.Mutate(w.ctx, deployments.At(w.d.Namespace, w.d.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.Deployment)
		if fresh.UID != w.d.UID || fresh.Generation != w.d.Generation {
			return false, stale(deployments, w.d.Name)
		}
		if b.Template != nil {
			fresh.Spec.Template, fresh.Annotations = *b.Template.DeepCopy(), maps.Clone(b.Annotations)
		}
		delete(fresh.Annotations, appsv1.DeprecatedRollbackTo)
		return true, nil
	})
	w.wrote(out)
	return err
}

// change makes a ReplicaSet what the plan says, unless it was made something else meanwhile.
func (w *work) change(c Change) error {
	from := *c.Set.Spec.Replicas
	out, err := w.Client.Mutate(w.ctx, sets.At(c.Set.Namespace, c.Set.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.ReplicaSet)
		if fresh.UID != c.Set.UID || fresh.Generation != c.Set.Generation {
			return false, stale(sets, c.Set.Name)
		}
		fresh.Spec.Replicas, fresh.Spec.MinReadySeconds = &c.Replicas, c.MinReady
		for key, value := range c.Annotations {
			metav1.SetMetaDataAnnotation(&fresh.ObjectMeta, key, value)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	w.wrote(out)
	switch {
	case c.Replicas > from:
		w.scaled("up", c.Set.Name, from, c.Replicas)
	case c.Replicas < from:
		w.scaled("down", c.Set.Name, from, c.Replicas)
	}
	return nil
}

func (w *work) scaled(direction, name string, from, to int32) {
	w.Events.Eventf(w.d, v1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, name, from, to)
}

// report writes the status, and the number of the revision with it.
func (w *work) report(s *appsv1.DeploymentStatus, revision string) error {
	if equality.Semantic.DeepEqual(w.d.Status, *s) && (revision == "" || w.d.Annotations[revisionNote] == revision) {
		return nil
	}
	out, err := w.Client.Mutate(w.ctx, deployments.At(w.d.Namespace, w.d.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.Deployment)
		if fresh.UID != w.d.UID || !equality.Semantic.DeepEqual(fresh.Status, w.d.Status) {
			return false, stale(deployments, w.d.Name)
		}
		fresh.Status = *s.DeepCopy()
		if revision != "" {
			metav1.SetMetaDataAnnotation(&fresh.ObjectMeta, revisionNote, revision)
		}
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.wrote(out)
	return err
}

// create makes the new revision's ReplicaSet. created is false when there is nothing more to do about the plan now.
func (w *work) create(p *Plan) (created bool, err error) {
	rs := p.Create
	out, err := w.Client.Create(w.ctx, sets.At(rs.Namespace, ""), rs)
	switch {
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return false, nil // everything here is on its way out
	case apierrors.IsAlreadyExists(err):
		return false, w.collided(rs, err)
	case err != nil:
		return false, errors.Join(err, w.failed(p, err))
	}
	w.wrote(out)
	if n := *rs.Spec.Replicas; n > 0 {
		w.scaled("up", rs.Name, 0, n)
	}
	if !sameTemplate(&out.(*appsv1.ReplicaSet).Spec.Template, &w.d.Spec.Template) {
		w.Events.Eventf(w.d, v1.EventTypeWarning, "ReplicaSetCreateError", "Admission changed the template of new replica set %q: it is not taken for this deployment's", rs.Name)
	}
	return true, nil
}

// failed tells why there is no new ReplicaSet.
func (w *work) failed(p *Plan, why error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", p.Create.Name, why)
	w.Events.Event(w.d, v1.EventTypeWarning, "ReplicaSetCreateError", message)
	if !hasDeadline(w.d) {
		return nil
	}
	r := roll{d: w.d, now: time.Now()}
	r.Status = *w.d.Status.DeepCopy()
	r.set(appsv1.DeploymentProgressing, v1.ConditionFalse, "ReplicaSetCreateError", message)
	return w.report(&r.Status, "")
}

// collided looks at the ReplicaSet that has the new one's name: it is the new one, or the name is chosen anew.
func (w *work) collided(rs *appsv1.ReplicaSet, exists error) error {
	obj, err := w.Client.Get(w.ctx, sets.At(rs.Namespace, rs.Name))
	if err != nil {
		return err
	}
	there := obj.(*appsv1.ReplicaSet)
	if metav1.IsControlledBy(there, w.d) && sameTemplate(&there.Spec.Template, &w.d.Spec.Template) {
		w.wrote(there) // the view does not have it yet: its arrival brings the next plan
		return nil
	}
	s := w.d.Status.DeepCopy()
	if s.CollisionCount == nil {
		s.CollisionCount = new(int32)
	}
	*s.CollisionCount++
	return errors.Join(exists, w.report(s, ""))
}
