package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Figures are what a container, or a node, had used at a moment. All their times are of the node's clock, and are compared with such only.
type Figures struct {
	At      time.Time
	CPU     float64   // seconds of processors, in all
	Memory  uint64    // bytes of the working set
	Started time.Time // a container; zero of a node
}

// Reading is what a node's kubelet told at once.
type Reading struct {
	At   time.Time // of our clock
	Node Figures
	Pods map[types.NamespacedName]map[string]Figures // by the names of containers
}

const (
	// Steady is how long a window is at least, where there is a reading that long ago: the load of a shorter one jumps.
	Steady = 10 * time.Second
	// Stale is when a reading is too old to be compared with: what was a minute ago is not what is now.
	Stale = time.Minute
	// Moment is how long a window is where there is no reading to compare with: two are made this far apart.
	Moment = time.Second
)

// window is what is kept of a node: where the windows of the next answers begin.
//
//	begin ──(Steady, or more)──► next ──► the reading that has just been made
//
// So a window is at most Stale, and at least Steady once somebody has asked again and again for that long. A reading between the two is
// not kept.
type window struct{ begin, next *Reading }

// add takes a new reading and returns the one that it is to be compared with; nil where there is none yet.
func (w *window) add(r *Reading) *Reading {
	if w.next == nil || r.Node.CPU < w.begin.Node.CPU { // the first one, or the node has started anew
		w.begin, w.next = r, r
		return nil
	}
	if r.At.Sub(w.next.At) >= Steady {
		w.begin, w.next = w.next, r
	}
	if r.At.Sub(w.begin.At) > Stale {
		w.begin = w.next
	}
	if w.begin == r {
		return nil
	}
	return w.begin
}

// Load is what was used in a window that ends at At.
type Load struct {
	At     time.Time
	Window time.Duration
	CPU    int64 // billionths of a processor
	Memory int64
}

// most is more than any machine has of anything: a node that tells more is not believed.
const most = 1e18

// load is what was used from one moment to another; ok is false where that cannot be told.
func load(from, to Figures) (l Load, ok bool) {
	took, used := to.At.Sub(from.At), to.CPU-from.CPU
	nanos := used / took.Seconds() * float64(time.Second)
	if took <= 0 || !(nanos >= 0 && nanos < most) || to.Memory > most { // not a number neither
		return Load{}, false
	}
	return Load{At: to.At, Window: took.Round(time.Millisecond), CPU: int64(nanos), Memory: int64(to.Memory)}, true
}

// span is the part of a node's life that an answer tells of.
type span struct{ from, to *Reading }

func (s span) node() (Load, bool) { return load(s.from.Node, s.to.Node) }

// pod is the load of each of a pod's containers. It is told of all that run or of none, as whoever adds them up takes them for the pod.
func (s span) pod(pod types.NamespacedName) (map[string]Load, bool) {
	out := map[string]Load{}
	for name, to := range s.to.Pods[pod] {
		from, ok := s.from.Pods[pod][name]
		if !ok || !from.Started.Equal(to.Started) || from.CPU > to.CPU {
			if to.Started.Before(s.from.Node.At) || to.At.Sub(to.Started) < Moment {
				return nil, false // it was not told of then, or is younger than can be measured
			}
			from = Figures{At: to.Started} // it began within the window
		}
		if out[name], ok = load(from, to); !ok {
			return nil, false
		}
	}
	return out, len(out) > 0
}
