package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/runtime"
)

// kills are the rounds of TestKilledAtEveryEffect. A row is a pod, what is done with it (- is nothing: it is on its way since podo is back)
// and the boundary at which it is then held. When every row's pod is, podo is killed. What is reached while the sync loop waits for it,
// a pod's admission and what follows at once, comes last: nothing else goes on then.
const kills = `
a create CreateSandbox.before
b create CreateSandbox.after
c create PullImage.before
d create PullImage.after
e create CreateContainer.before
f create CreateContainer.after
k create EnsureCgroup.after
l create MountVolumes.after
no-sandbox create Observe.before
crashes create StartContainer.before
g create Admit.before

a - StartContainer.before
b - StartContainer.after
c - RunHook.before
d - RunHook.after
e - SetProbes.before
f - SetProbes.after
no-sandbox - Observe.after
crashes - RemoveContainer.before
h create Admit.after

crashes - RemoveContainer.after
a resize Allocate.before
b resize Allocate.after
c resize ResizePod.before
d resize ResizePod.after
e delete StopContainer.before
f delete StopContainer.after
i create EnsureCgroup.before

e - UnmountVolumes.before
f - UnmountVolumes.after
a delete StopSandbox.before
b delete StopSandbox.after
c delete Save.before
d delete Save.after
g delete Tell.before
h delete Tell.after
j create MountVolumes.before

a - RemoveCgroup.before
b - RemoveCgroup.after
c - RemoveSandbox.before
d - RemoveSandbox.after
i delete WakeAt.before
j delete WakeAt.after
`

// TestKilledAtEveryEffect kills podo before and after each effect that a pod's life knows. Whatever it was about to do, or had just
// done: pods come to run, are changed and end as if nothing had been; each container and sandbox is made once, and nothing is left.
func TestKilledAtEveryEffect(t *testing.T) {
	t.Parallel()
	w := &walk{t: t, c: aCluster(t), armed: map[string]string{}, held: map[string]chan struct{}{}, made: map[string]int{}, fate: map[string]string{}, third: make(chan struct{})}
	w.listen()
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	const quick = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}\n"
	if err := os.WriteFile(config, []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	w.c.start(t, "--kubelet-config", config)
	w.connect()
	w.count()
	w.create("first") // what the first pod makes for all of them is there before it is counted
	w.settled("first")
	w.delete("first")
	w.settled("first")
	before := w.traces()

	killed := map[string]bool{}
	for n, round := range strings.Split(strings.TrimSpace(kills), "\n\n") {
		began := time.Now()
		rows := strings.Split(round, "\n")
		if n > 0 {
			for _, row := range rows {
				if f := strings.Fields(row); f[1] == "-" {
					w.arm(f[0], f[2])
				}
			}
			w.c.start(t, "--kubelet-config", config)
			w.connect()
		}
		busy := map[string]bool{}
		for _, row := range rows {
			busy[strings.Fields(row)[0]] = true
		}
		for _, row := range rows {
			f := strings.Fields(row)
			if row == rows[len(rows)-1] {
				for pod := range w.fate {
					if !busy[pod] && pod != "no-sandbox" {
						w.settled(pod) // else it would be killed in the middle of a call, where less is promised
					}
				}
			}
			w.reach(f[0], f[1], f[2])
			if f[2] == "RemoveContainer.before" { // its next container is being started meanwhile
				<-w.third
			}
			killed[f[2]] = true
		}
		w.kill()
		t.Logf("round %d took %s", n+1, time.Since(began).Round(time.Millisecond))
	}
	for _, e := range podlife.Effects {
		for _, side := range []string{".before", ".after"} {
			if point := podlife.Name(e) + side; !killed[point] {
				t.Errorf("no row kills podo at %s", point)
			}
		}
	}

	w.c.start(t, "--kubelet-config", config)
	w.connect()
	for pod := range w.fate {
		if pod != "no-sandbox" {
			w.settled(pod)
		}
	}
	w.counted()
	for pod, fate := range w.fate {
		if fate != "delete" {
			w.delete(pod)
		}
	}
	for pod := range w.fate {
		w.settled(pod)
	}
	var more []string
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the kernel ends some of it in its own time
		more = nil
		for kind, n := range w.traces() {
			if n > before[kind] {
				more = append(more, fmt.Sprintf("%d %s, %d before", n, kind, before[kind]))
			}
		}
		if len(more) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, m := range more {
		t.Error("left: " + m)
	}
}

