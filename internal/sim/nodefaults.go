package sim

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"podo.dev/podo/internal/cri/fake"
)

// mishaps are what goes wrong on nodes with a runtime.
var mishaps = []action{
	{3, (*World).killKubelet},
	{3, (*World).killContainer},
	{2, (*World).killSandbox},
	{2, (*World).dropEvents},
	{2, (*World).hang},
	{3, (*World).failRuntime},
	{1, (*World).vanish},
}

// podOf picks a pod that has something on a machine; "" when there is none.
func (w *World) podOf(m *Machine) string {
	all := m.Runtime.Sandboxes()
	if len(all) == 0 {
		return ""
	}
	return all[w.rng.IntN(len(all))].Pod
}

func (w *World) killContainer() {
	m := w.machine()
	pod := w.podOf(m)
	killed := m.Runtime.Kill(pod, "main", 137, w.rng.IntN(2) == 0)
	w.note("kill -9 the container of %s: %v", pod, killed)
}

func (w *World) killSandbox() {
	m := w.machine()
	pod := w.podOf(m)
	m.Runtime.KillSandbox(pod)
	w.note("the sandbox of %s is lost", pod)
}

// vanish makes the runtime forget a pod, as after a crash of its database.
func (w *World) vanish() {
	m := w.machine()
	pod := w.podOf(m)
	m.Runtime.Vanish(pod)
	w.note("the runtime of %s forgets %s", m.Name, pod)
}

func (w *World) dropEvents() {
	m := w.machine()
	m.Runtime.DropEvents()
	w.note("the event stream of %s breaks", m.Name)
}

func (w *World) hang() {
	m := w.machine()
	if m.resume != nil {
		return
	}
	d := time.Duration(w.rng.IntN(90)) * time.Second
	w.note("the runtime of %s hangs for %s", m.Name, d)
	resume := m.Runtime.Hang()
	m.resume = resume
	m.hangs = time.Now().Add(d)
}

// failRuntime makes a kind of call fail some times; half of the failed calls have happened all the same.
func (w *World) failRuntime() {
	m := w.machine()
	ops := []fake.Op{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "PullImage", "ListContainers", "ListPodSandbox", "ContainerStatus"}
	f := fake.Fault{
		Op: ops[w.rng.IntN(len(ops))], Times: 1 + w.rng.IntN(5), After: w.rng.IntN(2) == 0,
		Err: []error{status.Error(codes.Unavailable, "connection refused"), status.Error(codes.DeadlineExceeded, "context deadline exceeded"), errors.New("something broke")}[w.rng.IntN(3)],
	}
	m.faults = append(m.faults, m.Runtime.Fail(f))
	w.note("%d calls of %s on %s fail (after all: %v): %v", f.Times, f.Op, m.Name, f.After, f.Err)
}

// mend ends what is over on a machine.
func (w *World) mend(m *Machine) {
	now := time.Now()
	if !m.kubelet.running() && now.After(m.back) {
		m.kubelet.start()
	}
	if m.resume != nil && now.After(m.hangs) {
		m.resume()
		m.resume = nil
	}
}
