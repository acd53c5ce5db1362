//lint:file-ignore SA1019 spec.configSource is deprecated, and an API server still drops it and warns of it.

package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/gate"
)

func nodeKind() *Kind {
	of := func(obj runtime.Object) *v1.Node { return obj.(*v1.Node) }
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Node"),
		Resource:   "nodes",
		Singular:   "node",
		ShortNames: []string{"no"},
		Dir:        "minions",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.Node{} },
		NewList:    func() runtime.Object { return &v1.NodeList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(obj runtime.Object) { defaultNode(of(obj)) },
		// A node registers with its status.
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Spec.ConfigSource, of(obj).Status.Config = nil, nil
			dropNode(of(obj), &v1.Node{})
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateNode(of(obj)) },
		Warnings: func(obj runtime.Object) []string { return nodeWarnings(of(obj)) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Status = of(old).Status
					if of(old).Spec.ConfigSource == nil {
						of(obj).Spec.ConfigSource = nil
					}
					dropNode(of(obj), of(old))
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return append(validateNode(of(obj)), validateNodeUpdate(of(obj), of(old))...)
				},
				Warnings:           func(obj, _ runtime.Object) []string { return nodeWarnings(of(obj)) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = of(old).Spec
					if of(old).Status.Config == nil {
						of(obj).Status.Config = nil
					}
					if !gate.KubeletInUserNamespace && of(old).Status.NodeInfo.RunningInUserNamespace == nil {
						of(obj).Status.NodeInfo.RunningInUserNamespace = nil
					}
				},
				Validate:           func(obj, old runtime.Object) field.ErrorList { return validateNodeUpdate(of(obj), of(old)) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(clusterFields(obj), "spec.unschedulable", fmt.Sprint(of(obj).Spec.Unschedulable))
		},
		Subresources: []Subresource{proxyPart("NodeProxyOptions")},
		Columns:      nodeColumns(),
		Row:          func(obj runtime.Object, now time.Time) []any { return nodeRow(of(obj), now) },
	}
}

// defaultNode: all of the capacity can be allocated unless something else is said; a node's one range of pod addresses and the
// list of them agree, the older field winning.
func defaultNode(n *v1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	for _, list := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		for name, q := range list {
			q.RoundUp(resource.Milli)
			list[name] = q
		}
	}
	switch s := &n.Spec; {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
}

func dropNode(n, old *v1.Node) {
	if !gate.InPlacePodVerticalScalingSchedulerPreemption && old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil
	}
}

func nodeWarnings(n *v1.Node) []string {
	var out []string
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(specPath.Child("podCIDRs").Index(i), cidr)...)
	}
	return out
}

func nodeColumns() []metav1.TableColumnDefinition {
	info, status := v1.NodeSystemInfo{}.SwaggerDoc(), v1.NodeStatus{}.SwaggerDoc()
	wide := func(name, doc string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1, Description: doc}
	}
	return []metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Status", Type: "string", Description: "The status of the node"},
		{Name: "Roles", Type: "string", Description: "The roles of the node"},
		ageColumn,
		{Name: "Version", Type: "string", Description: info["kubeletVersion"]},
		wide("Internal-IP", status["addresses"]),
		wide("External-IP", status["addresses"]),
		wide("OS-Image", info["osImage"]),
		wide("Kernel-Version", info["kernelVersion"]),
		wide("Container-Runtime", info["containerRuntimeVersion"]),
	}
}

func nodeRow(n *v1.Node, now time.Time) []any {
	info := &n.Status.NodeInfo
	known := func(s string) string { return cmp.Or(s, "<unknown>") }
	kernel := known(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, nodeStatus(n), nodeRoles(n), age(n.CreationTimestamp, now), info.KubeletVersion,
		nodeAddress(n, v1.NodeInternalIP), nodeAddress(n, v1.NodeExternalIP),
		known(info.OSImage), kernel, known(info.ContainerRuntimeVersion),
	}
}

func nodeStatus(n *v1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != v1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == v1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles are in labels node-role.kubernetes.io/<role>, or in the value of kubernetes.io/role.
func nodeRoles(n *v1.Node) string {
	var roles []string
	for k, v := range n.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if k == "kubernetes.io/role" && v != "" {
			roles = append(roles, v)
		}
	}
	slices.Sort(roles)
	return cmp.Or(strings.Join(slices.Compact(roles), ","), "<none>")
}

func nodeAddress(n *v1.Node, t v1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return "<none>"
}