// walk is a server whose pods are held at boundaries.
type walk struct {
	t   *testing.T
	c   *cluster
	cs  kubernetes.Interface
	cri *containerd.Client

	mu    sync.Mutex
	armed map[string]string        // pod -> the boundary at which it is held next
	held  map[string]chan struct{} // pod -> closed when it is
	conns []net.Conn               // those that are held
	made  map[string]int           // pod/container -> how often it was created; the sandbox is POD
	third chan struct{}            // closed when the third of the pod that crashes has started

	fate map[string]string // pod -> what was last done with it
}

// listen hears of each boundary, and lets those go on that are not armed.
func (w *walk) listen() {
	socket := filepath.Join(w.t.TempDir(), "boundaries")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c.env = append(w.c.env, "PODO_FAILPOINT="+socket)
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go w.reached(conn)
		}
	}()
}

func (w *walk) reached(conn net.Conn) {
	line, err := bufio.NewReader(conn).ReadString('\n')
	pod, point, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "default/")), " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.armed[pod] != point {
		conn.Close()
		return
	}
	delete(w.armed, pod)
	w.conns = append(w.conns, conn)
	close(w.held[pod])
}

func (w *walk) arm(pod, point string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed[pod], w.held[pod] = point, make(chan struct{})
}

// reach does something with a pod, and waits until it is held.
func (w *walk) reach(pod, action, point string) {
	w.t.Helper()
	switch action {
	case "create":
		w.arm(pod, point)
		w.create(pod)
	case "resize":
		w.settled(pod)
		w.arm(pod, point)
		w.resize(pod)
	case "delete":
		w.settled(pod)
		w.arm(pod, point)
		w.delete(pod)
	}
	w.mu.Lock()
	held := w.held[pod]
	w.mu.Unlock()
	select {
	case <-held:
	case <-time.After(time.Minute):
		w.t.Fatalf("%s has not come to %s", pod, point)
	}
}

func (w *walk) kill() {
	w.t.Helper()
	pid, err := pidFile(filepath.Join(w.c.dir, "lock"))
	if err == nil {
		err = kill9(pid)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *walk) connect() {
	w.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.c.dir, "kubeconfig"))
	if err != nil {
		w.t.Fatal(err)
	}
	config.QPS = -1
	if w.cs, err = kubernetes.NewForConfig(config); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) create(name string) {
	w.t.Helper()
	w.fate[name] = "create"
	const image = "localhost/podo/busybox:dev"
	exec := func(command string) *v1.LifecycleHandler {
		return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Volumes:                       []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}},
		InitContainers:                []v1.Container{{Name: "i", Image: image, Command: []string{"true"}}},
		Containers: []v1.Container{{
			Name: "m", Image: image, Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"},
			Resources:    v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}},
			Lifecycle:    &v1.Lifecycle{PostStart: exec("true"), PreStop: exec("true")},
			VolumeMounts: []v1.VolumeMount{{Name: "d", MountPath: "/d"}},
		}},
	}}
	*pod.Spec.TerminationGracePeriodSeconds = 20
	m := &pod.Spec.Containers[0]
	switch name {
	case "e", "f":
		m.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	case "no-sandbox": // the kernel does not take the value
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "7"}}}
	case "crashes":
		m.Command = []string{"sh", "-c", "echo >>/d/n; [ $(wc -l </d/n) -gt 2 ] || exit 1; sleep 3600"}
		m.Lifecycle = nil
		*pod.Spec.TerminationGracePeriodSeconds = 1
	}
	if _, err := w.cs.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

