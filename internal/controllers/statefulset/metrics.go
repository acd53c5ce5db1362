package statefulset

import (
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"

	"podo.dev/podo/internal/view"
)

// meter is what upstream's controller tells of sets, under its names.
type meter struct{ missing, most *prometheus.GaugeVec }

func newMeter() meter {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "statefulset_controller", Name: name, Help: help},
			[]string{"statefulset_namespace", "statefulset_name", "pod_management_policy"})
	}
	return meter{
		missing: gauge("statefulset_unavailable_replicas", "Pods of a set that are missing or not available."),
		most:    gauge("statefulset_max_unavailable", "How many pods of a set may be unavailable while it is rolled out."),
	}
}

func (m meter) all() []prometheus.Collector { return []prometheus.Collector{m.missing, m.most} }

// looked takes in what a set has.
func (m meter) looked(set *appsv1.StatefulSet, p Plan) {
	of := []string{set.Namespace, set.Name, string(set.Spec.PodManagementPolicy)}
	m.missing.WithLabelValues(of...).Set(float64(p.Missing))
	m.most.WithLabelValues(of...).Set(float64(p.MayMiss))
}

// forget drops what was told of a set that is gone.
func (m meter) forget(key view.Key) {
	of := prometheus.Labels{"statefulset_namespace": key.Namespace, "statefulset_name": key.Name}
	m.missing.DeletePartialMatch(of)
	m.most.DeletePartialMatch(of)
}
