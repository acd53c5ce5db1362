// Package queue holds the pods that wait for a node. It is pure: callers say what time it is. It is not safe for concurrent use.
package queue

import (
	"container/heap"
	"container/list"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/framework"
)

// State is where a pod is.
//
//	        gates gone                Pop              bound: Delete
//	Gated ─────────────► Active ─────────────► InFlight ───────────►
//	                      ▲   ▲                 │    │
//	       back-off over, │   │ helped, and     │    │ nothing fits: Rejected
//	       or idle        │   │ back-off over   │    ▼
//	                      │   └──────────────── │ ─ Unschedulable ───────────────► Gated
//	                      │                     │    │ helped, or five minutes over │ the same, while
//	                     Backoff ◄──────────────┴────┘                              │ its victims are
//	                             an error: Retry                                    │ being deleted
type State string

// The states.
const (
	Gated         State = "gated"
	Active        State = "active"
	Backoff       State = "backoff"
	Unschedulable State = "unschedulable"
	InFlight      State = "inflight"
)

// The times of upstream's defaults.
const (
	FirstBackoff  = time.Second
	MaxBackoff    = 10 * time.Second
	FlushInterval = 5 * time.Minute
)

// Item is one waiting pod.
type Item struct {
	Pod      *framework.Pod
	State    State
	Attempts int
	Since    time.Time // first seen
	Entered  time.Time // first active

	// RejectedBy are the plug-ins that kept it from a node while it is Unschedulable. Refused says that they did so whatever the
	// node: then it is only woken on their word (WakeRejected).
	RejectedBy []string
	Refused    bool
	GatedBy    string // the plug-in that holds it in Gated
	// Flushed says that it was woken for its last attempt by time alone, and by no event.
	Flushed bool
	// For is the node whose room woke it last, until others have been told that the room is left (run.unclaimed).
	For string
	// Suggested says that the node on which the pod waits for room was named by somebody other than the scheduler.
	Suggested bool

	queued  time.Time // when it came to the active queue, for the order
	seq     uint64
	tried   time.Time // end of the last attempt
	errored bool      // the last attempt ended with an error, so its back-off is never cut short
	index   int       // in a heap
	parked  *list.Element
	member  *list.Element // of its group
}

// Config is what a Queue needs.
type Config struct {
	PreEnqueue []framework.PreEnqueue
	Less       func(a, b *framework.Pod) bool
	// Moved is called at every change of State. It must not call back.
	Moved func(i *Item, from State, why string, now time.Time)
	// FirstBackoff doubles with each attempt up to MaxBackoff. Defaults: upstream's, 1 s and 10 s.
	FirstBackoff, MaxBackoff time.Duration
}

// Queue is described at State.
type Queue struct {
	config    Config
	seq       uint64
	items     map[types.UID]*Item
	active    itemHeap
	back      itemHeap                    // woken, but still backing off
	errs      itemHeap                    // failed by an error
	parked    *list.List                  // unschedulable ones, in the order in which they came
	groups    map[*framework.Shape]*group // the same by shape, since an event helps all pods of a shape alike
	counts    map[State]int
	rejecting map[string]int // how many unschedulable pods each plug-in rejected
	// related counts the groups whose pods have relations to other pods.
	related int
}

// New makes an empty Queue.
func New(c Config) *Queue {
	q := &Queue{config: c, items: map[types.UID]*Item{}, parked: list.New(), groups: map[*framework.Shape]*group{}, counts: map[State]int{}, rejecting: map[string]int{}}
	if q.config.FirstBackoff == 0 {
		q.config.FirstBackoff, q.config.MaxBackoff = FirstBackoff, MaxBackoff
	}
	if q.config.Moved == nil {
		q.config.Moved = func(*Item, State, string, time.Time) {}
	}
	q.active.less = func(a, b *Item) bool {
		switch {
		case c.Less(a.Pod, b.Pod):
			return true
		case c.Less(b.Pod, a.Pod):
			return false
		case !a.queued.Equal(b.queued):
			return a.queued.Before(b.queued)
		}
		return a.seq < b.seq
	}
	ready := func(a, b *Item) bool {
		if x, y := q.ready(a), q.ready(b); !x.Equal(y) {
			return x.Before(y)
		}
		return a.seq < b.seq
	}
	q.back.less, q.errs.less = ready, ready
	return q
}

