package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID, p.CreationTimestamp = name, types.UID(name), metav1.NewTime(start)
	p.Spec.InitContainers = []v1.Container{{Name: "i"}}
	p.Spec.Containers = []v1.Container{{Name: "a"}}
	return p
}

// story moves a pod through states, each at its own second.
type story struct {
	m   *Metrics
	now podlife.State
	at  time.Time
}

func begin(m *Metrics, p *v1.Pod) *story {
	m.Taken(p, start)
	return &story{m, podlife.Begin(podlife.Defaults(), p, start), start}
}

func (s *story) then(seconds int, change func(*podlife.State)) {
	next := s.now
	next.Containers = append([]podlife.Container(nil), s.now.Containers...)
	change(&next)
	s.at = s.at.Add(time.Duration(seconds) * time.Second)
	s.m.Moved(s.now, next, s.at)
	s.now = next
}

func instance(id string, state podlife.InstanceState, code int32) *podlife.Instance {
	return &podlife.Instance{ID: id, State: state, ExitCode: code}
}

// same compares all that is told of the named metrics with what it should be.
func same(t *testing.T, c prometheus.Collector, want string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	wanted, names := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			wanted[line] = true
			name, _, _ := strings.Cut(strings.ReplaceAll(line, "{", " "), " ")
			names[name] = true
		}
	}
	for _, f := range families {
		if !names[f.GetName()] {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			line := f.GetName()
			if len(labels) > 0 {
				line += "{" + strings.Join(labels, ",") + "}"
			}
			line += fmt.Sprintf(" %v", m.GetGauge().GetValue()+m.GetCounter().GetValue())
			if !wanted[line] {
				t.Errorf("%s is not wanted", line)
			}
			delete(wanted, line)
		}
	}
	for line := range wanted {
		t.Errorf("%s is missing", line)
	}
}

// value is a metric's sum and count, or its value.
func value(t *testing.T, c prometheus.Collector, name string) (sum float64, count uint64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetHistogram().GetSampleSum() + m.GetGauge().GetValue() + m.GetCounter().GetValue()
			count += m.GetHistogram().GetSampleCount()
		}
	}
	return sum, count
}

func says(s v1.PodStatus) func() v1.PodStatus { return func() v1.PodStatus { return s } }

// A pod's start counts what pulls and init containers take to its whole, and not to the service level.
func TestStartOfAPod(t *testing.T) {
	m := New(false)
	s := begin(m, pod("p"))
	s.then(1, func(x *podlife.State) { x.Stage, x.Sandbox = podlife.Starting, podlife.SandboxCreating })
	s.then(1, func(x *podlife.State) { x.Sandbox = podlife.SandboxUp; x.Containers[0].Stage = podlife.Pulling })
	s.then(10, func(x *podlife.State) { x.Containers[0].Stage = podlife.Creating })
	s.then(1, func(x *podlife.State) {
		x.Containers[0].Stage, x.Containers[0].Cur = podlife.Up, instance("1", podlife.InstanceRunning, 0)
	})
	s.then(20, func(x *podlife.State) {
		x.Containers[0].Stage, x.Containers[0].Cur = podlife.Exited, instance("1", podlife.InstanceExited, 0)
		x.Containers[1].Stage = podlife.Pulling
	})
	s.then(5, func(x *podlife.State) { x.Containers[1].Stage = podlife.Creating })
	up := func(x *podlife.State) {
		x.Containers[1].Stage, x.Containers[1].Cur, x.Stage = podlife.Up, instance("2", podlife.InstanceRunning, 0), podlife.Running
	}
	s.then(1, up)
	s.then(100, up) // it starts but once
	for name, want := range map[string]float64{
		"kubelet_pod_start_duration_seconds":                   39,
		"kubelet_pod_start_total_duration_seconds":             39,
		"kubelet_pod_start_sli_duration_seconds":               4,
		"kubelet_first_network_pod_start_sli_duration_seconds": 4,
		"kubelet_containers_per_pod_count":                     1,
	} {
		if sum, _ := value(t, m, name); sum != want {
			t.Errorf("%s is %v, want %v", name, sum, want)
		}
	}
	same(t, m, `
		kubelet_started_containers_total{container_type="container"} 1
		kubelet_started_containers_total{container_type="init_container"} 1
		kubelet_terminated_containers_total{container_type="init_container",exit_code="0",reason="Completed"} 1
		kubelet_started_pods_total 1
		kubelet_started_pods_errors_total 0
		kubelet_cgroup_version 1`)

	claim := pod("c")
	claim.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
	s = begin(m, claim)
	s.then(1, up)
	s = begin(m, pod("gone"))
	s.then(1, func(x *podlife.State) { x.Stage = podlife.Stopping })
	if _, n := value(t, m, "kubelet_pod_start_sli_duration_seconds"); n != 1 || len(m.starts.pods) != 0 {
		t.Errorf("%d pods are of the service level, %d are thought to start", n, len(m.starts.pods))
	}
}

