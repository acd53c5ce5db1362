package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/scheduler/queue"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(name string, priority int32) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Generation: 1},
		Spec:       v1.PodSpec{Priority: &priority},
	}
}

func newQueue() (*queue.Queue, func(*v1.Pod) *framework.Pod) {
	set := plugins.Default(nil)
	shapes := &framework.Shapes{}
	return queue.New(queue.Config{PreEnqueue: set.PreEnqueue, Less: set.Sort.Less}), shapes.Of
}

func TestPriorityThenAge(t *testing.T) {
	q, shape := newQueue()
	q.Set(pod("old", 0), shape, start)
	q.Set(pod("new", 0), shape, start.Add(time.Second))
	q.Set(pod("urgent", 10), shape, start.Add(2*time.Second))
	var got []string
	for i := q.Pop(start.Add(3 * time.Second)); i != nil; i = q.Pop(start.Add(3 * time.Second)) {
		got = append(got, i.Pod.Object.Name)
	}
	if fmt.Sprint(got) != "[urgent old new]" {
		t.Errorf("order %v", got)
	}
}

func TestBackoffDoublesToTenSecondsAfterErrors(t *testing.T) {
	q, shape := newQueue()
	q.Set(pod("a", 0), shape, start)
	now := start
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		i := q.Pop(now)
		if i == nil {
			t.Fatalf("nothing to pop at %v", now.Sub(start))
		}
		q.Retry(i, "bind failed", now)
		at, ok := q.Next()
		if !ok || at.Sub(now) != want*time.Second {
			t.Fatalf("back-off %v, want %vs", at.Sub(now), int(want))
		}
		if early := q.Pop(at.Add(-time.Millisecond)); early != nil {
			t.Fatal("an error's back-off was cut short")
		}
		now = at
	}
}

// helps is an event that helps everyone, or nobody.
func helps(yes bool) func(*framework.Shape) queue.Help {
	return func(*framework.Shape) queue.Help {
		if !yes {
			return queue.Help{}
		}
		return queue.Help{Of: func(*queue.Item) bool { return true }}
	}
}

func TestUnschedulableWaitsForWhatHelps(t *testing.T) {
	q, shape := newQueue()
	q.Set(pod("a", 0), shape, start)
	q.Rejected(q.Pop(start), start)
	yes, no := helps(true), helps(false)
	q.Wake("node too small", no, start)
	if i := q.Pop(start.Add(time.Minute)); i != nil {
		t.Fatal("woken by what does not help")
	}
	q.Wake("pod left", yes, start.Add(time.Minute))
	if i := q.Pop(start.Add(time.Minute)); i == nil || i.Attempts != 2 {
		t.Fatal("not woken by what helps")
	}
}

// Who rejected which pods is kept up: what a plug-in waits for asks those that it rejected, and nobody where it rejected all.
func TestWhoRejectedWhom(t *testing.T) {
	q, shape := newQueue()
	for name, by := range map[string][]string{"a": {"X"}, "b": {"X", "Y"}} {
		q.Set(pod(name, 0), shape, start)
		i := q.Pop(start)
		i.RejectedBy = by
		q.Rejected(i, start)
	}
	asked := func(unless string) (n int) {
		q.Wake("", func(*framework.Shape) queue.Help {
			return queue.Help{Unless: unless, Of: func(*queue.Item) bool { n++; return false }}
		}, start)
		return n
	}
	woken := func(plugin string) string {
		var names []string
		q.WakeRejected("", plugin, func(i *queue.Item) bool { names = append(names, i.Pod.Object.Name); return false }, start)
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	check := func(unlessX, unlessY int, x, y string, rejectsZ bool) {
		t.Helper()
		if a, b := asked("X"), asked("Y"); a != unlessX || b != unlessY || woken("X") != x || woken("Y") != y || q.Rejects("Z") != rejectsZ {
			t.Errorf("asked %d and %d; X rejected %s, Y %s, Z some: %v", a, b, woken("X"), woken("Y"), q.Rejects("Z"))
		}
	}
	check(0, 2, "[a b]", "[b]", false)
	q.AlsoRejectedBy(q.Item("a"), "Y")
	check(0, 0, "[a b]", "[a b]", false)
	q.AlsoRejectedBy(q.Item("a"), "Z")
	check(0, 0, "[a b]", "[a b]", true)
	q.WakeOne("a", "", start)
	check(0, 0, "[b]", "[b]", false)
	q.Delete("b")
	check(0, 0, "[]", "[]", false)
}

func TestUnschedulableIsTriedAgainAfterFiveMinutes(t *testing.T) {
	q, shape := newQueue()
	q.Set(pod("a", 0), shape, start)
	q.Rejected(q.Pop(start), start)
	at, ok := q.Next()
	if !ok || at.Sub(start) != 5*time.Minute {
		t.Fatalf("next at %v", at.Sub(start))
	}
	if q.Pop(at.Add(-1)) != nil || q.Pop(at) == nil {
		t.Error("not exactly at five minutes")
	}
}

func TestGatedUntilTheGateGoes(t *testing.T) {
	q, shape := newQueue()
	p := pod("a", 0)
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}}
	q.Set(p, shape, start)
	if q.Pop(start.Add(time.Hour)) != nil {
		t.Fatal("popped a gated pod")
	}
	free := pod("a", 0)
	free.ResourceVersion, free.Generation = "2", 2
	q.Set(free, shape, start)
	if q.Pop(start) == nil {
		t.Fatal("the gate is gone, the pod is not there")
	}
}