// Len is how many pods wait or are in flight.
func (q *Queue) Len() int { return len(q.items) }

// Count is how many are in a state.
func (q *Queue) Count(s State) int { return q.counts[s] }

// Item finds a pod; nil when it does not wait.
func (q *Queue) Item(uid types.UID) *Item { return q.items[uid] }

// Items are all of them, in no order.
func (q *Queue) Items() []*Item {
	out := make([]*Item, 0, len(q.items))
	for _, i := range q.items {
		out = append(out, i)
	}
	return out
}

// Set adds a waiting pod, or updates it. shape reduces it.
func (q *Queue) Set(object *v1.Pod, shape func(*v1.Pod) *framework.Pod, now time.Time) {
	i := q.items[object.UID]
	if i == nil {
		q.seq++
		i = &Item{Pod: shape(object), Since: now, seq: q.seq, index: -1}
		q.items[object.UID] = i
		q.enqueue(i, "new", now)
		return
	}
	old := i.Pod.Object
	if old.ResourceVersion == object.ResourceVersion && object.ResourceVersion != "" {
		return
	}
	pod := &framework.Pod{Object: object, Shape: i.Pod.Shape}
	changed := old.Generation == 0 || old.Generation != object.Generation || !maps.Equal(old.Labels, object.Labels)
	if changed {
		pod = shape(object)
	}
	if i.State == Unschedulable && pod.Shape != i.Pod.Shape {
		q.unpark(i)
		i.Pod = pod
		q.wake(i, "pod changed", now)
		return
	}
	i.Pod = pod
	switch {
	case i.State == Gated && q.gate(object) == nil:
		q.enqueue(i, "gates gone", now)
	case i.index >= 0 && changed:
		heap.Fix(q.heapOf(i), i.index)
	}
}

// heapOf is where an item with an index is.
func (q *Queue) heapOf(i *Item) *itemHeap {
	switch {
	case i.State == Active:
		return &q.active
	case i.errored:
		return &q.errs
	}
	return &q.back
}

func (q *Queue) gate(object *v1.Pod) *framework.Rejection {
	for _, p := range q.config.PreEnqueue {
		if r := p.PreEnqueue(object); r != nil {
			return r
		}
	}
	return nil
}

// gated puts a pod aside that may not be tried.
func (q *Queue) gated(i *Item, now time.Time) bool {
	r := q.gate(i.Pod.Object)
	if r == nil {
		return false
	}
	q.move(i, Gated, r.Plugin, now)
	i.GatedBy = r.Plugin
	return true
}

// Ungate lets a gated pod go on if nothing else gates it.
func (q *Queue) Ungate(uid types.UID, why string, now time.Time) {
	if i := q.items[uid]; i != nil && i.State == Gated && q.gate(i.Pod.Object) == nil {
		q.wake(i, why, now)
	}
}

func (q *Queue) enqueue(i *Item, why string, now time.Time) {
	if q.gated(i, now) {
		return
	}
	if i.queued = now; i.Entered.IsZero() {
		i.Entered = now
	}
	q.move(i, Active, why, now)
	heap.Push(&q.active, i)
}

func (q *Queue) move(i *Item, to State, why string, now time.Time) {
	from := i.State
	i.State = to
	q.counts[from]--
	q.counts[to]++
	q.config.Moved(i, from, why, now)
}

// Delete forgets a pod: it is gone, being deleted, or has a node.
func (q *Queue) Delete(uid types.UID) {
	i := q.items[uid]
	if i == nil {
		return
	}
	delete(q.items, uid)
	q.counts[i.State]--
	switch {
	case i.State == Unschedulable:
		q.unpark(i)
	case i.index >= 0:
		heap.Remove(q.heapOf(i), i.index)
	}
}

// Pop takes the pod to try next, or nil. With nothing active it cuts a back-off short, unless the pod's last attempt was an
// error: an idle scheduler gains nothing from waiting.
func (q *Queue) Pop(now time.Time) *Item {
	q.flush(now)
	return q.take(q.next(), now)
}

