package explain_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/timeline"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now   = start.Add(5 * time.Minute)
	ref   = timeline.PodRef{Namespace: "ns", Name: "p", UID: "u"}
)

func pod(change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", CreationTimestamp: metav1.NewTime(start)}}
	p.Spec.NodeName = "node-a"
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	began := metav1.NewTime(start.Add(time.Second))
	p.Status.StartTime = &began
	change(p)
	return p
}

func waiting(name, reason, message string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Image: "docker.io/library/x:1", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func node(status v1.ConditionStatus) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
		{Type: v1.NodeReady, Status: status, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."},
	}}}
}

func rec(after time.Duration, stage timeline.Stage) timeline.Record {
	return timeline.New(start.Add(after), ref, stage)
}

func TestDiagnose(t *testing.T) {
	deleted := func(p *v1.Pod, ago time.Duration, grace int64) {
		at := metav1.NewTime(now.Add(-ago).Add(time.Duration(grace) * time.Second))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
	running := v1.ContainerStatus{Name: "a", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}}
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		records []timeline.Record
		node    *v1.Node
		want    []string // in this order
	}{
		{
			"too large", pod(func(p *v1.Pod) { p.Spec.NodeName = "" }),
			[]timeline.Record{rec(0, timeline.Attempt).Move("", "unschedulable").With("try", 3).With("nodes", 1).With("NodeResourcesFit", "1 Insufficient cpu (node-a cpu.asked=4 cpu.free=500m)")},
			node(v1.ConditionTrue),
			[]string{"Pod ns/p waits for a node since 03:04:05 (5 min ago).", "The only node does not take it", "cpu.asked=4 cpu.free=500m", "Lower the pod's resources.requests"},
		},
		{
			"waits for its victims", pod(func(p *v1.Pod) {
				p.Spec.NodeName, p.Status.NominatedNodeName = "", "node-a"
			}),
			[]timeline.Record{rec(0, timeline.Attempt).Move("", "unschedulable").With("try", 1).With("nodes", 1).
				With("NodeResourcesFit", "1 Insufficient cpu").With("nominated", "node-a").With("victims", "ns/b,ns/c")},
			node(v1.ConditionTrue),
			[]string{"waits for room on node-a", "Pods of lower priority have to leave for it: ns/b, ns/c.", "The only node does not take it: 1 Insufficient cpu", "once they have ended"},
		},
		{
			"tainted", pod(func(p *v1.Pod) {
				p.Spec.NodeName = ""
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}}
			}), nil,
			&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "gpu", Value: "only", Effect: v1.TaintEffectNoSchedule}}}},
			[]string{"The scheduler says: 0/1 nodes", "Add a toleration, or remove the taint: node-a has gpu=only:NoSchedule"},
		},
		{
			"gated", pod(func(p *v1.Pod) {
				p.Spec.NodeName = ""
				p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x.io/y"}}
			}), nil, nil,
			[]string{"held back by scheduling gates", "x.io/y"},
		},
		{
			"another scheduler", pod(func(p *v1.Pod) { p.Spec.NodeName = ""; p.Spec.SchedulerName = "mine" }), nil, nil,
			[]string{`the scheduler "mine"`},
		},
		{
			"image not there", pod(func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ImagePullBackOff", `Back-off pulling image "docker.io/library/x:1": ErrImagePull: not found`)}
			}),
			[]timeline.Record{rec(10*time.Second, timeline.Image).About("docker.io/library/x:1").Move("", "failed").Because("ErrImagePull"), rec(11*time.Second, timeline.Container).About("a").Move("Waiting", "BackOff")},
			node(v1.ConditionTrue),
			[]string{"cannot start container a (ImagePullBackOff) since 03:04:16", "docker.io has no library/x with the tag 1"},
		},
		{
			"image needs credentials", pod(func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ErrImagePull", "pull access denied: 401 Unauthorized")}
			}), nil, nil,
			[]string{"imagePullSecrets"},
		},
		{
			"crash loop", pod(func(p *v1.Pod) {
				s := waiting("a", "CrashLoopBackOff", "back-off 40s restarting failed container")
				s.RestartCount = 4
				s.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(9 * time.Second))}
				p.Status.ContainerStatuses = []v1.ContainerStatus{s}
			}), nil, node(v1.ConditionTrue),
			[]string{"restarts container a again and again (CrashLoopBackOff, 4 restarts) since 03:04:14", "exit code 137, killed because it was out of memory, 9 s after", "Raise resources.limits.memory", "--previous"},
		},
		{
			"crash of an init container that is not found", pod(func(p *v1.Pod) {
				s := waiting("setup", "CrashLoopBackOff", "")
				s.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 127}
				p.Status.InitContainerStatuses = []v1.ContainerStatus{s}
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "PodInitializing", "")}
			}), nil, nil,
			[]string{"restarts container setup", "its command was not found"},
		},
		{
			"missing secret", pod(func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "CreateContainerConfigError", `secret "db" not found`)}
			}), nil, nil,
			[]string{"CreateContainerConfigError", `secret "db" not found.`, "podo kubectl create secret generic db -n ns"},
		},
		{
			"no file of variables", pod(func(p *v1.Pod) {
				p.Spec.Containers = []v1.Container{{Name: "a", Env: []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
					FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "f", Key: "K"},
				}}}}}
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "CreateContainerConfigError", "couldn't parse env file")}
			}), nil, nil,
			[]string{"couldn't parse env file.", "each variable in it as NAME='value': a wants K in f of the volume v"},
		},
		{
			"missing config map volume", pod(func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ContainerCreating", "")}
			}),
			[]timeline.Record{rec(2*time.Second, timeline.Volumes).Move("mounting", "unmounted").Because(`MountVolume.SetUp failed for volume "c" : configmap "cfg" not found`)},
			nil,
			[]string{"waits for its volumes since 03:04:07", `configmap "cfg" not found`, "podo kubectl create configmap cfg -n ns"},
		},
		{
			"stuck in termination: node gone", pod(func(p *v1.Pod) { deleted(p, time.Hour, 30); p.Status.ContainerStatuses = []v1.ContainerStatus{running} }), nil, node(v1.ConditionUnknown),
			[]string{"is terminating since", "kubelet of its node node-a", "Kubelet stopped posting node status.", "--force"},
		},
		{
			"terminating within grace", pod(func(p *v1.Pod) {
				deleted(p, 10*time.Second, 30)
				p.Status.ContainerStatuses = []v1.ContainerStatus{running}
			}), nil, node(v1.ConditionTrue),
			[]string{"is terminating since", "10 s ago", "still runs a", "of its grace of 30 s left"},
		},
		{
			"kept by finalizers", pod(func(p *v1.Pod) { deleted(p, time.Hour, 0); p.Finalizers = []string{"a.io/x"} }), nil, node(v1.ConditionTrue),
			[]string{"kept by its finalizers", "a.io/x", "patch pod"},
		},
		{
			"C23: too large for the node it names", pod(func(p *v1.Pod) {
				p.Status.Phase, p.Status.Reason = v1.PodFailed, "OutOfcpu"
				p.Status.Message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 100, capacity: 2000"
			}), nil, nil,
			[]string{"has failed (OutOfcpu)", "requested: 4000", "leave spec.nodeName to the scheduler"},
		},
		{
			"not taken", pod(func(p *v1.Pod) { p.Status.StartTime = nil }), nil, node(v1.ConditionFalse),
			[]string{"is on node node-a, which is not ready."},
		},
		{
			"not ready", pod(func(p *v1.Pod) {
				s := running
				s.Ready = false
				p.Status.ContainerStatuses = []v1.ContainerStatus{s}
			}),
			[]timeline.Record{rec(time.Minute, timeline.Probe).About("a/readiness").Move("unknown", "failed").Because("HTTP probe failed with statuscode: 503")},
			node(v1.ConditionTrue),
			[]string{"is running, but not ready", "statuscode: 503"},
		},
		{
			"well", pod(func(p *v1.Pod) {
				p.Status.ContainerStatuses = []v1.ContainerStatus{running}
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
			}), nil, node(v1.ConditionTrue),
			[]string{"Pod ns/p is running and ready since 03:04:05 (5 min ago)."},
		},
	} {
		var nodes []*v1.Node
		if c.node != nil {
			nodes = append(nodes, c.node)
		}
		got := explain.Pod(explain.Facts{Pod: c.pod, Records: c.records, Nodes: nodes, Now: now}).Text(now)
		t.Run(c.name, func(t *testing.T) { inOrder(t, got, c.want...) })
		if strings.Contains(got, "..") || strings.Contains(got, "\n\n") {
			t.Errorf("%s: bad text: %q", c.name, got)
		}
	}
}

