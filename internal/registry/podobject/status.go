package podobject

import (
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podspec"
)

// PrepareStatus takes from the request only the status. What an older kubelet does not know and therefore dropped is kept.
func PrepareStatus(pod, old *v1.Pod) {
	pod.DeletionTimestamp = nil
	pod.OwnerReferences = old.OwnerReferences
	is, was := &pod.Status, &old.Status
	if is.QOSClass == "" {
		is.QOSClass = was.QOSClass
	}
	if is.ResourceClaimStatuses == nil {
		is.ResourceClaimStatuses = was.ResourceClaimStatuses
	}
	if is.ExtendedResourceClaimStatus == nil {
		is.ExtendedResourceClaimStatus = was.ExtendedResourceClaimStatus
	}
	if is.NodeAllocatableResourceClaimStatuses == nil {
		is.NodeAllocatableResourceClaimStatuses = was.NodeAllocatableResourceClaimStatuses
	}
	keepObservedGenerations(is, was)
	drop(pod, old)
	pod.Spec = old.Spec // last: it is shared with everybody who reads the pod, and drop edits
	pod.DeletionTimestamp = old.DeletionTimestamp
}

// keepObservedGenerations fills in what was not told anew; conditions are matched by type, in order.
func keepObservedGenerations(is, was *v1.PodStatus) {
	if is.ObservedGeneration == 0 {
		is.ObservedGeneration = was.ObservedGeneration
	}
	seen := map[v1.PodConditionType]int{} // how many of the type were matched
	for i := range is.Conditions {
		c := &is.Conditions[i]
		n := seen[c.Type]
		seen[c.Type]++
		if c.ObservedGeneration != 0 {
			continue
		}
		for _, o := range was.Conditions {
			if o.Type != c.Type {
				continue
			}
			if n == 0 {
				c.ObservedGeneration = o.ObservedGeneration
				break
			}
			n--
		}
	}
}

