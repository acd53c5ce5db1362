package usage

import (
	"errors"
	"maps"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// errNoNode: a kubelet always tells of its node, unless it could not measure.
var errNoNode = errors.New("the kubelet tells nothing of its node's cpu and memory")

// ReadingOf makes a reading of what a kubelet tells at /metrics/resource, upstream's and ours alike. What is no figure is left out.
func ReadingOf(at time.Time, families []*dto.MetricFamily) (*Reading, error) {
	r := &Reading{At: at, Pods: map[types.NamespacedName]map[string]Figures{}}
	for _, f := range families {
		set := fields[f.GetName()]
		if set == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			v, ok := valueOf(m)
			if !ok {
				continue
			}
			var when time.Time
			if m.TimestampMs != nil {
				when = time.UnixMilli(m.GetTimestampMs())
			}
			var pod types.NamespacedName
			container := ""
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "namespace":
					pod.Namespace = l.GetValue()
				case "pod":
					pod.Name = l.GetValue()
				case "container":
					container = l.GetValue()
				}
			}
			if container == "" {
				set(&r.Node, v, when)
				continue
			}
			if r.Pods[pod] == nil {
				r.Pods[pod] = map[string]Figures{}
			}
			known := r.Pods[pod][container]
			set(&known, v, when)
			r.Pods[pod][container] = known
		}
	}
	if r.Node.At.IsZero() || r.Node.Memory == 0 {
		return nil, errNoNode
	}
	maps.DeleteFunc(r.Pods, func(_ types.NamespacedName, containers map[string]Figures) bool {
		for _, c := range containers {
			if c.At.IsZero() || c.Memory == 0 {
				return true // one of them has just begun or ended, and what the others use is not what the pod does
			}
		}
		return false
	})
	return r, nil
}

// fields are the metrics that matter, and where each goes.
var fields = map[string]func(f *Figures, v float64, at time.Time){
	"node_cpu_usage_seconds_total":       setCPU,
	"container_cpu_usage_seconds_total":  setCPU,
	"node_memory_working_set_bytes":      setMemory,
	"container_memory_working_set_bytes": setMemory,
	"container_start_time_seconds": func(f *Figures, v float64, _ time.Time) {
		whole, part := math.Modf(v)
		f.Started = time.Unix(int64(whole), int64(part*float64(time.Second)))
	},
}

// setCPU: the time of the processors' figure is the one that counts, since a load is computed with it.
func setCPU(f *Figures, v float64, at time.Time) { f.CPU, f.At = v, at }

func setMemory(f *Figures, v float64, _ time.Time) { f.Memory = uint64(v) }

// valueOf is a counter or a gauge; a text without types has neither.
func valueOf(m *dto.Metric) (float64, bool) {
	v := math.NaN()
	switch {
	case m.Counter != nil:
		v = m.GetCounter().GetValue()
	case m.Gauge != nil:
		v = m.GetGauge().GetValue()
	case m.Untyped != nil:
		v = m.GetUntyped().GetValue()
	}
	return v, v >= 0 && v < most
}
