package metrics

import (
	"strings"
	"time"
)

// Call counts a call of the runtime by its CRI name, RunPodSandbox with the handler that it names.
func (m *Metrics) Call(name, handler string, took time.Duration, err error) {
	op := operation(name)
	m.operations.WithLabelValues(op).Inc()
	m.operationTook.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		m.operationErrors.WithLabelValues(op).Inc()
	}
	if op != "run_podsandbox" {
		return
	}
	m.sandboxTook.WithLabelValues(handler).Observe(took.Seconds())
	if err != nil {
		m.sandboxErrors.WithLabelValues(handler).Inc()
	}
}

// operation is what upstream calls a call: its words with underscores, PodSandbox and Container's resources in its own way.
func operation(call string) string {
	switch call {
	case "UpdateContainerResources":
		return "update_container"
	case "StreamContainers", "StreamPodSandboxes":
		return "list_" + map[string]string{"StreamContainers": "containers", "StreamPodSandboxes": "podsandbox"}[call]
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(call, "PodSandbox", "Podsandbox") {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
