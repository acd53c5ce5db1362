package sim

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/kubelettest"
)

// Machine is a node's hardware, which outlives its kubelet: the runtime with what runs in it, and the disk.
type Machine struct {
	Name    string
	zone    string
	Runtime *fake.Runtime
	kubelet *proc
	back    time.Time // when a killed kubelet comes back
	resume  func()    // ends a hang of the runtime, at hangs
	hangs   time.Time
	faults  []func() // end the faults of the runtime

	clock atomic.Int64 // how far its clock is ahead, in nanoseconds
	// What a model of a kubelet finds again after its death: pods of sets that run, and since when others are to end or work.
	runs     map[types.UID]string
	disowned bool // its Node was deleted, and no kubelet of it has been heard of since
	working  map[types.UID]time.Time
	ending   map[types.UID]time.Time

	checkpoints kubelettest.Checkpoints
	volumes     kubelettest.Volumes
	cgroups     kubelettest.Cgroups
}

// Allocatable is what every machine offers.
func Allocatable() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourcePods: resource.MustParse("10"),
		v1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
	}
}

func (w *World) addMachine(name string) *Machine {
	w.t.Helper()
	m := &Machine{Name: name, zone: zoneOf(len(w.machines)), Runtime: fake.New(), runs: map[types.UID]string{}}
	m.working, m.ending = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	m.Runtime.Offer(fake.Image{Name: Image, Size: 1 << 20, Pull: 2 * time.Second})
	for op, d := range map[fake.Op]time.Duration{
		"RunPodSandbox": 90 * time.Millisecond, "StopPodSandbox": 30 * time.Millisecond, "CreateContainer": 5 * time.Millisecond,
		"StartContainer": 40 * time.Millisecond,
	} {
		m.Runtime.Latency(op, d)
	}
	k, err := w.kubelet(KubeletDeps{
		Node: name, Dir: w.t.TempDir(), World: w, Machine: m, Client: local.Node(w.Verbs, name), Append: w.Timeline.Append,
	})
	w.must(err)
	m.kubelet = w.process(k)
	w.machines = append(w.machines, m)
	m.kubelet.start()
	return m
}

// recover brings everything on the machine back.
func (m *Machine) recover() {
	m.mendRuntime()
	m.kubelet.start()
}

func (m *Machine) mendRuntime() {
	if m.resume != nil {
		m.resume()
		m.resume = nil
	}
	for _, end := range m.faults {
		end()
	}
	m.faults = nil
}

// only says which pods there are: nothing else runs on the machine; and whether its Node is there again.
func (m *Machine) only(alive *sync.Mutex, there map[types.UID]bool, known bool) {
	alive.Lock()
	defer alive.Unlock()
	maps.DeleteFunc(m.runs, func(uid types.UID, _ string) bool { return !there[uid] })
	m.disowned = m.disowned && !known
	gone := func(uid types.UID, _ time.Time) bool { return !there[uid] }
	maps.DeleteFunc(m.working, gone)
	maps.DeleteFunc(m.ending, gone)
}

// stops says that a pod runs no more.
func (m *Machine) stops(alive *sync.Mutex, p *v1.Pod) {
	alive.Lock()
	defer alive.Unlock()
	delete(m.runs, p.UID)
}

// grace is what is left of a pod's, from when its kubelet heard of its end, whatever clocks say.
func (m *Machine) grace(p *v1.Pod) time.Duration {
	return left(m.ending, p.UID, time.Duration(*p.DeletionGracePeriodSeconds)*time.Second)
}

// works is how long a pod has still to work.
func (m *Machine) works(p *v1.Pod, takes time.Duration) time.Duration {
	return left(m.working, p.UID, takes)
}

// left is what is left of d since something was first asked for.
func left(since map[types.UID]time.Time, what types.UID, d time.Duration) time.Duration {
	if _, ok := since[what]; !ok {
		since[what] = time.Now()
	}
	return time.Until(since[what].Add(d))
}
