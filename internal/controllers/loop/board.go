package loop

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Board shows the controllers of a process to people: their queues as metrics, and on a page what each of them is at and what fails. It has what
// they share too.
type Board struct {
	metrics   *queueMetrics
	informers *informers

	mu    sync.Mutex
	loops map[string]*Loop // those that run
}

// NewBoard makes one without controllers.
func NewBoard() *Board {
	return &Board{metrics: newQueueMetrics(), informers: newInformers(), loops: map[string]*Loop{}}
}

// Run runs a controller that the board shows meanwhile.
func (b *Board) Run(ctx context.Context, l *Loop, ready func()) error {
	l.metrics, l.informers = b.metrics, b.informers
	b.mu.Lock()
	b.loops[l.c.Name] = l
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.loops, l.c.Name)
	}()
	return l.Run(ctx, ready)
}

// Describe implements prometheus.Collector. What controllers have of their own comes and goes with them and is not described.
func (b *Board) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range b.metrics.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (b *Board) Collect(ch chan<- prometheus.Metric) {
	for _, c := range b.metrics.all() {
		c.Collect(ch)
	}
	for _, l := range b.running() {
		for _, c := range l.c.Metrics {
			c.Collect(ch)
		}
	}
}

// running are the controllers by name.
func (b *Board) running() []*Loop {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.loops), func(x, y *Loop) int { return cmp.Compare(x.c.Name, y.c.Name) })
}

// ServeHTTP is the page.
func (b *Board) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	b.write(w, time.Now())
}

func (b *Board) write(w io.Writer, now time.Time) {
	loops := b.running()
	if len(loops) == 0 {
		fmt.Fprintln(w, "No controller runs here: another server leads, or this one is starting.")
	}
	for _, l := range loops {
		l.journal.write(w, l.c.Name, now)
	}
}
