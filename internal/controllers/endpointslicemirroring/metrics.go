package endpointslicemirroring

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/view"
)

// size is what Endpoints come to: how many are mirrored, in how many slices, and how few would do.
type size struct{ endpoints, slices, least int }

// meter is what upstream's controller tells, under its names.
type meter struct {
	added, updated, removed, skipped, took prometheus.Histogram
	changes                                *prometheus.CounterVec
	desired, slices, least                 prometheus.GaugeFunc

	sizes *sizes
}

// sizes are those of all Endpoints.
type sizes struct {
	mu    sync.Mutex
	known map[view.Key]size
}

func (s *sizes) set(key view.Key, n size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == (size{}) {
		delete(s.known, key)
	} else {
		s.known[key] = n
	}
}

func (s *sizes) sum(of func(size) int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.known {
		n += of(one)
	}
	return n
}

func newMeter() meter {
	const subsystem = "endpoint_slice_mirroring_controller"
	histogram := func(name, help string, start float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, 15),
		})
	}
	all := &sizes{known: map[view.Key]size{}}
	gauge := func(name, help string, of func(size) int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, func() float64 { return float64(all.sum(of)) })
	}
	return meter{
		added:   histogram("endpoints_added_per_sync", "Endpoints that came with a look at an Endpoints object.", 2),
		updated: histogram("endpoints_updated_per_sync", "Endpoints that changed with a look at an Endpoints object.", 2),
		removed: histogram("endpoints_removed_per_sync", "Endpoints that went with a look at an Endpoints object.", 2),
		skipped: histogram("addresses_skipped_per_sync", "Addresses of an Endpoints object that are none, or too many to be mirrored.", 2),
		took:    histogram("endpoints_sync_duration", "How many seconds a look at an Endpoints object took.", 0.001),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "changes", Help: "EndpointSlices that were made, changed or deleted.",
		}, []string{"operation"}),
		desired: gauge("endpoints_desired", "Endpoints that are mirrored.", func(n size) int { return n.endpoints }),
		slices:  gauge("num_endpoint_slices", "EndpointSlices that mirror Endpoints.", func(n size) int { return n.slices }),
		least:   gauge("desired_endpoint_slices", "How few EndpointSlices would do.", func(n size) int { return n.least }),
		sizes:   all,
	}
}

func (m meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.added, m.updated, m.removed, m.skipped, m.took, m.changes, m.desired, m.slices, m.least}
}

// planned takes in what Endpoints come to.
func (m meter) planned(key view.Key, p Plan) {
	m.added.Observe(float64(p.Added))
	m.updated.Observe(float64(p.Updated))
	m.removed.Observe(float64(p.Removed))
	m.skipped.Observe(float64(p.Skipped))
	m.sizes.set(key, size{endpoints: p.Mirrored, slices: p.Slices, least: p.Slices})
}
