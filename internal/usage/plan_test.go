package usage

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// secondsAfter is a moment of a test.
func secondsAfter(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Second))) }

// However people ask, a window is never longer than a minute; it is at least Steady once somebody has asked again and again for that long;
// and there is one whenever somebody has asked in the last fifty seconds.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		at, last, eager := 0.0, 0.0, 0.0 // eager: since when there has been no pause longer than Steady
		for i := range rapid.IntRange(1, 60).Draw(t, "readings") {
			if i > 0 {
				longest := rapid.SampledFrom([]int{3_000, 10_000, 80_000}).Draw(t, "longest")
				at += float64(rapid.IntRange(1000, longest).Draw(t, "pause")) / 1000
			}
			from := w.add(&Reading{At: secondsAfter(at), Node: Figures{CPU: at}})
			pause := at - last
			if pause > Steady.Seconds() {
				eager = at
			}
			last = at
			if from == nil {
				if i > 0 && pause <= (Stale-Steady).Seconds() {
					t.Fatalf("at %v the reading of %v s before is forgotten", at, pause)
				}
				continue
			}
			took := secondsAfter(at).Sub(from.At)
			if i == 0 || took > Stale || took <= 0 || at-eager >= Steady.Seconds() && took < Steady {
				t.Fatalf("at %v the window is %v", at, took)
			}
		}
	})
}

// Who asks every second or every fifteen sees these windows, in seconds.
func TestWindowsOfSteadyAskers(t *testing.T) {
	for _, c := range []struct {
		every float64
		want  []float64
	}{
		{15, []float64{-1, 15, 15, 15}},
		{4, []float64{-1, 4, 8, 12, 16, 20, 12, 16, 20, 12}},
		{50, []float64{-1, 50, 50}},
		{61, []float64{-1, -1, -1}},
	} {
		var w window
		for i, want := range c.want {
			at := float64(i) * c.every
			got := -1.0
			if from := w.add(&Reading{At: secondsAfter(at)}); from != nil {
				got = secondsAfter(at).Sub(from.At).Seconds()
			}
			if got != want {
				t.Errorf("every %v s, reading %d: a window of %v s, want %v", c.every, i, got, want)
			}
		}
	}
}

func TestANodeThatStartedAnewIsComparedWithNothing(t *testing.T) {
	var w window
	w.add(&Reading{At: start, Node: Figures{CPU: 100}})
	if from := w.add(&Reading{At: secondsAfter(5), Node: Figures{CPU: 3}}); from != nil {
		t.Errorf("compared with %+v", from)
	}
	if from := w.add(&Reading{At: secondsAfter(6), Node: Figures{CPU: 4}}); from == nil || from.Node.CPU != 3 {
		t.Errorf("compared with %+v", from)
	}
}

// What can be told of a pod whose container had used 10 s of a processor at the beginning of a window of 20 s.
func TestPods(t *testing.T) {
	pod := types.NamespacedName{Namespace: "ns", Name: "p"}
	old := secondsAfter(-100)
	for _, c := range []struct {
		name    string
		now     map[string]Figures
		want    int64 // billionths; -1: nothing
		windows time.Duration
	}{
		{"it went on", map[string]Figures{"c": {At: secondsAfter(20), CPU: 15, Memory: 1, Started: old}}, 250_000_000, 20 * time.Second},
		{"it is idle", map[string]Figures{"c": {At: secondsAfter(20), CPU: 10, Memory: 1, Started: old}}, 0, 20 * time.Second},
		{"it has restarted", map[string]Figures{"c": {At: secondsAfter(20), CPU: 2, Memory: 1, Started: secondsAfter(16)}}, 500_000_000, 4 * time.Second},
		{"it has restarted, and used more than before", map[string]Figures{"c": {At: secondsAfter(20), CPU: 12, Memory: 1, Started: secondsAfter(8)}}, 1e9, 12 * time.Second},
		{"it has just restarted", map[string]Figures{"c": {At: secondsAfter(20), CPU: 2, Memory: 1, Started: secondsAfter(19.5)}}, -1, 0},
		{"it was not told of", map[string]Figures{"other": {At: secondsAfter(20), CPU: 15, Memory: 1, Started: old}}, -1, 0},
		{"one of two has just started", map[string]Figures{
			"c": {At: secondsAfter(20), CPU: 15, Memory: 1, Started: old}, "d": {At: secondsAfter(20), CPU: 1, Memory: 1, Started: secondsAfter(19.9)},
		}, -1, 0},
		{"its clock stands", map[string]Figures{"c": {At: start, CPU: 15, Memory: 1, Started: old}}, -1, 0},
		{"it is unbelievable", map[string]Figures{"c": {At: secondsAfter(20), CPU: 1e300, Memory: 1, Started: old}}, -1, 0},
		{"it is no number", map[string]Figures{"c": {At: secondsAfter(20), CPU: math.NaN(), Memory: 1, Started: old}}, -1, 0},
		{"it does not run", nil, -1, 0},
	} {
		s := span{
			&Reading{Node: Figures{At: start}, Pods: map[types.NamespacedName]map[string]Figures{pod: {"c": {At: start, CPU: 10, Memory: 1, Started: old}}}},
			&Reading{Node: Figures{At: secondsAfter(20)}, Pods: map[types.NamespacedName]map[string]Figures{pod: c.now}},
		}
		got, ok := s.pod(pod)
		if ok != (c.want >= 0) || ok && (got["c"].CPU != c.want || got["c"].Window != c.windows) {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
}
