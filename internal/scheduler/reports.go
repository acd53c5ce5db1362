package scheduler

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// report is a failure to be written to the pod's condition and event, and its nomination. Without a reason it is about the
// nomination only.
type report struct {
	pod             *v1.Pod
	reason, message string
	nominate        string // a node
	tries           int
}

// with adds to the report what it leaves open and the one before it says.
func (r report) with(before report) report {
	if r.reason == "" {
		r.reason, r.message, r.tries = before.reason, before.message, before.tries
	}
	return r
}

// reports are what pods are to be told: of each the newest, and one at a time, so that what was found out before never takes the place of what
// was found out after it.
//
//	add ──► waiting ──next──► being told ──told──► gone; waiting, if something newer came meanwhile
//	           ▲                  │
//	           └──────failed──────┘ with the newer one's word where there is one
type reports struct {
	mu      sync.Mutex
	waiting map[types.UID]report
	order   []types.UID // of the waiting ones that are not being told
	telling map[types.UID]bool
	wake    chan struct{} // has something when order may be non-empty
}

func newReports() *reports {
	return &reports{waiting: map[types.UID]report{}, telling: map[types.UID]bool{}, wake: make(chan struct{}, reporters)}
}

func (q *reports) add(r report) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, queued := q.waiting[r.pod.UID]
	if queued {
		r = r.with(before)
	}
	q.waiting[r.pod.UID] = r
	if !queued && !q.telling[r.pod.UID] {
		q.enqueue(r.pod.UID)
	}
}

// next is the report that has waited longest; the taker calls told or failed.
func (q *reports) next() (report, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return report{}, false
	}
	uid := q.order[0]
	q.order = q.order[1:]
	r := q.waiting[uid]
	delete(q.waiting, uid)
	q.telling[uid] = true
	return r, true
}

func (q *reports) told(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.telling, uid)
	if _, newer := q.waiting[uid]; newer {
		q.enqueue(uid)
	}
}

// failed queues the report again, or its successor.
func (q *reports) failed(r report) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.telling, r.pod.UID)
	if newer, ok := q.waiting[r.pod.UID]; ok {
		r = newer.with(r)
	}
	q.waiting[r.pod.UID] = r
	q.enqueue(r.pod.UID)
}

// pending tells whether a report about the pod waits or is being written: the API's word about the pod is about to change.
func (q *reports) pending(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waiting := q.waiting[uid]
	return waiting || q.telling[uid]
}

func (q *reports) enqueue(uid types.UID) {
	q.order = append(q.order, uid)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
