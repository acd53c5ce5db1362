package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// Nodes is what the nodes use that have these labels.
func (m *Meter) Nodes(ctx context.Context, selector labels.Selector) ([]v1beta1.NodeMetrics, error) {
	snap := m.cfg.View.Snapshot()
	var nodes []*v1.Node
	for e := range snap.All(client.Nodes.At("", "").Resource, "", view.Key{}) {
		if selector.Matches(labels.Set(e.Meta.GetLabels())) {
			nodes = append(nodes, e.Object.(*v1.Node))
		}
	}
	return m.ofNodes(ctx, snap, nodes)
}

// Node is what one node uses.
func (m *Meter) Node(ctx context.Context, name string) (*v1beta1.NodeMetrics, error) {
	snap := m.cfg.View.Snapshot()
	node := nodeOf(snap, name)
	if node == nil {
		return nil, apierrors.NewNotFound(v1.Resource("nodes"), name)
	}
	found, err := m.ofNodes(ctx, snap, []*v1.Node{node})
	if err == nil && len(found) == 0 {
		err = apierrors.NewNotFound(v1beta1.Resource("nodemetrics"), name)
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (m *Meter) ofNodes(ctx context.Context, snap view.Snapshot, nodes []*v1.Node) ([]v1beta1.NodeMetrics, error) {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.Name] = true
	}
	spans, err := m.measure(ctx, snap, names)
	if err != nil {
		return nil, err
	}
	out := []v1beta1.NodeMetrics{}
	for _, n := range nodes {
		s, ok := spans[n.Name]
		if !ok {
			continue
		}
		if l, ok := s.node(); ok {
			out = append(out, v1beta1.NodeMetrics{
				ObjectMeta: metaOf(n), Timestamp: metav1.NewTime(l.At), Window: metav1.Duration{Duration: l.Window}, Usage: l.list(),
			})
		}
	}
	return out, nil
}

// Pods is what each container of the running pods uses that are in a namespace ("": in any) and have these labels. A pod of which that
// cannot be told yet is left out.
func (m *Meter) Pods(ctx context.Context, namespace string, selector labels.Selector) ([]v1beta1.PodMetrics, error) {
	snap := m.cfg.View.Snapshot()
	var pods []*v1.Pod
	for e := range snap.All(client.Pods.At("", "").Resource, namespace, view.Key{}) {
		if selector.Matches(labels.Set(e.Meta.GetLabels())) {
			pods = append(pods, e.Object.(*v1.Pod))
		}
	}
	return m.ofPods(ctx, snap, pods)
}

// Pod is what the containers of one pod use.
func (m *Meter) Pod(ctx context.Context, namespace, name string) (*v1beta1.PodMetrics, error) {
	snap := m.cfg.View.Snapshot()
	e := snap.Get(client.Pods.At("", "").Resource, namespace, name)
	if e == nil {
		return nil, apierrors.NewNotFound(v1.Resource("pods"), name)
	}
	found, err := m.ofPods(ctx, snap, []*v1.Pod{e.Object.(*v1.Pod)})
	if err == nil && len(found) == 0 {
		err = apierrors.NewNotFound(v1beta1.Resource("podmetrics"), namespace+"/"+name)
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (m *Meter) ofPods(ctx context.Context, snap view.Snapshot, pods []*v1.Pod) ([]v1beta1.PodMetrics, error) {
	names := map[string]bool{}
	pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.Status.Phase != v1.PodRunning || p.Spec.NodeName == "" })
	for _, p := range pods {
		names[p.Spec.NodeName] = true
	}
	spans, err := m.measure(ctx, snap, names)
	if err != nil {
		return nil, err
	}
	out := []v1beta1.PodMetrics{}
	for _, p := range pods {
		s, ok := spans[p.Spec.NodeName]
		if !ok {
			continue
		}
		if loads, ok := s.pod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}); ok {
			out = append(out, podMetrics(p, loads))
		}
	}
	return out, nil
}

// podMetrics has the window of the container that was measured first.
func podMetrics(p *v1.Pod, loads map[string]Load) v1beta1.PodMetrics {
	out := v1beta1.PodMetrics{ObjectMeta: metaOf(p)}
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		l := loads[name]
		if out.Timestamp.IsZero() || l.At.Before(out.Timestamp.Time) {
			out.Timestamp, out.Window = metav1.NewTime(l.At), metav1.Duration{Duration: l.Window}
		}
		out.Containers = append(out.Containers, v1beta1.ContainerMetrics{Name: name, Usage: l.list()})
	}
	return out
}

// metaOf: figures are told under the name and the labels of what they are about, and are as old as the answer.
func metaOf(obj metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Labels: maps.Clone(obj.GetLabels()), CreationTimestamp: metav1.NewTime(time.Now()),
	}
}

func (l Load) list() v1.ResourceList {
	cpu := resource.NewScaledQuantity(l.CPU, resource.Nano)
	return v1.ResourceList{v1.ResourceCPU: *cpu, v1.ResourceMemory: *resource.NewQuantity(l.Memory, resource.BinarySI)}
}