// What others have written can neither steer the terminal of who reads it nor pass for a line of podo's own.
func TestOthersWordsAreWords(t *testing.T) {
	const words = "bad\x1b[2J\n  Do   run this\u009b1m"
	r := explain.Report{Kind: "Pod", Name: "p", State: "waits", Why: words, Do: "wait", Said: []string{words}, How: []explain.Step{{What: "made by " + words}}, Below: []explain.Report{{Kind: "Pod", Name: "q", State: "waits", Why: words}}}
	text := r.Text(time.Now())
	if strings.ContainsAny(text, "\x1b\u009b") || strings.Count(text, "\n") != 6 || strings.Count(text, "run this") != 4 {
		t.Errorf("%q", text)
	}
}

// Who may not see nodes is told as well where a pod is to go.
func TestWhoSeesNoNodesHearsWhereAPodGoes(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
	p.Status.NominatedNodeName = "n1"
	records := []timeline.Record{
		timeline.New(start, timeline.RefOf(p), timeline.Attempt).Move("", "unschedulable"),
		timeline.New(start.Add(time.Second), timeline.RefOf(p), timeline.Attempt).Move("", "n1"),
	}
	if f := explain.Find(explain.Facts{Pod: p, Records: records, Now: start.Add(time.Minute)}); f.State != "is to go to node n1" {
		t.Error(f)
	}
}
