package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/view"
)

var (
	podKind  = schema.GroupResource(client.Pods)
	nodeKind = schema.GroupResource(client.Nodes)
)

// Model is a kubelet of a hundred lines, for simulations of the control plane alone: it registers its node, renews its lease, says
// that every pod runs and is ready, ends those of Jobs after a while, and lets go of pods when their grace is over. It starts no containers,
// and its clock may be wrong.
func Model(d KubeletDeps) (component.Component, error) {
	return component.Func("model-"+d.Node, (&model{d}).run), nil
}

type model struct{ KubeletDeps }

func (m *model) run(ctx context.Context, ready func()) error {
	if err := m.register(ctx); err != nil {
		return quiet(ctx, err)
	}
	ready()
	for {
		s, err := m.World.View.Fresh(ctx)
		if err != nil {
			return quiet(ctx, err)
		}
		w, err := m.World.View.Watch(podKind, s.Rev())
		if err != nil {
			continue
		}
		err = m.follow(ctx, w)
		w.Close()
		if !errors.Is(err, view.ErrGone) {
			return quiet(ctx, err)
		}
	}
}

func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow looks at all pods of the node after each change; now and then it renews the lease.
func (m *model) follow(ctx context.Context, w *view.Watcher) error {
	lease := time.NewTicker(10 * time.Second)
	defer lease.Stop()
	for {
		again, err := m.sync(ctx)
		if err != nil {
			return err
		}
		wait := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-wait.C:
		case <-w.Ready():
			if _, _, err := w.Next(ctx); err != nil {
				return err
			}
		case <-lease.C:
			if err := cmp.Or(m.renew(ctx), m.known()); err != nil {
				return err
			}
		}
		wait.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// sync brings every pod a step forward and tells when the next grace or the next one's work is over.
func (m *model) sync(ctx context.Context) (again time.Duration, err error) {
	again = time.Hour
	there := map[types.UID]bool{}
	for e := range m.World.View.Snapshot().By(podKind, "spec.nodeName", m.Node) {
		p := e.Object.(*v1.Pod)
		there[p.UID] = true
		left, err := m.step(ctx, p)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, err
		}
		if left > 0 {
			again = min(again, left)
		}
	}
	m.Machine.only(&m.World.alive, there, m.known() == nil)
	return again, nil
}

// step brings one pod forward and tells how long the next step is away.
func (m *model) step(ctx context.Context, p *v1.Pod) (left time.Duration, err error) {
	ref := client.Pods.At(p.Namespace, p.Name)
	works := p.Labels[batchv1.JobNameLabel] != ""
	switch {
	case p.DeletionTimestamp != nil:
		if left := m.Machine.grace(p); left > 0 {
			return left, nil
		}
		if works && !ended(p) {
			if err := m.say(ctx, p, v1.PodFailed); err != nil {
				return 0, err
			}
		}
		m.Machine.stops(&m.World.alive, p)
		zero := int64(0)
		return 0, m.Client.Delete(ctx, ref, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID}})
	case ended(p):
		return 0, nil
	case p.Status.Phase == v1.PodPending || !ready(p):
		m.World.starts(m.Machine, p)
		return 0, m.say(ctx, p, v1.PodRunning)
	case works:
		takes, end := life(p)
		if left := m.Machine.works(p, takes); left > 0 {
			return left, nil
		}
		return 0, m.say(ctx, p, end)
	}
	return 0, nil
}

// say reports a pod's phase, and whether it is ready.
func (m *model) say(ctx context.Context, p *v1.Pod, phase v1.PodPhase) error {
	_, err := m.Client.Mutate(ctx, client.Pods.At(p.Namespace, p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Pod)
		if fresh.UID != p.UID || ended(fresh) {
			return false, nil
		}
		is := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: m.now()}
		if phase != v1.PodRunning {
			is.Status = v1.ConditionFalse
		}
		fresh.Status.Phase, fresh.Status.Reason, fresh.Status.Message = phase, "", ""
		if i := slices.IndexFunc(fresh.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady }); i < 0 {
			fresh.Status.Conditions = append(fresh.Status.Conditions, is)
		} else if fresh.Status.Conditions[i].Status != is.Status {
			fresh.Status.Conditions[i] = is
		}
		return true, nil
	})
	return err
}

// now is the machine's time.
func (m *model) now() metav1.Time {
	return metav1.NewTime(time.Now().Add(time.Duration(m.Machine.clock.Load())))
}

func (m *model) register(ctx context.Context) error {
	_, err := m.Client.Create(ctx, client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Node, Labels: map[string]string{
		v1.LabelHostname: m.Node, v1.LabelTopologyZone: m.Machine.zone,
	}}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = m.Client.Mutate(ctx, client.Nodes.At("", m.Node).Sub("status"), func(o runtime.Object) (bool, error) {
		n := o.(*v1.Node)
		n.Status.Allocatable, n.Status.Capacity = Allocatable(), Allocatable()
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: m.now(), LastTransitionTime: m.now()}}
		return true, nil
	})
	if err != nil {
		return err
	}
	return m.renew(ctx)
}

// renew renews the lease.
func (m *model) renew(ctx context.Context) error {
	renewed := metav1.NewMicroTime(m.now().Time)
	_, err := m.Client.Mutate(ctx, client.Leases.At(v1.NamespaceNodeLease, m.Node), func(o runtime.Object) (bool, error) {
		o.(*coordv1.Lease).Spec.RenewTime = &renewed
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		_, err = m.Client.Create(ctx, client.Leases.At(v1.NamespaceNodeLease, ""), &coordv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: m.Node}, Spec: coordv1.LeaseSpec{HolderIdentity: &m.Node, RenewTime: &renewed},
		})
	}
	if err != nil {
		return err
	}
	return nil
}

// known tells whether the API server has the node and takes it for ready.
func (m *model) known() error {
	if e := m.World.View.Snapshot().Get(nodeKind, "", m.Node); e != nil {
		for _, c := range e.Object.(*v1.Node).Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
	}
	return errors.New("the node object is gone or out of date: register again")
}
