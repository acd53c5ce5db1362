package podobject

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"podo.dev/podo/internal/registry/podspec"
)

// Columns of `kubectl get pods`; those of priority 1 show with -o wide.
func Columns() []metav1.TableColumnDefinition {
	meta, status, spec := metav1.ObjectMeta{}.SwaggerDoc(), v1.PodStatus{}.SwaggerDoc(), v1.PodSpec{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: meta["name"]},
		{Name: "Ready", Type: "string", Description: "The aggregate readiness state of this pod for accepting traffic."},
		{Name: "Status", Type: "string", Description: "The aggregate status of the containers in this pod."},
		{Name: "Restarts", Type: "string", Description: "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."},
		{Name: "Age", Type: "string", Description: meta["creationTimestamp"]},
		{Name: "IP", Type: "string", Priority: 1, Description: status["podIP"]},
		{Name: "Node", Type: "string", Priority: 1, Description: spec["nodeName"]},
		{Name: "Nominated Node", Type: "string", Priority: 1, Description: status["nominatedNodeName"]},
		{Name: "Readiness Gates", Type: "string", Priority: 1, Description: spec["readinessGates"]},
	}
}

// Row has one cell a column.
func Row(pod *v1.Pod, now time.Time) []any {
	s := summarize(pod)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, since(s.lastRestart, now))
	}
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, restarts, since(pod.CreationTimestamp, now),
		orNone(ip), orNone(pod.Spec.NodeName), orNone(pod.Status.NominatedNodeName), readinessGates(pod),
	}
}

func since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Completed says of a pod whose end is final how it ended, for the table's row.
func Completed(pod *v1.Pod) []metav1.TableRowCondition {
	var message string
	switch pod.Status.Phase {
	case v1.PodSucceeded:
		message = "The pod has completed successfully."
	case v1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{
		{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase), Message: message},
	}
}

func readinessGates(pod *v1.Pod) string {
	gates := pod.Spec.ReadinessGates
	if len(gates) == 0 {
		return "<none>"
	}
	open := 0
	for _, g := range gates {
		if conditionIs(pod, g.ConditionType, v1.ConditionTrue) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(gates))
}

// conditionIs looks at the first condition of the type.
func conditionIs(pod *v1.Pod, t v1.PodConditionType, status v1.ConditionStatus) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			return c.Status == status
		}
	}
	return false
}

// summary is a pod in one line: what most needs to be known of its containers.
type summary struct {
	ready, total int
	reason       string
	restarts     int
	lastRestart  metav1.Time
}

// restart counts a container's restarts in.
func (s *summary) restart(c *v1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(&t.FinishedAt) {
		s.lastRestart = t.FinishedAt
	}
}

func summarize(pod *v1.Pod) summary {
	s := summary{total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Reason == v1.PodReasonSchedulingGated {
			s.reason = v1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) {
			sidecars[c.Name] = true
			s.total++
		}
	}
	// Once a pod is initialized, restarts of its init containers are history; those of sidecars still count.
	beside := summary{}
	initializing := s.initContainers(pod, sidecars, &beside)
	if !initializing || conditionIs(pod, v1.PodInitialized, v1.ConditionTrue) {
		s.restarts, s.lastRestart = beside.restarts, beside.lastRestart
		s.mainContainers(pod)
	}
	switch {
	case pod.DeletionTimestamp == nil:
	case pod.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case pod.Status.Phase != v1.PodFailed && pod.Status.Phase != v1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// initContainers looks for the one that holds the pod up, and says whether there is one; beside counts the sidecars'
// restarts.
func (s *summary) initContainers(pod *v1.Pod, sidecars map[string]bool, beside *summary) bool {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		s.restart(c)
		if sidecars[c.Name] {
			beside.restart(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.reason = "Init:" + endReason(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return true
	}
	return false
}

// endReason is why a container ended: in words, else the signal, else the code.
func endReason(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// mainContainers takes the reason from the first container that has one.
func (s *summary) mainContainers(pod *v1.Pod) {
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &pod.Status.ContainerStatuses[i]
		s.restart(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = endReason(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	// One container that completed does not make the pod complete.
	if s.reason == "Completed" {
		switch {
		case running && anyReady(pod):
			s.reason = "Running"
		case failure != "":
			s.reason = failure
		case running:
			s.reason = "NotReady"
		}
	}
}

func anyReady(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return true
		}
	}
	return false
}
