package loop

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/view"
)

// behind knows the keys whose controller waits until the view has what it wrote itself. A change that asks for such a key meanwhile is older
// than that: the look at it is put off, and counted, once for each wait.
type behind struct {
	putOff *prometheus.CounterVec // nil: nobody counts

	mu   sync.Mutex
	keys map[view.Key]bool // true: counted
}

// SkippedLooks counts what upstream's controllers call syncs that they skip since their caches are behind their own writes, by the kind whose
// change asked for the look.
func SkippedLooks(subsystem string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", Help: "How often a look was put off since the view did not have the last write yet.",
	}, []string{"group", "resource"})
}

func (b *behind) begin(key view.Key) {
	if b.putOff == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[view.Key]bool{}
	}
	b.keys[key] = false
}

func (b *behind) end(key view.Key) {
	if b.putOff == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
}

// asked says that a change of the resource asks for a look at a key.
func (b *behind) asked(key view.Key, of schema.GroupResource) {
	if b.putOff == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if counted, waits := b.keys[key]; waits && !counted {
		b.keys[key] = true
		b.putOff.WithLabelValues(of.Group, of.Resource).Inc()
	}
}