// Whatever happens, every pod is in exactly one place and comes out again once it may.
func TestNoPodIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, shape := newQueue()
		now := start
		alive := map[string]bool{}
		var flying []*queue.Item
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		rv := 1
		take := func(t *rapid.T) *queue.Item {
			if len(flying) == 0 {
				t.Skip("nothing in flight")
			}
			n := rapid.IntRange(0, len(flying)-1).Draw(t, "n")
			i := flying[n]
			flying = append(flying[:n], flying[n+1:]...)
			return i
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				n := name.Draw(t, "pod")
				p := pod(n, int32(rapid.IntRange(0, 2).Draw(t, "priority")))
				rv++
				p.ResourceVersion, p.Generation = fmt.Sprint(rv), int64(rv)
				if rapid.Bool().Draw(t, "toleration") {
					p.Spec.Tolerations = []v1.Toleration{{Key: "x"}}
				}
				alive[n] = true
				q.Set(p, shape, now)
			},
			"delete": func(t *rapid.T) {
				n := name.Draw(t, "pod")
				delete(alive, n)
				q.Delete(types.UID(n))
			},
			"pop": func(t *rapid.T) {
				if i := q.Pop(now); i != nil {
					for _, f := range flying {
						if f == i {
							t.Fatal("popped twice")
						}
					}
					flying = append(flying, i)
				}
			},
			"reject": func(t *rapid.T) { q.Rejected(take(t), now) },
			"retry":  func(t *rapid.T) { q.Retry(take(t), "error", now) },
			"wake": func(t *rapid.T) {
				yes := rapid.Bool().Draw(t, "helped")
				q.Wake("event", helps(yes), now)
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				if q.Len() != len(alive) {
					t.Fatalf("%d pods known, %d alive", q.Len(), len(alive))
				}
				counts := map[queue.State]int{}
				for _, i := range q.Items() {
					counts[i.State]++
				}
				for _, s := range []queue.State{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated, queue.InFlight} {
					if q.Count(s) != counts[s] {
						t.Fatalf("counts %d pods %s, there are %d", q.Count(s), s, counts[s])
					}
				}
			},
		})
		// Everything in flight fails; then time alone must bring every pod out.
		for _, i := range flying {
			q.Retry(i, "end", now)
		}
		out := map[string]bool{}
		for range 100 {
			for i := q.Pop(now); i != nil; i = q.Pop(now) {
				out[i.Pod.Object.Name] = true
			}
			at, ok := q.Next()
			if !ok {
				break
			}
			now = at
		}
		for n := range alive {
			if !out[n] {
				t.Fatalf("pod %s never came out: %s", n, q.Item(types.UID(n)).State)
			}
		}
	})
}

// A clock that jumps back strands nobody: an idle scheduler does not wait for a back-off, and a pod that something helped goes at once.
func TestClockJumpsBack(t *testing.T) {
	q, shape := newQueue()
	q.Set(pod("a", 0), shape, start)
	q.Rejected(q.Pop(start), start)
	before := start.Add(-24 * time.Hour)
	q.Wake("something", helps(true), before)
	if q.Pop(before) == nil {
		t.Error("the pod waits for a time that has been")
	}
}

// clockSet is t as a clock tells it that has been set by so much: what has passed since another time that it told is the same.
func clockSet(t time.Time, by time.Duration) time.Time {
	const hasMonotonic, nanoseconds = 1 << 63, 30 // of time.Time's first word: a flag, 33 bits of seconds, and so many of nanoseconds
	wall := (*uint64)(unsafe.Pointer(&t))
	if *wall&hasMonotonic == 0 {
		panic("a time without a monotonic part")
	}
	*wall += uint64(by/time.Second) << nanoseconds
	return t
}

// A clock that is set by hours, forwards or backwards, neither ends a wait before its time nor makes it longer: nothing stalls, and nothing is
// tried again and again.
func TestTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			q, shape := newQueue()
			began := time.Now()
			if set := clockSet(began, by); set.Sub(began) != 0 || set.Round(0).Sub(began.Round(0)) != by {
				t.Fatal("the clock was not set")
			}
			later := func(d time.Duration) time.Time { return clockSet(began.Add(d), by) }
			for _, name := range []string{"unschedulable", "failed", "woken"} {
				q.Set(pod(name, 0), shape, began)
			}
			for range 3 {
				switch i := q.Pop(began); i.Pod.Object.Name {
				case "failed":
					q.Retry(i, "bind failed", began)
				default:
					q.Rejected(i, began)
				}
			}
			wait := func(want time.Duration, name string) *queue.Item {
				t.Helper()
				at, ok := q.Next()
				if !ok || at.Sub(began) != want {
					t.Fatalf("next after %v, want %v for %s", at.Sub(began), want, name)
				}
				if early := q.Pop(later(want - 1)); early != nil {
					t.Fatalf("%s is tried too early", early.Pod.Object.Name)
				}
				i := q.Pop(later(want))
				if i == nil || i.Pod.Object.Name != name {
					t.Fatalf("%v is tried after %v, want %s", i, want, name)
				}
				if again := q.Pop(later(want)); again != nil {
					t.Fatalf("%s is tried besides", again.Pod.Object.Name)
				}
				return i
			}
			failed := wait(time.Second, "failed")
			q.Retry(failed, "bind failed", later(time.Second))
			failed = wait(3*time.Second, "failed")
			q.Rejected(failed, later(3*time.Second))
			q.Wake("there is room", func(*framework.Shape) queue.Help {
				return queue.Help{Of: func(i *queue.Item) bool { return i.Pod.Object.Name == "woken" }}
			}, later(4*time.Second))
			if i := q.Pop(later(4 * time.Second)); i == nil || i.Pod.Object.Name != "woken" {
				t.Fatalf("%v is tried, whose back-off is over: want the one that was woken", i)
			}
			wait(5*time.Minute, "unschedulable")
			wait(5*time.Minute+3*time.Second, "failed")
		})
	}
}
