package kubelettest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// Rig is a node in a bubble: a kubelet on a fake runtime, with an API. Make it inside synctest.Test.
type Rig struct {
	T           testing.TB
	Runtime     *fake.Runtime
	API         *API
	Volumes     *Volumes
	Cgroups     *Cgroups
	Checkpoints *Checkpoints
	Kubelet     *kubelet.Kubelet
	Config      kubelet.Config

	mu      sync.Mutex
	records []timeline.Record
	events  []string
	stop    func()
	cancel  context.CancelFunc
}

// NewRig makes a node whose runtime takes the times of a real one, and starts its kubelet. adjust may be nil.
func NewRig(t testing.TB, adjust func(*kubelet.Config)) *Rig {
	r := &Rig{T: t, Runtime: fake.New(), Volumes: &Volumes{}, Cgroups: &Cgroups{}, Checkpoints: &Checkpoints{}}
	r.API = NewAPI(r.append)
	for op, d := range map[fake.Op]time.Duration{
		"RunPodSandbox": 90 * time.Millisecond, "StopPodSandbox": 30 * time.Millisecond, "RemovePodSandbox": 10 * time.Millisecond,
		"CreateContainer": 5 * time.Millisecond, "StartContainer": 40 * time.Millisecond, "ImageStatus": time.Millisecond,
	} {
		r.Runtime.Latency(op, d)
	}
	life := podlife.Defaults()
	life.RuntimeName, life.HostIPs = "fake", []string{"192.0.2.1"}
	r.Config = kubelet.Config{
		Node: "node", Sources: []kubelet.Source{r.API}, Checkpoints: r.Checkpoints, Reporter: r.API,
		Config: worker.Config{
			Life: life, Runtime: r.Runtime, Admission: Admission{}, Volumes: r.Volumes, Images: Images{r.Runtime}, Cgroups: r.Cgroups,
			Specs: Specs{Node: "node"}, Event: r.event, Append: r.append, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
	}
	if adjust != nil {
		adjust(&r.Config)
	}
	r.Start()
	return r
}

func (r *Rig) append(rec timeline.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
}

func (r *Rig) event(pod *v1.Pod, container, kind, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if container != "" {
		container = " " + container
	}
	r.events = append(r.events, fmt.Sprintf("%s%s: %s %s: %s", pod.Name, container, kind, reason, message))
}

// Start starts a kubelet and waits until it is ready.
func (r *Rig) Start() {
	r.T.Helper()
	k, err := kubelet.New(r.Config)
	if err != nil {
		r.T.Fatal(err)
	}
	r.Kubelet = k
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- k.Run(ctx, func() { close(ready) }) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.T.Errorf("kubelet: %v", err)
		}
	}
	select {
	case <-ready:
	case err := <-done:
		r.T.Fatalf("kubelet ended before it was ready: %v", err)
	}
	synctest.Wait()
}

// Crash lets nothing more happen in the kubelet, without waiting for it; Restart is to follow. It may be called from inside.
func (r *Rig) Crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
}

// Stop ends the kubelet, and nothing else.
func (r *Rig) Stop() {
	r.stop()
	r.stop = func() {}
}

// Restart is Stop and Start.
func (r *Rig) Restart() {
	r.Stop()
	r.Start()
}

// Close ends everything that still runs, so that the bubble can end.
func (r *Rig) Close() {
	r.Stop()
	for _, s := range r.Runtime.Sandboxes() {
		r.Runtime.KillSandbox(s.Pod)
	}
}

// Records are the timeline's of a pod, in the order of time. Those of different containers at one instant are in the order of
// names, since they have no other.
func (r *Rig) Records(pod string) []timeline.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []timeline.Record
	for _, rec := range r.records {
		if rec.Pod.Name == pod {
			out = append(out, rec)
		}
	}
	slices.SortStableFunc(out, func(a, b timeline.Record) int { return a.At.Compare(b.At) })
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && out[j].At.Equal(out[i].At) {
			j++
		}
		sortContainers(out[i:j])
		i = j
	}
	for i := range out {
		out[i].Seq = uint64(i + 1)
	}
	return out
}

// sortContainers puts the containers' records of one instant in the order of names, in the places that they have.
func sortContainers(recs []timeline.Record) {
	var at []int
	var some []timeline.Record
	for i, r := range recs {
		if r.Stage == timeline.Container {
			at, some = append(at, i), append(some, r)
		}
	}
	slices.SortStableFunc(some, func(a, b timeline.Record) int { return cmp.Compare(a.Subject, b.Subject) })
	for i, r := range some {
		recs[at[i]] = r
	}
}

// Events are what users were told, in order.
func (r *Rig) Events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
