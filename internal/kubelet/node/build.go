package node

import (
	"cmp"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/registry/check"
)

const (
	maxNamesPerImage = 5
	// attachDetach says that the attach/detach controller looks after this node's volumes.
	attachDetach = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// object is the node as the kubelet registers it, without its status.
func (c *Config) object() *v1.Node {
	labels := map[string]string{
		v1.LabelHostname:          c.Hostname,
		v1.LabelOSStable:          runtime.GOOS,
		v1.LabelArchStable:        runtime.GOARCH,
		"beta.kubernetes.io/os":   runtime.GOOS,
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
	maps.Copy(labels, c.Labels)
	notes := map[string]string{attachDetach: "true"}
	maps.Copy(notes, c.Annotations)
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: labels, Annotations: notes},
		// Upstream's admission adds the taint to every new node; the node lifecycle controller takes it off when Ready.
		Spec: v1.NodeSpec{
			Unschedulable: c.Unschedulable,
			Taints:        append(slices.Clone(c.Taints), v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}),
		},
	}
	if c.PodCIDR.IsValid() {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = c.PodCIDR.String(), []string{c.PodCIDR.String()}
	}
	return n
}

// adopt brings an existing Node object up to date and tells whether that changed it. Its taints are left to others.
func (c *Config) adopt(n *v1.Node) bool {
	before := n.DeepCopy()
	want := c.object()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, want.Labels)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	maps.Copy(n.Annotations, want.Annotations)
	if n.Spec.PodCIDR == "" { // immutable once set
		n.Spec.PodCIDR, n.Spec.PodCIDRs = want.Spec.PodCIDR, want.Spec.PodCIDRs
	}
	return !equality.Semantic.DeepEqual(before, n)
}

// observed is everything that the status is made of besides the configuration.
type observed struct {
	status   *runtimev1.StatusResponse // nil before the runtime has answered
	version  *runtimev1.VersionResponse
	images   []*runtimev1.Image
	listed   bool // images are known
	problems []string
	pressure Pressure
}

// apply writes what the kubelet owns into a node's status, and tells whether anything but heartbeats changed. Conditions of
// others, attached volumes and resources that somebody else advertises stay.
func (c *Config) apply(s *v1.NodeStatus, o observed, now time.Time) bool {
	before := s.DeepCopy()
	s.Capacity = merged(s.Capacity, c.Capacity)
	s.Allocatable = merged(shared(s.Allocatable, s.Capacity), c.Allocatable)
	s.Addresses = c.addresses()
	s.DaemonEndpoints = v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: c.Port}}
	s.NodeInfo = c.info(o, before.NodeInfo)
	if o.status != nil {
		s.RuntimeHandlers, s.Features = handlers(o.status), features(o.status)
	}
	s.DeclaredFeatures = declared
	if o.listed {
		s.Images = images(o.images, c.MaxImages)
	}
	heartbeat := metav1.NewTime(now).Rfc3339Copy()
	kept := s.Conditions
	s.Conditions = nil
	for _, cond := range conditions(o.problems, o.pressure) {
		cond.LastHeartbeatTime, cond.LastTransitionTime = heartbeat, heartbeat
		if i := slices.IndexFunc(kept, func(k v1.NodeCondition) bool { return k.Type == cond.Type }); i >= 0 {
			if kept[i].Status == cond.Status {
				cond.LastTransitionTime = kept[i].LastTransitionTime
			}
			kept = slices.Delete(slices.Clone(kept), i, i+1)
		}
		s.Conditions = append(s.Conditions, cond)
	}
	s.Conditions = append(slices.Clone(kept), s.Conditions...)
	return !equality.Semantic.DeepEqual(still(before), still(s))
}

// still is a status without heartbeats.
func still(s *v1.NodeStatus) *v1.NodeStatus {
	s = s.DeepCopy()
	for i := range s.Conditions {
		s.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return s
}

func merged(have, own v1.ResourceList) v1.ResourceList {
	out := maps.Clone(have)
	if out == nil {
		out = v1.ResourceList{}
	}
	maps.Copy(out, own)
	return out
}

// shared is the allocatable before reservations. An extended resource is advertised in the capacity alone, so one that is no
// longer there is taken out of the allocatable too.
func shared(have, capacity v1.ResourceList) v1.ResourceList {
	out := merged(have, capacity)
	maps.DeleteFunc(out, func(name v1.ResourceName, _ resource.Quantity) bool {
		_, there := capacity[name]
		return !there && check.IsExtended(name)
	})
	return out
}

func (c *Config) addresses() []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, ip := range c.IPs {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: c.Hostname})
}

func (c *Config) info(o observed, before v1.NodeSystemInfo) v1.NodeSystemInfo {
	m := c.Facts
	info := v1.NodeSystemInfo{
		MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID,
		KernelVersion: m.Kernel, OSImage: m.OSImage,
		ContainerRuntimeVersion: before.ContainerRuntimeVersion, // while the runtime is away, the last known version
		KubeletVersion:          c.Version,
		OperatingSystem:         runtime.GOOS, Architecture: runtime.GOARCH,
		RunningInUserNamespace: &m.UserNS,
	}
	if m.Swap > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &m.Swap}
	}
	if o.version != nil {
		info.ContainerRuntimeVersion = o.version.RuntimeName + "://" + trimV(o.version.RuntimeVersion)
	}
	return info
}

// trimV takes the v off a version like v2.4.2, which some runtimes write and some do not.
func trimV(s string) string {
	if len(s) > 1 && s[0] == 'v' {
		return s[1:]
	}
	return s
}

func handlers(s *runtimev1.StatusResponse) []v1.NodeRuntimeHandler {
	var out []v1.NodeRuntimeHandler
	for _, h := range s.RuntimeHandlers {
		n := v1.NodeRuntimeHandler{Name: h.Name}
		if h.Features != nil {
			n.Features = &v1.NodeRuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: &h.Features.RecursiveReadOnlyMounts, UserNamespaces: &h.Features.UserNamespaces,
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func features(s *runtimev1.StatusResponse) *v1.NodeFeatures {
	if s.Features == nil {
		return nil
	}
	return &v1.NodeFeatures{SupplementalGroupsPolicy: &s.Features.SupplementalGroupsPolicy}
}

// images lists the biggest images, most of them at most, each with its first names: digests before tags.
func images(list []*runtimev1.Image, most int) []v1.ContainerImage {
	var out []v1.ContainerImage
	for _, i := range list {
		names := slices.Concat(i.RepoDigests, i.RepoTags)
		if len(names) == 0 {
			continue
		}
		out = append(out, v1.ContainerImage{Names: names[:min(len(names), maxNamesPerImage)], SizeBytes: int64(min(i.Size, 1<<62))})
	}
	slices.SortFunc(out, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	if most < 0 {
		return out
	}
	return out[:min(len(out), most)]
}

// validIPs tells whether there is a node address at all.
func validIPs(ips []netip.Addr) bool {
	return len(ips) > 0 && !slices.ContainsFunc(ips, func(a netip.Addr) bool { return !a.IsValid() || a.IsUnspecified() })
}
