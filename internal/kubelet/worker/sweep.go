package worker

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sweep is the removal of what a pod without a worker left behind. Only its worker may make and remove what is a pod's, so during
// a sweep the pod gets no worker: one that comes back under its UID, as a static pod does, begins after it.
type sweep struct {
	under int                  // removals under way
	pod   *v1.Pod              // the newest form that its source wants
	begin func(*v1.Pod) func() // begins the pod; nil while nobody wants it
}

// give hands a pod on, unless what it left is being swept: then the newest form that a source wants is handed on afterwards. An
// unwanted pod (wanted false) is dropped then, since cleanup finds it again. begin is called with mu held, and what it returns
// without.
func (w *Workers) give(p *v1.Pod, wanted bool, begin func(*v1.Pod) func()) {
	w.mu.Lock()
	if s := w.sweeps[p.UID]; s != nil {
		if wanted {
			s.wait(p, begin)
		}
		w.mu.Unlock()
		return
	}
	then := begin(p)
	w.mu.Unlock()
	then()
}

func (s *sweep) wait(p *v1.Pod, begin func(*v1.Pod) func()) {
	s.pod = p
	if s.begin == nil {
		s.begin = begin
	}
}

// Sweep removes something that a pod left, unless the pod has a worker or is wanted. wanted is called once the pod can get no
// worker any more. Sweep tells whether remove was called.
func (w *Workers) Sweep(uid types.UID, wanted func() bool, remove func()) bool {
	w.mu.Lock()
	if w.pods[uid] != nil {
		w.mu.Unlock()
		return false
	}
	s := w.hold(uid)
	w.mu.Unlock()
	defer w.swept(uid, s)
	if wanted() {
		return false
	}
	remove()
	return true
}

// hold keeps a pod from getting a worker until swept is called as many times. mu is held.
func (w *Workers) hold(uid types.UID) *sweep {
	s := w.sweeps[uid]
	if s == nil {
		s = &sweep{}
		w.sweeps[uid] = s
	}
	s.under++
	return s
}

func (w *Workers) swept(uid types.UID, s *sweep) {
	then := func() {}
	w.mu.Lock()
	s.under--
	if s.under == 0 {
		delete(w.sweeps, uid)
		if s.begin != nil && w.ctx.Err() == nil {
			then = s.begin(s.pod)
		}
	}
	w.mu.Unlock()
	then()
}
