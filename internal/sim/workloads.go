package sim

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// Workloads and the taints of nodes: what users do with them, and what must hold of them.

var (
	workloads = client.Resource{Resource: "replicationcontrollers"}
	workload  = schema.GroupResource(workloads)
)

// owners is what users do with workloads and nodes.
var owners = []action{{4, (*World).createWorkload}, {4, (*World).scale}, {2, (*World).deleteWorkload}, {2, (*World).taint}}

// shut is the taint that ends every pod of a node.
var shut = v1.Taint{Key: "sim/shut", Effect: v1.TaintEffectNoExecute}

func (w *World) createWorkload() {
	w.serial++
	name, n := fmt.Sprintf("rc-%d", w.serial), int32(w.rng.IntN(4))
	labels, grace := map[string]string{"rc": name}, int64(w.rng.IntN(20))
	rc := &v1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	rc.Spec.Replicas, rc.Spec.Selector = &n, labels
	rc.Spec.Template = &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []v1.Container{{Name: "main", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: w.program()}},
	}}
	_, err := w.admin.Create(w.ctx(), workloads.At("default", ""), rc)
	w.note("create %s of %d: %v", name, n, err)
}

func (w *World) anyWorkload() *v1.ReplicationController {
	var all []*v1.ReplicationController
	for e := range w.View.Snapshot().All(workload, "", view.Key{}) {
		all = append(all, e.Object.(*v1.ReplicationController))
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.rng.IntN(len(all))]
}

func (w *World) scale() {
	rc, n := w.anyWorkload(), int32(w.rng.IntN(4))
	if rc == nil {
		return
	}
	_, err := w.admin.Mutate(w.ctx(), workloads.At(rc.Namespace, rc.Name), func(o runtime.Object) (bool, error) {
		o.(*v1.ReplicationController).Spec.Replicas = &n
		return true, nil
	})
	w.note("scale %s to %d: %v", rc.Name, n, err)
}

func (w *World) deleteWorkload() {
	rc := w.anyWorkload()
	if rc == nil {
		return
	}
	how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[w.rng.IntN(3)]
	err := w.admin.Delete(w.ctx(), workloads.At(rc.Namespace, rc.Name), metav1.DeleteOptions{PropagationPolicy: &how})
	w.note("delete %s (%s): %v", rc.Name, how, err)
}

// taint shuts a node, or opens one that is shut.
func (w *World) taint() {
	m := w.machine()
	is := false
	_, err := w.admin.Mutate(w.ctx(), client.Nodes.At("", m.Name), func(o runtime.Object) (bool, error) {
		n := o.(*v1.Node)
		is = !shutting(n)
		var taints []v1.Taint
		for _, t := range n.Spec.Taints {
			if t.Key != shut.Key {
				taints = append(taints, t)
			}
		}
		if is {
			taints = append(taints, shut)
		}
		n.Spec.Taints = taints
		return true, nil
	})
	w.note("shut %s=%v: %v", m.Name, is, err)
}

func shutting(n *v1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == shut.Key {
			return true
		}
	}
	return false
}

// workloadsKept: each workload has the pods that it asks for, and no pod's owner has gone.
func (w *World) workloadsKept(s view.Snapshot) {
	w.t.Helper()
	have := map[string]int32{}
	for _, p := range pods(s) {
		ref := metav1.GetControllerOf(p)
		if ref == nil {
			continue
		}
		owner := map[string]schema.GroupResource{
			"ReplicationController": workload, "ReplicaSet": replicaSetKind, "StatefulSet": schema.GroupResource(statefulSets), "Job": schema.GroupResource(jobs),
		}[ref.Kind]
		if e := s.Get(owner, p.Namespace, ref.Name); e == nil || e.Meta.GetUID() != ref.UID {
			w.Failf(p, "pod %s is left of %s, which has gone", p.Name, ref.Name)
		}
		if !ended(p) {
			have[ref.Name]++
		}
	}
	w.deploymentsKept(s, have)
	for e := range s.All(workload, "", view.Key{}) {
		rc := e.Object.(*v1.ReplicationController)
		switch {
		case rc.DeletionTimestamp != nil:
			w.Failf(nil, "%s is still being deleted", rc.Name)
		case have[rc.Name] != *rc.Spec.Replicas || rc.Status.Replicas != *rc.Spec.Replicas || rc.Status.ObservedGeneration != rc.Generation:
			w.Failf(nil, "%s has %d pods of %d: %+v", rc.Name, have[rc.Name], *rc.Spec.Replicas, rc.Status)
		}
	}
}

// shutNodesEmpty: nothing stays on a node whose taint it does not tolerate.
func (w *World) shutNodesEmpty(s view.Snapshot) {
	w.t.Helper()
	for _, p := range pods(s) {
		if e := s.Get(nodeKind, "", p.Spec.NodeName); p.Spec.NodeName != "" && e != nil && shutting(e.Object.(*v1.Node)) && !ended(p) {
			w.Failf(p, "pod %s is on %s, which is shut", p.Name, p.Spec.NodeName)
		}
	}
}

// giveUpWorkloads deletes every workload, so that nothing replaces what goes.
func (w *World) giveUpWorkloads() {
	w.t.Helper()
	w.giveUpDeployments()
	w.giveUpKeepers()
	for e := range w.View.Snapshot().All(workload, "", view.Key{}) {
		w.must(w.admin.Delete(w.ctx(), workloads.At("default", e.Object.(*v1.ReplicationController).Name), metav1.DeleteOptions{}))
	}
}
