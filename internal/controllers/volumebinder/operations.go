package volumebinder

import (
	"cmp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// operations are what others are asked to do about volumes, told under upstream's names: from when a claim's volume is asked for until the
// claim is bound, and from when a volume is to go until it has gone. A failure does not end one.
type operations struct {
	took            *prometheus.HistogramVec
	failed          *prometheus.CounterVec
	late, lateFails prometheus.Counter // claims that got their class late

	mu    sync.Mutex
	began map[types.UID]operation // of the claim or volume
}

type operation struct {
	by, what string // plugin_name and operation_name
	at       time.Time
}

func newOperations() *operations {
	labels := []string{"plugin_name", "operation_name"}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &operations{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volume_operation_total_seconds", Help: "How long it took until a volume was there and bound, or gone.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, labels),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "volume_operation_errors_total", Help: "How often it failed to have a volume made or deleted.",
		}, labels),
		late:      counter("retroactive_storageclass_total", "How often a claim was to get the default class late."),
		lateFails: counter("retroactive_storageclass_errors_total", "How often that failed."),
		began:     map[types.UID]operation{},
	}
}

func (o *operations) all() []prometheus.Collector {
	return []prometheus.Collector{o.took, o.failed, o.late, o.lateFails}
}

// begin notes when the operation on a claim or volume began; the first time counts. by may be "", when nobody is known.
func (o *operations) begin(of types.UID, by, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, is := o.began[of]; !is {
		o.began[of] = operation{cmp.Or(by, "N/A"), what, time.Now()}
	}
}

// step takes in what came of a step of the operation, if one is under way.
func (o *operations) step(of types.UID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op, is := o.began[of]
	switch {
	case !is:
	case err != nil:
		o.failed.WithLabelValues(op.by, op.what).Inc()
	default:
		o.took.WithLabelValues(op.by, op.what).Observe(time.Since(op.at).Seconds())
		delete(o.began, of)
	}
}

// forget is for a claim that has gone.
func (o *operations) forget(of types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.began, of)
}

// classed takes in whether a claim got its class.
func (o *operations) classed(err error) {
	o.late.Inc()
	if err != nil {
		o.lateFails.Inc()
	}
}