// ValidateStatus judges a report of a pod's status.
func ValidateStatus(pod, old *v1.Pod) field.ErrorList {
	var e check.Errors
	annotationChanges(&e, pod, old)
	is, was := &pod.Status, &old.Status
	conditions(&e, is.Conditions)
	if pod.Spec.NodeName != old.Spec.NodeName {
		e.Forbidden(statusPath.Child("nodeName"), "may not be changed directly")
	}
	if n := is.NominatedNodeName; n != "" && n != was.NominatedNodeName {
		e.ObjectName(statusPath.Child("nominatedNodeName"), n, false)
		if gate.ClearingNominatedNodeNameAfterBinding && old.Spec.NodeName != "" {
			e.Forbidden(statusPath.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node")
		}
	}
	if is.ObservedGeneration < 0 {
		e.Invalid(statusPath.Child("observedGeneration"), is.ObservedGeneration, "must be a non-negative integer")
	}
	e.Add(apivalidation.ValidateImmutableField(is.QOSClass, was.QOSClass, statusPath.Child("qosClass")))
	transitions(&e, "containerStatuses", is.ContainerStatuses, was.ContainerStatuses, &old.Spec, old.Spec.Containers)
	transitions(&e, "initContainerStatuses", is.InitContainerStatuses, was.InitContainerStatuses, &old.Spec, old.Spec.InitContainers)
	transitions(&e, "ephemeralContainerStatuses", is.EphemeralContainerStatuses, was.EphemeralContainerStatuses, nil, nil)
	claimStatuses(&e, pod)
	podIPs(&e, is, was)
	hostIPs(&e, is, was)
	for _, l := range []struct {
		name       string
		list       []v1.ContainerStatus
		containers []v1.Container
		ephemeral  bool
	}{
		{"containerStatuses", is.ContainerStatuses, pod.Spec.Containers, false},
		{"initContainerStatuses", is.InitContainerStatuses, pod.Spec.InitContainers, false},
		{"ephemeralContainerStatuses", is.EphemeralContainerStatuses, nil, true},
	} {
		users(&e, statusPath.Child(l.name), l.list, pod.Spec.OS)
		allocated(&e, statusPath.Child(l.name), l.list, l.containers, l.ephemeral, is.ExtendedResourceClaimStatus)
	}
	return e.List()
}

func conditions(e *check.Errors, list []v1.PodCondition) {
	p := statusPath.Child("conditions")
	for i, c := range list {
		if c.ObservedGeneration < 0 {
			e.Invalid(p.Index(i).Child("observedGeneration"), c.ObservedGeneration, "must be a non-negative integer")
		}
		switch c.Type {
		case v1.PodScheduled, v1.PodReady, v1.PodInitialized:
		default:
			e.Qualified(p.Index(i).Child("Type"), string(c.Type))
		}
	}
}

// transitions: what has ended and is not to be restarted stays ended. A nil spec stands for ephemeral containers, which never
// restart.
func transitions(e *check.Errors, name string, is, was []v1.ContainerStatus, spec *v1.PodSpec, containers []v1.Container) {
	if spec != nil && podspec.MayRestartAll(spec) {
		return
	}
	for i := range was {
		ended := was[i].State.Terminated
		if ended == nil {
			continue
		}
		for j := range is {
			if is[j].Name != was[i].Name || is[j].State.Terminated != nil {
				continue
			}
			if spec == nil || !restarts(spec, containers, was[i].Name, ended.ExitCode) {
				e.Forbidden(statusPath.Child(name).Index(i).Child("state"), "may not be transitioned to non-terminated state")
			}
			break
		}
	}
}

func restarts(spec *v1.PodSpec, containers []v1.Container, name string, exitCode int32) bool {
	for i := range containers {
		if containers[i].Name == name {
			return Restarts(spec, &containers[i], exitCode)
		}
	}
	return false
}

// Restarts says whether a container that ended with the code is to be started again: by the first of its rules that matches,
// else by its own policy, else by the pod's.
func Restarts(spec *v1.PodSpec, c *v1.Container, exitCode int32) bool {
	policy := spec.RestartPolicy
	if c.RestartPolicy != nil {
		for _, r := range c.RestartPolicyRules {
			if r.ExitCodes == nil {
				continue
			}
			in := slices.Contains(r.ExitCodes.Values, exitCode)
			if r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn && in ||
				r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn && !in {
				return true
			}
		}
		policy = v1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

func claimStatuses(e *check.Errors, pod *v1.Pod) {
	p := statusPath.Child("resourceClaimStatuses")
	seen := sets.New[string]()
	for i, s := range pod.Status.ResourceClaimStatuses {
		if !slices.ContainsFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool { return c.Name == s.Name }) {
			e.Invalid(p.Index(i).Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if seen.Has(s.Name) {
			e.Duplicate(p.Index(i).Child("name"), s.Name)
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			for _, msg := range check.ObjectName(*s.ResourceClaimName, false) {
				e.Invalid(p.Index(i).Child("resourceClaimName"), s.ResourceClaimName, msg) // told as JSON, as upstream does
			}
		}
	}
	extendedClaim(e, pod)
	nodeClaims(e, pod)
}

func extendedClaim(e *check.Errors, pod *v1.Pod) {
	s, p := pod.Status.ExtendedResourceClaimStatus, statusPath.Child("extendedResourceClaimStatus")
	if s == nil {
		return
	}
	if len(s.RequestMappings) == 0 {
		e.Required(p.Child("requestMappings"), "at least one request mapping is required")
	}
	seen := sets.New[v1.ContainerExtendedResourceRequest]()
	for i, m := range s.RequestMappings {
		at := p.Child("requestMappings").Index(i)
		if c := container(&pod.Spec, m.ContainerName); c == nil {
			e.Invalid(at.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name")
		} else if _, ok := c.Resources.Requests[v1.ResourceName(m.ResourceName)]; !ok {
			e.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests")
		}
		e.DNSLabel(p.Child("requestName"), m.RequestName)
		if seen.Has(m) {
			e.Duplicate(at.Child("containerName"), m.ContainerName)
			e.Duplicate(at.Child("resourceName"), m.ResourceName)
			e.Duplicate(at.Child("requestName"), m.RequestName)
		}
		seen.Insert(m)
	}
	if s.ResourceClaimName == "" {
		e.Required(p.Child("resourceClaimName"), "")
	} else {
		e.ObjectName(p.Child("resourceClaimName"), s.ResourceClaimName, false)
	}
}

// container finds an init or main container by name.
func container(spec *v1.PodSpec, name string) *v1.Container {
	for c, kind := range podspec.Containers(spec) {
		if kind != podspec.Ephemeral && c.Name == name {
			return c
		}
	}
	return nil
}

// nodeClaims checks what device claims take of the node's own resources. Its gate is off, so only stored reports reach here.
func nodeClaims(e *check.Errors, pod *v1.Pod) {
	p := statusPath.Child("nodeAllocatableResourceClaimStatuses")
	for i, s := range pod.Status.NodeAllocatableResourceClaimStatuses {
		at := p.Index(i)
		if s.ResourceClaimName == "" {
			e.Required(at.Child("resourceClaimName"), "")
			continue
		}
		named := func(name *string) bool { return name != nil && *name == s.ResourceClaimName }
		if !slices.ContainsFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool { return named(c.ResourceClaimName) }) &&
			!slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(c v1.PodResourceClaimStatus) bool { return named(c.ResourceClaimName) }) {
			e.Invalid(at.Child("resourceClaimName"), s.ResourceClaimName, "no mapping found in pod reference")
		}
	}
}

func podIPs(e *check.Errors, is, was *v1.PodStatus) {
	ips := func(list []v1.PodIP) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = list[i].IP
		}
		return out
	}
	p := statusPath.Child("podIPs")
	addresses(e, p, ips(is.PodIPs), ips(was.PodIPs), is.PodIPs)
	if (is.PodIP != "") != (len(is.PodIPs) > 0) {
		e.Invalid(p, is.PodIPs, "podIP and podIPs must either both be set or both be unset")
	} else if len(is.PodIPs) > 0 && is.PodIP != is.PodIPs[0].IP {
		e.Invalid(p.Index(0).Child("ip"), is.PodIPs[0].IP, "must be equal to `podIP`")
	}
}

func hostIPs(e *check.Errors, is, was *v1.PodStatus) {
	ips := func(list []v1.HostIP) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = list[i].IP
		}
		return out
	}
	if len(is.HostIPs) == 0 {
		return
	}
	p := statusPath.Child("hostIPs")
	if is.HostIP != is.HostIPs[0].IP {
		e.Invalid(p.Index(0).Child("ip"), is.HostIPs[0].IP, "must be equal to `hostIP`")
	}
	addresses(e, p, ips(is.HostIPs), ips(was.HostIPs), is.HostIPs)
}