const resized = "20m"

func (w *walk) resize(name string) {
	w.t.Helper()
	w.fate[name] = "resize"
	patch := `{"spec":{"containers":[{"name":"m","resources":{"requests":{"cpu":"` + resized + `"}}}]}}`
	if _, err := w.cs.CoreV1().Pods("default").Patch(w.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) delete(name string) {
	w.t.Helper()
	w.fate[name] = "delete"
	if err := w.cs.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// settled waits until a pod is what was last asked for.
func (w *walk) settled(name string) {
	w.t.Helper()
	var last *v1.Pod
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	pods := w.cs.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(list.Items) > 0 {
		last = &list.Items[0]
	}
	if w.as(name, last) {
		return
	}
	events, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: list.ResourceVersion,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*v1.Pod)
		if !ok {
			w.t.Fatalf("watch of %s: %v", name, e.Object)
		}
		if last = pod; e.Type == watch.Deleted {
			last = nil
		}
		if w.as(name, last) {
			return
		}
	}
	text, _ := json.Marshal(last.Status)
	w.t.Fatalf("%s (%s) is still %s", name, w.fate[name], text)
}

// as tells whether a pod, nil when there is none, is what was last asked for.
func (w *walk) as(name string, pod *v1.Pod) bool {
	if w.fate[name] == "delete" || pod == nil {
		return w.fate[name] == "delete" && pod == nil
	}
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
	if !ready {
		return false
	}
	restarts := int32(0)
	if name == "crashes" {
		restarts = 2
	}
	m, i := pod.Status.ContainerStatuses[0], pod.Status.InitContainerStatuses[0]
	if m.RestartCount > restarts || i.RestartCount > 0 {
		w.t.Errorf("%s: i was restarted %d times, m %d times", name, i.RestartCount, m.RestartCount)
	}
	cpu := "10m"
	if w.fate[name] == "resize" {
		cpu = resized
	}
	return m.RestartCount == restarts && m.Resources != nil && m.Resources.Requests.Cpu().String() == cpu && m.AllocatedResources.Cpu().String() == cpu
}

// count counts what the runtime makes from now on. The runtime outlives podo.
func (w *walk) count() {
	var err error
	if w.cri, err = containerd.New("unix://" + runtime.LayoutFor(w.c.dir).Socket); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.cri.Close() })
	events, connected := make(chan *runtimev1.ContainerEventResponse), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- w.cri.Events(w.t.Context(), func() { close(connected) }, events)
		close(events)
	}()
	go func() {
		started := 0
		for e := range events {
			name := "POD"
			for _, c := range e.ContainersStatuses {
				if c.Id == e.ContainerId {
					name = c.Metadata.Name
				}
			}
			name = e.PodSandboxStatus.GetMetadata().GetName() + "/" + name
			switch e.ContainerEventType {
			case runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT:
				w.mu.Lock()
				w.made[name]++
				w.mu.Unlock()
			case runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT:
				if name == "crashes/m" {
					started++
				}
				if name == "crashes/m" && started == 3 {
					close(w.third)
				}
			}
		}
	}()
	select {
	case <-connected:
	case err := <-ended:
		w.t.Fatal(err)
	}
}

func (w *walk) counted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pod := range w.fate {
		for name, want := range map[string]int{"POD": 1, "i": 1, "m": 1} {
			switch {
			case pod == "no-sandbox":
				want = 0
			case pod == "crashes" && name == "m":
				want = 3
			}
			if got := w.made[pod+"/"+name]; got != want && !(pod == "no-sandbox" && name == "POD") {
				w.t.Errorf("%s/%s was created %d times, want %d", pod, name, got, want)
			}
		}
	}
}

// traces are what a story counts, and what the runtime has.
func (w *walk) traces() map[string]int {
	n := traces(w.c)
	boxes, err := w.cri.ListPodSandbox(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	containers, err := w.cri.ListContainers(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	n["sandboxes"], n["containers"] = len(boxes), len(containers)
	return n
}
