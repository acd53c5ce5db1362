package scheduler

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/queue"
)

// Page shows what a scheduler holds, as upstream's does in its log on SIGUSR2: nodes with what is used of them, the assumed pods,
// and the queue. It outlives the runs of its scheduler.
type Page struct{ asks chan chan<- string }

// NewPage makes one.
func NewPage() *Page { return &Page{asks: make(chan chan<- string)} }

// pageWait is how long the scheduler may take to answer: it may be in the middle of a decision.
const pageWait = 5 * time.Second

// ServeHTTP serves the page, or 503 where no scheduler runs.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	answer := make(chan string, 1)
	late := time.NewTimer(pageWait)
	defer late.Stop()
	select {
	case p.asks <- answer:
		_, _ = io.WriteString(w, <-answer)
	case <-r.Context().Done():
	case <-late.C:
		http.Error(w, "no scheduler runs here: another server leads, or this one has only begun", http.StatusServiceUnavailable)
	}
}

// dump is the page's text. It takes time in proportion to everything there is.
func (r *run) dump(now time.Time) string {
	var b strings.Builder
	pods, assumed := r.cluster.Count()
	fmt.Fprintf(&b, "%d nodes, %d pods on them, %d of these assumed; %d pods wait\n\n", len(r.cluster.Nodes), pods, assumed, r.queue.Len())
	nodes := slices.SortedFunc(slices.Values(r.cluster.Nodes), func(a, b *framework.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		fmt.Fprintf(&b, "node %s: %d of %d pods, cpu %dm of %dm, memory %d of %d", n.Name, n.Count, n.MaxPods, n.Used.MilliCPU,
			n.Allocatable.MilliCPU, n.Used.Memory, n.Allocatable.Memory)
		if n.Object.Spec.Unschedulable {
			b.WriteString(", cordoned")
		}
		for _, w := range n.Nominated {
			fmt.Fprintf(&b, ", %s waits for room", nameOf(w))
		}
		b.WriteString("\n")
	}
	var placed []string
	for _, p := range r.cluster.Assumed() {
		node, _ := r.cluster.Placed(p.Object.UID)
		placed = append(placed, fmt.Sprintf("assumed %s on %s\n", nameOf(p), node))
	}
	slices.Sort(placed)
	b.WriteString("\n" + strings.Join(placed, ""))
	items := slices.SortedFunc(slices.Values(r.queue.Items()), func(a, b *queue.Item) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Since.Compare(b.Since), cmp.Compare(nameOf(a.Pod), nameOf(b.Pod)))
	})
	for _, i := range items {
		fmt.Fprintf(&b, "%s %s: priority %d, waits for %s, %d attempts", i.State, nameOf(i.Pod), i.Pod.Shape.Priority,
			now.Sub(i.Since).Round(time.Millisecond), i.Attempts)
		if kept := keptBy(i, i.State); len(kept) > 0 {
			b.WriteString(", kept by " + strings.Join(kept, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func nameOf(p *framework.Pod) string { return p.Object.Namespace + "/" + p.Object.Name }
