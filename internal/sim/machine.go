package sim

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	m := &Machine{Name: name, zone: zoneOf(len(w.machines)), Runtime: fake.New()}
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
