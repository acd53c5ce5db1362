package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// downAfter is how long the runtime may not answer before the node says that it is down.
const downAfter = 30 * time.Second

// health is what the node knows about its runtime, and what it makes of it: the Ready condition.
//
//	(never answered) ── answered ──► answered(at) ── no answer for downAfter ──► down ── answered ──► ...
type health struct {
	mu       sync.Mutex
	answered time.Time // when the runtime last answered; zero before the first time
	status   *runtimev1.StatusResponse
	version  *runtimev1.VersionResponse
}

func (h *health) set(now time.Time, s *runtimev1.StatusResponse, v *runtimev1.VersionResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered, h.status, h.version = now, s, v
}

func (h *health) get() (*runtimev1.StatusResponse, *runtimev1.VersionResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status, h.version
}

// problems lists why the node is not ready, in upstream's words and order.
func (h *health) problems(now time.Time) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.answered.IsZero():
		return []string{"container runtime status check may not have completed yet"}
	case now.Sub(h.answered) > downAfter:
		out = append(out, "container runtime is down")
	}
	if c := condition(h.status, runtimev1.RuntimeReady); !c.GetStatus() {
		out = append(out, "container runtime not ready: "+describe(runtimev1.RuntimeReady, c))
	}
	if why := networkProblem(h.status); why != "" {
		out = append(out, why)
	}
	return out
}

// networkProblem is why pods have no network, in upstream's words; "" when they have one.
func networkProblem(s *runtimev1.StatusResponse) string {
	c := condition(s, runtimev1.NetworkReady)
	if c.GetStatus() {
		return ""
	}
	return "container runtime network not ready: " + describe(runtimev1.NetworkReady, c)
}

func condition(s *runtimev1.StatusResponse, name string) *runtimev1.RuntimeCondition {
	for _, c := range s.GetStatus().GetConditions() {
		if c.Type == name {
			return c
		}
	}
	return nil
}

func describe(name string, c *runtimev1.RuntimeCondition) string {
	return fmt.Sprintf("%s=%t reason:%s message:%s", name, c.GetStatus(), c.GetReason(), c.GetMessage())
}

// Pressure tells which resources run short (package eviction).
type Pressure struct{ Memory, Disk, PID bool }

// conditions are the node's conditions, without times, in the order in which upstream shows them.
func conditions(problems []string, p Pressure) []v1.NodeCondition {
	pick := func(t v1.NodeConditionType, on bool, yes, no [2]string) v1.NodeCondition {
		c := v1.NodeCondition{Type: t, Status: v1.ConditionFalse, Reason: no[0], Message: no[1]}
		if on {
			c.Status, c.Reason, c.Message = v1.ConditionTrue, yes[0], yes[1]
		}
		return c
	}
	text := strings.Join(problems, ", ")
	if len(problems) > 1 {
		text = "[" + text + "]"
	}
	return []v1.NodeCondition{
		pick(v1.NodeMemoryPressure, p.Memory,
			[2]string{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
			[2]string{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"}),
		pick(v1.NodeDiskPressure, p.Disk,
			[2]string{"KubeletHasDiskPressure", "kubelet has disk pressure"},
			[2]string{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"}),
		pick(v1.NodePIDPressure, p.PID,
			[2]string{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
			[2]string{"KubeletHasSufficientPID", "kubelet has sufficient PID available"}),
		pick(v1.NodeReady, len(problems) == 0,
			[2]string{"KubeletReady", "kubelet is posting ready status"},
			[2]string{"KubeletNotReady", text}),
	}
}
