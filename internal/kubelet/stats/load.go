package stats

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// shortest is the least time between two samples from which a load is computed.
const shortest = time.Second

// loads turn cumulative cpu times into the load since the previous sample. The owner makes last.
type loads struct {
	mu   sync.Mutex
	last map[string]sample // by what was measured
}

type sample struct {
	at    time.Time
	total uint64
	load  *uint64 // since the one before
}

// fill adds the load to a measurement that lacks it. The first sample has none.
func (l *loads) fill(of string, s *v1alpha1.CPUStats) {
	if s == nil || s.UsageCoreNanoSeconds == nil || s.UsageNanoCores != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := sample{at: s.Time.Time, total: *s.UsageCoreNanoSeconds}
	before, ok := l.last[of]
	took := now.at.Sub(before.at)
	switch {
	case !ok || took < 0 || now.total < before.total: // it began anew
		l.last[of] = now
	case took < shortest:
		s.UsageNanoCores = before.load
	default:
		load := uint64(float64(now.total-before.total) / took.Seconds())
		now.load = &load
		s.UsageNanoCores = now.load
		l.last[of] = now
	}
}

// keep forgets what has not been measured for a while.
func (l *loads) keep(now time.Time) {
	const idle = 10 * time.Minute
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, s := range l.last {
		if now.Sub(s.at) > idle {
			delete(l.last, of)
		}
	}
}

func writeIndented(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
