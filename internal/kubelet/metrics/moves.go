package metrics

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/podlife"
)

// Moved counts what became of a pod from one state to the next.
func (m *Metrics) Moved(old, now podlife.State, at time.Time) {
	if old.Reject == nil && now.Reject != nil {
		m.rejected.WithLabelValues(rejection(now.Reject.Reason)).Inc()
	}
	if old.Stage == podlife.Admitting && now.Stage == podlife.Starting {
		m.admitted.WithLabelValues(asks(now.Pod)).Inc()
	}
	m.sandboxes(&old, &now)
	m.users(&old, &now)
	for i := range now.Containers {
		c := &now.Containers[i]
		m.container(old.Container(c.Name), c)
	}
	m.asked(old.Pod, now.Pod)
	m.deferred(&old, &now, at)
	m.startup(&old, &now, at)
}

// asks is on what level a pod asks for resources, and its class.
func asks(p *v1.Pod) (level, class string) {
	asking := func(r v1.ResourceRequirements) bool { return len(r.Requests)+len(r.Limits) > 0 }
	containers := slices.ContainsFunc(append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...),
		func(c v1.Container) bool { return asking(c.Resources) })
	whole := resourcehelper.IsPodLevelResourcesSet(p)
	level = map[[2]bool]string{{true, true}: "pod_and_container_level", {true, false}: "pod_level", {false, true}: "container_level"}[[2]bool{whole, containers}]
	return level, strings.ToLower(string(cm.QOS(p)))
}

// known are the reasons of rejections that are counted by their names.
var known = map[string]bool{
	"AppArmor": true, "PodOSSelectorNodeLabelDoesNotMatch": true, "PodOSNotSupported": true, "InvalidNodeInfo": true,
	"InitContainerRestartPolicyForbidden": true, "SupplementalGroupsPolicyNotSupported": true, "UnexpectedAdmissionError": true,
	"UnknownReason": true, "UnexpectedPredicateFailureType": true, "OutOfcpu": true, "OutOfmemory": true, "OutOfephemeral-storage": true,
	"OutOfpods": true, "PodLevelResourcesNotSupported": true, "PodFeatureUnsupported": true, "Evicted": true, "SysctlForbidden": true,
	"TopologyAffinityError": true, "NodeShutdown": true, "VolumeAttachmentLimitExceeded": true,
}

func rejection(reason string) string {
	switch {
	case known[reason]:
		return reason
	case strings.HasPrefix(reason, "OutOf"):
		return "OutOfExtendedResources"
	}
	return "Other"
}

// sandboxes counts attempts to make one, and those that failed.
func (m *Metrics) sandboxes(old, now *podlife.State) {
	switch {
	case began(old, now):
		m.startedPods.Inc()
	case failed(old, now):
		m.startedPodErrors.Inc()
	}
}

func began(old, now *podlife.State) bool {
	return old.Sandbox != podlife.SandboxCreating && now.Sandbox == podlife.SandboxCreating
}

func failed(old, now *podlife.State) bool {
	return old.Sandbox == podlife.SandboxCreating && now.Sandbox != podlife.SandboxCreating && now.Sandbox != podlife.SandboxUp &&
		now.Stage <= podlife.Running
}

// fresh are the pods with users of their own of whose newest sandbox it is not yet known whether it serves.
type fresh struct {
	mu   sync.Mutex
	pods map[types.UID]struct{}
}

// users counts attempts to start a pod with users of its own. One has also failed, once, when what starts first in the new sandbox
// cannot be started: most faults of the users show there.
func (m *Metrics) users(old, now *podlife.State) {
	if now.Pod.Spec.HostUsers == nil || *now.Pod.Spec.HostUsers {
		return
	}
	m.fresh.mu.Lock()
	defer m.fresh.mu.Unlock()
	if began(old, now) {
		m.startedUserPods.Inc()
		m.fresh.pods[now.Pod.UID] = struct{}{}
	}
	if _, is := m.fresh.pods[now.Pod.UID]; !is {
		return
	}
	bad := failed(old, now) || old.Stage <= podlife.Running && slices.ContainsFunc(now.Containers, func(c podlife.Container) bool {
		return unstarted(old.Container(c.Name), &c)
	})
	if bad {
		m.startedUserPodErrors.Inc()
	}
	if bad || now.Stage > podlife.Running || serves(now) {
		delete(m.fresh.pods, now.Pod.UID)
	}
}

// serves is whether what starts first in the sandbox has started: an init container where there is one, otherwise all main ones.
func serves(s *podlife.State) bool {
	for i := range s.Containers {
		c := &s.Containers[i]
		switch up := c.Stage >= podlife.Up && c.Stage != podlife.BackOff; {
		case c.Kind == podlife.Init || c.Kind == podlife.Sidecar:
			return up
		case c.Kind == podlife.Main && !up:
			return false
		}
	}
	return true
}

// Reasons of a container that could not be started.
var failures = map[string]bool{
	"ErrImagePull": true, "ErrImageNeverPull": true, "InvalidImageName": true, "ImageInspectError": true, "RegistryUnavailable": true,
	"SignatureValidationFailed": true, "CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
	"PostStartHookError": true, "PreCreateHookError": true, "PreStartHookError": true,
}

// unstarted is whether an attempt to start the container has just failed; old is nil for one that was not there.
func unstarted(old, now *podlife.Container) bool {
	return failures[now.Reason] && (old == nil || now.Reason != old.Reason)
}

func kind(c *podlife.Container) string {
	switch c.Kind {
	case podlife.Init, podlife.Sidecar:
		return "init_container"
	case podlife.Ephemeral:
		return "ephemeral_container"
	}
	return "container"
}

