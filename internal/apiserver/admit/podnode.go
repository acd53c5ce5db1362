package admit

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/release"
	"podo.dev/podo/internal/view"
)

// Rules that look at the node a pod is on.

var nodesResource = schema.GroupResource{Resource: "nodes"}

// PodTopologyLabels copies the zone and the region of its node to a pod when it gets there.
type PodTopologyLabels struct{ View *view.View }

// Mutate implements Mutator. A binding is an update of the pod here.
func (p *PodTopologyLabels) Mutate(_ context.Context, a *Attributes) error {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || !(a.Op == Create && a.Ref.Subresource == "") && a.Ref.Subresource != "binding" || pod.Spec.NodeName == "" {
		return nil
	}
	e := p.View.Snapshot().Get(nodesResource, "", pod.Spec.NodeName)
	if e == nil {
		return nil
	}
	for _, key := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		if value, ok := e.Meta.GetLabels()[key]; ok {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
		}
	}
	return nil
}

// NodeDeclaredFeatures refuses to change a pod in a way that its node does not say that it can carry out (status.declaredFeatures).
type NodeDeclaredFeatures struct{ View *view.View }

// current is the release whose features are looked at.
var current = version.MustParse(release.Kubernetes)

// Validate implements Validator.
func (f *NodeDeclaredFeatures) Validate(_ context.Context, a *Attributes) error {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || a.Op != Update || a.Ref.Subresource != "" && a.Ref.Subresource != "resize" || pod.Spec.NodeName == "" {
		return nil
	}
	old := a.Old.(*v1.Pod)
	if old.Generation == pod.Generation {
		return nil
	}
	known := features.DefaultFramework
	needed, err := known.InferForPodUpdate(&features.PodInfo{Spec: &old.Spec, Status: &old.Status}, &features.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, current)
	if err != nil || needed.IsEmpty() {
		return err
	}
	e := f.View.Snapshot().Get(nodesResource, "", pod.Spec.NodeName)
	if e == nil {
		return forbidden(a, fmt.Sprintf("node %q not found", pod.Spec.NodeName))
	}
	match, err := known.MatchNode(needed, e.Object.(*v1.Node))
	if err != nil || match.IsMatch {
		return err
	}
	return forbidden(a, fmt.Sprintf("pod update requires features %s which are not available on node %q", strings.Join(match.UnsatisfiedRequirements, ", "), pod.Spec.NodeName))
}

// PodResize refuses to make a pod larger than its node, or to resize one on a node that cannot.
type PodResize struct{ View *view.View }

// Why a resize is refused, for programs.
const (
	causeCapacity metav1.CauseType = "NodeCapacity"
	causePlatform metav1.CauseType = "UnsupportedPlatform"
)

// Validate implements Validator.
func (p *PodResize) Validate(_ context.Context, a *Attributes) error {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || a.Op != Update || a.Ref.Subresource != "resize" || pod.Spec.NodeName == "" || pod.Generation == a.Old.(*v1.Pod).Generation {
		return nil
	}
	e := p.View.Snapshot().Get(nodesResource, "", pod.Spec.NodeName)
	if e == nil {
		return forbidden(a, fmt.Sprintf("node %q not found", pod.Spec.NodeName))
	}
	node := e.Object.(*v1.Node)
	if os, ok := node.Labels[v1.LabelOSStable]; ok && os != "linux" {
		return because(forbidden(a, fmt.Sprintf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os)), causePlatform)
	}
	if msg := beyond(pod, node.Status.Allocatable); msg != "" {
		return because(forbidden(a, "node didn't have enough allocatable resources: "+msg), causeCapacity)
	}
	return nil
}

func beyond(pod *v1.Pod, allocatable v1.ResourceList) string {
	var msg []string
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	if cpu, has := requests[v1.ResourceCPU], allocatable[v1.ResourceCPU]; cpu.Cmp(has) > 0 {
		msg = append(msg, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), has.MilliValue()))
	}
	if memory, has := requests[v1.ResourceMemory], allocatable[v1.ResourceMemory]; memory.Cmp(has) > 0 {
		msg = append(msg, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), has.Value()))
	}
	return strings.Join(msg, "; ")
}

func because(err error, cause metav1.CauseType) error {
	e := err.(*apierrors.StatusError)
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	return e
}