// Equal takes pods of one shape, at most so many: the next one to try, and those after it as long as they have its shape. Each is
// taken only after the one before was dealt with, so that it still is the next one by then.
func (q *Queue) Equal(now time.Time, most int) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		q.flush(now)
		var shape *framework.Shape
		for range most {
			from := q.next()
			if from == nil || shape != nil && from.items[0].Pod.Shape != shape {
				return
			}
			i := q.take(from, now)
			shape = i.Pod.Shape
			if !yield(i) {
				return
			}
		}
	}
}

// next is the heap whose top is the pod to try next; nil: there is none.
func (q *Queue) next() *itemHeap {
	switch {
	case q.active.Len() > 0:
		return &q.active
	case q.back.Len() > 0:
		return &q.back
	}
	return nil
}

func (q *Queue) take(from *itemHeap, now time.Time) *Item {
	if from == nil {
		return nil
	}
	i := heap.Pop(from).(*Item)
	i.Attempts++
	i.RejectedBy, i.Refused = nil, false
	q.move(i, InFlight, "", now)
	return i
}

// Rejected puts a pod back that no node takes.
func (q *Queue) Rejected(i *Item, now time.Time) {
	if q.items[i.Pod.Object.UID] != i || i.State != InFlight {
		return
	}
	i.tried, i.errored, i.Flushed = now, false, false
	i.parked = q.parked.PushBack(i)
	g := i.Pod.Shape
	if q.groups[g] == nil {
		q.groups[g] = &group{List: list.New()}
		if g.Relations != nil {
			q.related++
		}
	}
	i.member = q.groups[g].PushBack(i)
	i.For = ""
	for _, plugin := range i.RejectedBy {
		q.reject(i, plugin, 1)
	}
	q.move(i, Unschedulable, "", now)
}

// Retry puts back a pod whose attempt ended with an error.
func (q *Queue) Retry(i *Item, why string, now time.Time) {
	if q.items[i.Pod.Object.UID] != i || i.State != InFlight {
		return
	}
	i.tried, i.errored = now, true
	q.move(i, Backoff, why, now)
	heap.Push(&q.errs, i)
}

// Help is what an event means for the unschedulable pods of one shape. The zero value is no help.
type Help struct {
	Of   func(*Item) bool // asked for each of them
	Most int              // how many of them it helps, longest waiting first; 0: all
	For  string           // the node with the room
	// Unless is a plug-in: if it rejected all pods of the shape, none of them is woken.
	Unless string
}

// Wake moves the unschedulable pods that an event helps; helped is asked once for each shape. If its answers are exact (would a
// pod of the shape fit on the changed node), no pod that could go stays behind. A gated pod takes no other's place.
func (q *Queue) Wake(why string, helped func(*framework.Shape) Help, now time.Time) {
	var moved []*Item
	for shape, members := range q.groups {
		help := helped(shape)
		if help.Of == nil || help.Unless != "" && members.all(help.Unless) {
			continue
		}
		left := help.Most
		for e := members.Front(); e != nil; e = e.Next() {
			i := e.Value.(*Item)
			if i.Refused || !help.Of(i) {
				continue
			}
			i.For = help.For
			moved = append(moved, i)
			if help.Most > 0 && q.gate(i.Pod.Object) == nil {
				if left--; left == 0 {
					break
				}
			}
		}
	}
	sortItems(moved)
	for _, i := range moved {
		q.wakeParked(i, why, now)
	}
}

// AlsoRejectedBy adds a plug-in to those that keep an unschedulable pod from a node.
func (q *Queue) AlsoRejectedBy(i *Item, plugin string) {
	i.RejectedBy = append(i.RejectedBy, plugin)
	q.reject(i, plugin, 1)
}

// reject counts an unschedulable pod for a plug-in that rejected it (1), or takes it back (-1).
func (q *Queue) reject(i *Item, plugin string, n int) {
	if q.rejecting[plugin] += n; q.rejecting[plugin] == 0 {
		delete(q.rejecting, plugin)
	}
	g := q.groups[i.Pod.Shape]
	k := slices.IndexFunc(g.rejecting, func(r rejecting) bool { return r.plugin == plugin })
	if k < 0 {
		k, g.rejecting = len(g.rejecting), append(g.rejecting, rejecting{plugin: plugin})
	}
	g.rejecting[k].pods += n
}