func TestFailures(t *testing.T) {
	m := New(true)
	p := pod("p")
	no := false
	p.Spec.HostUsers = &no
	s := begin(m, p)
	s.then(1, func(x *podlife.State) { x.Stage, x.Sandbox = podlife.Starting, podlife.SandboxCreating })
	s.then(1, func(x *podlife.State) { x.Sandbox = podlife.SandboxNone })
	s.then(1, func(x *podlife.State) { x.Containers[0].Reason = "ErrImagePull" })
	s.then(1, func(x *podlife.State) { x.Containers[0].Reason = "ImagePullBackOff" })
	s.then(1, func(x *podlife.State) { x.Containers[0].Reason = "ErrImagePull" })
	for _, reason := range []string{"OutOfcpu", "OutOfexample.com/thing", "NodeAffinity"} {
		begin(m, pod(reason)).then(1, func(x *podlife.State) { x.Stage, x.Reject = podlife.Releasing, &podlife.Rejection{Reason: reason} })
	}
	m.Call("RunPodSandbox", "vm", time.Second, errors.New("no"))
	m.Call("ListPodSandbox", "", time.Millisecond, nil)
	m.Call("UpdateContainerResources", "", time.Millisecond, nil)
	m.Call("ImageFsInfo", "", time.Millisecond, nil)
	m.Preempted("cpu")
	m.Evicted("memory.available")
	m.Orphan()
	same(t, m, `
		kubelet_started_pods_errors_total 1
		kubelet_started_user_namespaced_pods_total 1
		kubelet_started_user_namespaced_pods_errors_total 1
		kubelet_started_containers_errors_total{code="ErrImagePull",container_type="init_container"} 2
		kubelet_admission_rejections_total{reason="OutOfcpu"} 1
		kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 1
		kubelet_admission_rejections_total{reason="Other"} 1
		kubelet_run_podsandbox_errors_total{runtime_handler="vm"} 1
		kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1
		kubelet_runtime_operations_total{operation_type="list_podsandbox"} 1
		kubelet_runtime_operations_total{operation_type="update_container"} 1
		kubelet_runtime_operations_total{operation_type="image_fs_info"} 1
		kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1
		kubelet_preemptions{preemption_signal="cpu"} 1
		kubelet_evictions{eviction_signal="memory.available"} 1
		kubelet_orphaned_runtime_pods_total 1
		kubelet_cgroup_version 2`)
}

// What cannot be started in a new sandbox has failed a pod with users of its own, once; what fails later, or in another pod, has not.
func TestPodsWithUsersOfTheirOwn(t *testing.T) {
	m := New(true)
	users := func(name string, own bool) *story {
		p := pod(name)
		host := !own
		p.Spec.HostUsers = &host
		s := begin(m, p)
		s.then(1, func(x *podlife.State) { x.Stage, x.Sandbox = podlife.Starting, podlife.SandboxCreating })
		s.then(1, func(x *podlife.State) { x.Sandbox = podlife.SandboxUp })
		return s
	}
	is := func(started, failed int) {
		t.Helper()
		same(t, m, fmt.Sprintf(`
			kubelet_started_user_namespaced_pods_total %d
			kubelet_started_user_namespaced_pods_errors_total %d
			kubelet_started_pods_errors_total 0`, started, failed))
	}
	cannot := func(i int) func(*podlife.State) {
		return func(x *podlife.State) {
			x.Containers[i].Stage, x.Containers[i].Reason = podlife.Waiting, "RunContainerError"
		}
	}
	again := func(x *podlife.State) { x.Containers[0].Stage, x.Containers[0].Reason = podlife.Creating, "" }

	s := users("bogus", true)
	is(1, 0)
	s.then(1, cannot(0))
	is(1, 1)
	s.then(1, again)
	s.then(1, cannot(0))
	is(1, 1)
	s.then(1, func(x *podlife.State) { x.Sandbox = podlife.SandboxLost })
	s.then(1, func(x *podlife.State) { x.Sandbox, x.Containers[0].Reason = podlife.SandboxCreating, "" })
	s.then(1, func(x *podlife.State) { x.Sandbox = podlife.SandboxUp })
	s.then(1, cannot(0))
	is(2, 2)

	s = users("later", true)
	s.then(1, func(x *podlife.State) { x.Containers[0].Stage = podlife.Up })
	s.then(1, cannot(1))
	is(3, 2)

	s = users("gone", true)
	s.then(1, func(x *podlife.State) { x.Stage = podlife.Stopping })
	s.then(1, cannot(0))
	is(4, 2)

	s = users("never", true) // its only failure ends it
	s.then(1, func(x *podlife.State) { cannot(0)(x); x.Stage = podlife.Releasing })
	is(5, 3)

	users("host", false).then(1, cannot(0))
	is(5, 3)
	if len(m.fresh.pods) != 0 {
		t.Errorf("%d pods are still looked after", len(m.fresh.pods))
	}
}

