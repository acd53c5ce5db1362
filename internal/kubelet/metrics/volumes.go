package metrics

import "time"

// VolumeOperated counts what was done for a volume.
func (m *Metrics) VolumeOperated(plugin, operation string, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.volumeTook.WithLabelValues(plugin, operation, status, "false").Observe(took.Seconds())
}

// CgroupOperated counts what was done with a cgroup: create, update, destroy.
func (m *Metrics) CgroupOperated(operation string, took time.Duration) {
	m.cgroupTook.WithLabelValues(operation).Observe(took.Seconds())
}