// group is the unschedulable pods of a shape, with the number that each plug-in rejected.
type group struct {
	*list.List
	rejecting []rejecting
}

type rejecting struct {
	plugin string
	pods   int
}

// all tells whether a plug-in rejected every one of them.
func (g *group) all(plugin string) bool {
	return slices.Contains(g.rejecting, rejecting{plugin, g.Len()})
}

// Rejects tells whether a plug-in rejected an unschedulable pod.
func (q *Queue) Rejects(plugin string) bool { return q.rejecting[plugin] > 0 }

// WakeRejected moves the unschedulable pods that a plug-in rejected and for which helped is true.
func (q *Queue) WakeRejected(why, plugin string, helped func(*Item) bool, now time.Time) {
	if q.rejecting[plugin] == 0 {
		return // true for nearly every event
	}
	var moved []*Item
	for e := q.parked.Front(); e != nil; e = e.Next() {
		if i := e.Value.(*Item); slices.Contains(i.RejectedBy, plugin) && helped(i) {
			moved = append(moved, i)
		}
	}
	for _, i := range moved {
		q.wakeParked(i, why, now)
	}
}

// WakeThese moves those of the pods that are unschedulable.
func (q *Queue) WakeThese(items []*Item, why string, now time.Time) {
	sortItems(items)
	for _, i := range items {
		if i.State == Unschedulable {
			q.wakeParked(i, why, now)
		}
	}
}

// WakeOne moves a pod if it is unschedulable.
func (q *Queue) WakeOne(uid types.UID, why string, now time.Time) {
	if i := q.items[uid]; i != nil && i.State == Unschedulable {
		q.wakeParked(i, why, now)
	}
}

func (q *Queue) wakeParked(i *Item, why string, now time.Time) {
	q.unpark(i)
	q.wake(i, why, now)
}

func (q *Queue) wake(i *Item, why string, now time.Time) {
	if q.gated(i, now) {
		return
	}
	if q.ready(i).After(now) {
		q.move(i, Backoff, why, now)
		heap.Push(&q.back, i)
		return
	}
	q.enqueue(i, why, now)
}

func (q *Queue) unpark(i *Item) {
	q.parked.Remove(i.parked)
	i.parked = nil
	for _, plugin := range i.RejectedBy {
		q.reject(i, plugin, -1)
	}
	g := i.Pod.Shape
	q.groups[g].Remove(i.member)
	i.member = nil
	if q.groups[g].Len() == 0 {
		delete(q.groups, g)
		if g.Relations != nil {
			q.related--
		}
	}
}

// Related tells whether any unschedulable pod has relations to other pods.
func (q *Queue) Related() bool { return q.related > 0 }

// ready is when a pod's back-off is over.
func (q *Queue) ready(i *Item) time.Time {
	d := q.config.FirstBackoff
	for n := 1; n < i.Attempts && d < q.config.MaxBackoff; n++ {
		d *= 2
	}
	return i.tried.Add(min(d, q.config.MaxBackoff))
}

// flush moves what has waited long enough.
func (q *Queue) flush(now time.Time) {
	for _, h := range []*itemHeap{&q.back, &q.errs} {
		for h.Len() > 0 && !q.ready(h.items[0]).After(now) {
			q.enqueue(heap.Pop(h).(*Item), "back-off over", now)
		}
	}
	for e := q.parked.Front(); e != nil; e = q.parked.Front() {
		i := e.Value.(*Item)
		if i.tried.Add(FlushInterval).After(now) {
			return
		}
		q.unpark(i)
		i.Flushed = true
		q.wake(i, "waited five minutes", now)
	}
}

// Next is when Pop may return something although it returns nothing now; ok is false when only an event can change that.
func (q *Queue) Next() (at time.Time, ok bool) {
	if q.active.Len() > 0 || q.back.Len() > 0 {
		return time.Time{}, true
	}
	if q.errs.Len() > 0 {
		at, ok = q.ready(q.errs.items[0]), true
	}
	if e := q.parked.Front(); e != nil {
		if t := e.Value.(*Item).tried.Add(FlushInterval); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}