func TestResizes(t *testing.T) {
	m := New(true)
	with := func(cpu, memory string) *v1.Pod {
		p, high := pod("p"), int32(100_000)
		p.Spec.Priority = &high
		if cpu != "" {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		}
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		return p
	}
	s := begin(m, with("", "1Gi"))
	s.then(1, func(x *podlife.State) { x.Stage = podlife.Running })
	s.then(1, func(x *podlife.State) { x.Pod = with("1", "512Mi") })
	defer1 := func(x *podlife.State) { x.Pending = &podlife.Resize{Reason: v1.PodReasonDeferred, Since: s.at} }
	s.then(0, defer1)
	s.then(7, func(x *podlife.State) { x.Pending, x.Granted = nil, podlife.GrantOf(x.Pod) })
	s.then(1, func(x *podlife.State) { x.Pod = with("2", "1Gi") })
	s.then(0, defer1)
	s.then(30, func(x *podlife.State) { x.Pod, x.Pending = with("1", "512Mi"), nil })
	s.then(0, defer1)
	s.then(300, func(x *podlife.State) { x.Stage = podlife.Stopping })
	m.ResizeAccepted("pods_removed")
	m.ResizeInfeasible("swap_limitation")
	m.ResizeTried(30*time.Millisecond, nil)
	m.ResizeTried(time.Second, errors.New("no"))
	same(t, m, `
		kubelet_container_requested_resizes_total{operation="add",requirement="requests",resource="cpu"} 1
		kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="cpu"} 1
		kubelet_container_requested_resizes_total{operation="decrease",requirement="requests",resource="cpu"} 1
		kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="memory"} 1
		kubelet_container_requested_resizes_total{operation="decrease",requirement="limits",resource="memory"} 2
		kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"} 1
		kubelet_pod_infeasible_resizes_total{reason_detail="swap_limitation"} 1`)
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "kubelet_pod_deferred_resize_duration_seconds" || f.GetName() == "kubelet_pod_resize_duration_milliseconds" {
			for _, x := range f.GetMetric() {
				var labels []string
				for _, l := range x.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				got[strings.Join(labels, " ")] = x.GetHistogram().GetSampleSum()
			}
		}
	}
	for labels, want := range map[string]float64{"high accepted": 7, "high reverted": 30, "high terminated": 300, "true": 30, "false": 1000} {
		if got[labels] != want {
			t.Errorf("%s: %v, want %v", labels, got[labels], want)
		}
	}
}

func TestShutdownIsToldByItsTimes(t *testing.T) {
	m := New(true)
	m.ShutdownBegan(start)
	same(t, m, "kubelet_graceful_shutdown_start_time_seconds 1.7672256e+09\nkubelet_graceful_shutdown_end_time_seconds 0")
	m.ShutdownEnded(start.Add(time.Second))
	same(t, m, "kubelet_graceful_shutdown_end_time_seconds 1.767225601e+09")
}

func TestImagesAndHooks(t *testing.T) {
	m := New(true)
	m.ImagePulled(9<<20, time.Second)
	m.ImagePulled(2<<30, time.Minute)
	m.ImageCollected("age")
	m.HTTPFallback()
	m.SleepCut()
	m.ImageVolume(nil)
	m.ImageVolume(errors.New("no"))
	same(t, m, `
		kubelet_image_garbage_collected_total{reason="age"} 1
		kubelet_lifecycle_handler_http_fallbacks_total 1
		kubelet_sleep_action_terminated_early_total 1
		kubelet_image_volume_requested_total 2
		kubelet_image_volume_mounted_succeed_total 1
		kubelet_image_volume_mounted_errors_total 1`)
	if sum, n := value(t, m, "kubelet_image_pull_duration_seconds"); sum != 61 || n != 2 {
		t.Errorf("%v in %d pulls", sum, n)
	}
	if sizeBucket(2<<30) != "1GB-5GB" || sizeBucket(0) != "0-10MB" || sizeBucket(1<<40) != "GT100GB" {
		t.Error("sizes are not called as upstream calls them")
	}
}