// addresses checks a list of at most one address per family; value is the list as findings show it.
func addresses(e *check.Errors, p *field.Path, is, was []string, value any) {
	for i, ip := range is {
		e.IP(p.Index(i), ip, was)
	}
	if len(is) < 2 {
		return
	}
	dual, err := netutils.IsDualStackIPStrings(is)
	if err != nil {
		e.Put(field.InternalError(p, fmt.Errorf("failed to check for dual stack with error:%v", err)))
	}
	if !dual || len(is) > 2 {
		e.Invalid(p, value, "may specify no more than one IP for each IP family")
	}
}

func users(e *check.Errors, p *field.Path, list []v1.ContainerStatus, os *v1.PodOS) {
	for i := range list {
		if list[i].User == nil || list[i].User.Linux == nil {
			continue
		}
		u, at := list[i].User.Linux, p.Index(i).Child("user", "linux")
		if os != nil && os.Name == v1.Windows {
			e.Forbidden(at, "cannot be set for a windows pod")
			continue
		}
		// The runtime reports what the image says, which may be more than a spec may ask for.
		if u.UID < 0 || u.UID > math.MaxUint32 {
			e.Invalid(at.Child("uid"), u.UID, fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32)))
		}
		e.Each(at.Child("gid"), u.GID, validation.IsValidGroupID(u.GID))
		for j, g := range u.SupplementalGroups {
			e.Each(at.Child("supplementalGroups").Index(j), g, validation.IsValidGroupID(g))
		}
	}
}

// allocated checks the health that is reported of devices. Ephemeral containers have none.
func allocated(e *check.Errors, p *field.Path, list []v1.ContainerStatus, containers []v1.Container, ephemeral bool, extended *v1.PodExtendedResourceClaimStatus) {
	for i := range list {
		at := p.Index(i).Child("allocatedResourcesStatus")
		if ephemeral {
			if len(list[i].AllocatedResourcesStatus) > 0 {
				e.Forbidden(at, "must not be specified in container status")
			}
			continue
		}
		for j, r := range list[i].AllocatedResourcesStatus {
			for k := range containers {
				if containers[k].Name == list[i].Name {
					allocatedName(e, at.Index(j).Child("name"), r.Name, &containers[k], extended)
					break
				}
			}
			health(e, at.Index(j).Child("resources"), r.Resources)
		}
	}
}

func allocatedName(e *check.Errors, p *field.Path, name v1.ResourceName, c *v1.Container, extended *v1.PodExtendedResourceClaimStatus) {
	claim, ok := strings.CutPrefix(string(name), "claim:")
	if !ok {
		if _, ok := c.Resources.Requests[name]; !ok {
			e.Invalid(p, name, "must match one of the container's resource requests")
		}
		return
	}
	for _, r := range c.Resources.Claims {
		if r.Request == "" && claim == r.Name || r.Request != "" && claim == r.Name+"/"+r.Request {
			return
		}
	}
	claimName, request, _ := strings.Cut(claim, "/")
	if extended != nil && request != "" && claimName == extended.ResourceClaimName {
		for _, m := range extended.RequestMappings {
			q := c.Resources.Requests[v1.ResourceName(m.ResourceName)]
			if m.ContainerName == c.Name && m.RequestName == request && !q.IsZero() {
				return
			}
		}
	}
	e.Invalid(p, name, "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "+
		"container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty")
}

func health(e *check.Errors, p *field.Path, list []v1.ResourceHealth) {
	seen := sets.New[v1.ResourceID]()
	for i, r := range list {
		check.OneOf(e, p.Index(i).Child("health"), r.Health,
			v1.ResourceHealthStatusHealthy, v1.ResourceHealthStatusUnhealthy, v1.ResourceHealthStatusUnknown)
		if m := r.Message; m != nil {
			if *m == "" {
				e.Required(p.Index(i).Child("message"), "must be non-empty if specified")
			} else if len(*m) > v1.ResourceHealthMessageMaxLength {
				e.TooLong(p.Index(i).Child("message"), v1.ResourceHealthMessageMaxLength)
			}
		}
		if seen.Has(r.ResourceID) {
			e.Duplicate(p.Index(i).Child("resourceID"), r.ResourceID)
		}
		seen.Insert(r.ResourceID)
	}
}