// container counts attempts to start one (old is nil for one that was not there), and ends.
func (m *Metrics) container(old, now *podlife.Container) {
	var was podlife.Container
	if old != nil {
		was = *old
	}
	if was.Stage != podlife.Pulling && now.Stage == podlife.Pulling {
		m.started.WithLabelValues(kind(now)).Inc()
	}
	if unstarted(old, now) {
		m.startErrors.WithLabelValues(kind(now), now.Reason).Inc()
	}
	in := now.Cur
	if in == nil || in.State != podlife.InstanceExited || was.Cur == nil && old == nil ||
		was.Cur != nil && was.Cur.ID == in.ID && was.Cur.State == podlife.InstanceExited {
		return
	}
	reason := in.Reason
	if reason == "" {
		reason = map[bool]string{true: "Completed", false: "Error"}[in.ExitCode == 0]
	}
	m.terminated.WithLabelValues(kind(now), strconv.Itoa(int(in.ExitCode)), reason).Inc()
}

// asked counts what a new form of the pod asks of the resources of its containers.
func (m *Metrics) asked(old, now *v1.Pod) {
	if old == now {
		return
	}
	for _, lists := range [][2][]v1.Container{{old.Spec.InitContainers, now.Spec.InitContainers}, {old.Spec.Containers, now.Spec.Containers}} {
		if len(lists[0]) != len(lists[1]) {
			continue
		}
		for i := range lists[1] {
			a, b := &lists[0][i].Resources, &lists[1][i].Resources
			for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
				m.change(name, "requests", a.Requests[name], b.Requests[name])
				m.change(name, "limits", a.Limits[name], b.Limits[name])
			}
		}
	}
}

func (m *Metrics) change(name v1.ResourceName, requirement string, a, b resource.Quantity) {
	var operation string
	switch d := b.Cmp(a); {
	case d == 0:
		return
	case a.IsZero():
		operation = "add"
	case b.IsZero():
		operation = "remove"
	case d > 0:
		operation = "increase"
	default:
		operation = "decrease"
	}
	m.resizes.WithLabelValues(string(name), requirement, operation).Inc()
}

// deferred counts how long a resize had to wait, when it does so no more.
func (m *Metrics) deferred(old, now *podlife.State, at time.Time) {
	waits := func(s *podlife.State) bool {
		return s.Pending != nil && s.Pending.Reason == v1.PodReasonDeferred && s.Stage <= podlife.Running
	}
	if !waits(old) || waits(now) {
		return
	}
	resolution := "accepted"
	switch {
	case now.Stage > podlife.Running:
		resolution = "terminated"
	case now.Pending != nil:
		return // infeasible now
	case old.Granted == now.Granted: // it asks for what it has
		resolution = "reverted"
	}
	m.deferredFor.WithLabelValues(resolution, bucket(now.Pod)).Observe(at.Sub(old.Pending.Since).Seconds())
}

// bucket is what upstream calls a pod's priority.
func bucket(p *v1.Pod) string {
	if p.Spec.Priority == nil || *p.Spec.Priority == 0 {
		return "normal"
	}
	switch n := *p.Spec.Priority; {
	case n >= 2_000_000_000:
		return "system-critical"
	case n >= 100_000:
		return "high"
	case n > 0:
		return "medium"
	case n > -1000:
		return "low"
	}
	return "very-low"
}

func (s *starts) begin(pod *v1.Pod, seen time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.UID] = &starting{seen: seen}
}

// startup measures the time from the moment that the kubelet first saw a pod until all its containers run. Pulls and init
// containers do not count, as the service level has it. Pods that mount something from outside the node, or end before, are left
// out.
func (m *Metrics) startup(old, now *podlife.State, at time.Time) {
	m.starts.mu.Lock()
	defer m.starts.mu.Unlock()
	s := m.starts.pods[now.Pod.UID]
	if s == nil {
		return
	}
	switch out := excluded(now); {
	case out && s.since.IsZero():
		s.since = at
	case !out && !s.since.IsZero():
		s.excluded += at.Sub(s.since)
		s.since = time.Time{}
	}
	if now.Stage > podlife.Running {
		delete(m.starts.pods, now.Pod.UID)
		return
	}
	if !running(now) {
		return
	}
	delete(m.starts.pods, now.Pod.UID)
	total := at.Sub(now.Pod.CreationTimestamp.Time)
	m.podStart.Observe(at.Sub(s.seen).Seconds())
	m.startTotal.WithLabelValues().Observe(total.Seconds())
	if stateful(now.Pod) {
		return
	}
	sli := max(0, total-s.excluded)
	m.startSLI.WithLabelValues().Observe(sli.Seconds())
	if !now.Pod.Spec.HostNetwork && !m.starts.network {
		m.starts.network = true
		m.firstNetwork.Set(sli.Seconds())
	}
}

func excluded(s *podlife.State) bool {
	for i := range s.Containers {
		c := &s.Containers[i]
		if c.Stage == podlife.Pulling || c.Kind == podlife.Init && c.Cur != nil && c.Cur.State == podlife.InstanceRunning {
			return true
		}
	}
	return false
}

func running(s *podlife.State) bool {
	any := false
	for i := range s.Containers {
		c := &s.Containers[i]
		if c.Kind != podlife.Main {
			continue
		}
		if c.Cur == nil || c.Cur.State != podlife.InstanceRunning {
			return false
		}
		any = true
	}
	return any
}

// stateful pods mount what is not made on the spot.
func stateful(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil {
			return true
		}
	}
	return false
}