func TestHowLongThingsTake(t *testing.T) {
	m := New(true)
	m.Worked(worker.Create, 2*time.Second)
	m.Worked(worker.Kill, time.Second)
	m.StatusWritten(20 * time.Millisecond)
	m.Relisted(start, time.Second, 0)
	m.Relisted(start.Add(10*time.Second), time.Second, 10*time.Second)
	m.Shortage("memory.available", time.Second)
	m.Inspected(30 * time.Millisecond)
	m.VolumeOperated("kubernetes.io/empty-dir", "volume_mount", 2*time.Second, nil)
	m.CgroupOperated("create", 5*time.Millisecond)
	for name, want := range map[string]float64{
		"kubelet_pod_worker_duration_seconds":      3,
		"kubelet_pod_status_sync_duration_seconds": 0.02,
		"kubelet_pleg_relist_duration_seconds":     2,
		"kubelet_pleg_relist_interval_seconds":     10,
		"kubelet_eviction_stats_age_seconds":       1,
		"kubelet_pleg_pod_relist_duration_seconds": 0.03,
		"storage_operation_duration_seconds":       2,
		"kubelet_cgroup_manager_duration_seconds":  0.005,
		"kubelet_pleg_last_seen_seconds":           float64(start.Add(10 * time.Second).Unix()),
	} {
		if sum, _ := value(t, m, name); sum != want {
			t.Errorf("%s is %v, want %v", name, sum, want)
		}
	}
	if _, n := value(t, m, "kubelet_pleg_relist_interval_seconds"); n != 1 {
		t.Errorf("%d intervals between two lists", n)
	}
}

func TestHowManyThereAre(t *testing.T) {
	m := New(true)
	static, low := pod("s"), int32(-5)
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	waits := pod("w")
	waits.ResourceVersion, waits.Spec.Priority = "1", &low
	waits.Spec.EphemeralContainers = []v1.EphemeralContainer{{}}
	m.Mirrors = func() int { return 1 }
	m.Pods = func() []worker.Snapshot {
		return []worker.Snapshot{
			{Pod: static, Stage: podlife.Running, Status: says(v1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []v1.ContainerStatus{
				{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}, {State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}},
			}})},
			{Pod: waits, Stage: podlife.Running, Status: says(v1.PodStatus{Conditions: []v1.PodCondition{
				{Type: v1.PodResizePending, Reason: "Deferred"}, {Type: v1.PodResizeInProgress},
			}})},
			{Pod: waits, Stage: podlife.Stopping, Removed: true, Status: says(v1.PodStatus{})},
			{Pod: pod("ghost"), Stage: podlife.Releasing, Removed: true, Status: says(v1.PodStatus{})},
		}
	}
	same(t, m, `
		kubelet_running_pods 1
		kubelet_running_containers{container_state="running"} 1
		kubelet_running_containers{container_state="exited"} 1
		kubelet_running_containers{container_state="created"} 0
		kubelet_desired_pods{static=""} 1
		kubelet_desired_pods{static="true"} 1
		kubelet_active_pods{static=""} 2
		kubelet_active_pods{static="true"} 1
		kubelet_mirror_pods 1
		kubelet_managed_ephemeral_containers 2
		kubelet_pod_pending_resizes{priority_bucket="low",reason="deferred"} 1
		kubelet_pod_in_progress_resizes 1`)
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, _ := r.Gather()
	for _, f := range families {
		if f.GetName() != "kubelet_working_pods" {
			continue
		}
		var got []string
		for _, x := range f.GetMetric() {
			if x.GetGauge().GetValue() > 0 {
				for _, l := range x.GetLabel() {
					got = append(got, l.GetValue())
				}
			}
		}
		if want := "desired sync  desired sync true orphan terminating  runtime_only terminated unknown"; strings.Join(got, " ") != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestHowLongANodeTakesToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		booted := time.Now()
		time.Sleep(20 * time.Second)
		m := New(true)
		m.Ready() // of a node that was known
		time.Sleep(time.Second)
		tried := time.Now()
		time.Sleep(2 * time.Second)
		m.Registered(booted, tried)
		time.Sleep(3 * time.Second)
		m.Ready()
		time.Sleep(time.Hour)
		m.Registered(booted, tried) // somebody deleted it
		m.Ready()
		m.Swept(2, 1)
		same(t, m, `
			kubelet_node_startup_pre_kubelet_duration_seconds 20
			kubelet_node_startup_pre_registration_duration_seconds 1
			kubelet_node_startup_registration_duration_seconds 2
			kubelet_node_startup_post_registration_duration_seconds 3
			kubelet_node_startup_duration_seconds 26
			kubelet_orphan_pod_cleaned_volumes 2
			kubelet_orphan_pod_cleaned_volumes_errors 1`)
	})
}
