package view_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
	"podo.dev/podo/internal/view/viewtest"
)

// realPod is a pod as it is when it runs: defaulted, with a status and managed fields.
func realPod(namespace, name string) *v1.Pod {
	now := metav1.NewTime(time.Unix(1700000000, 0))
	condition := func(t v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: t, Status: v1.ConditionTrue, LastTransitionTime: now}
	}
	managed := []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`)
	yes, grace := true, int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("0b7e2a9c-9d53-4c39-8f55-" + name), CreationTimestamp: now, Generation: 1,
			Labels: map[string]string{"app": "web", "tier": "front", "pod-template-hash": "7d9c5b8f6"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9c5b8f6", UID: "11f3b3ee-2c3d-4f0a-8a3e-000000000000",
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "podo", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(managed))},
				{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", Subresource: "status", FieldsV1: metav1.NewFieldsV1(string(managed[:600]))},
			},
		},
		Spec: v1.PodSpec{
			NodeName: "node-1", RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSClusterFirst, SchedulerName: "default-scheduler",
			ServiceAccountName: "default", DeprecatedServiceAccount: "default", TerminationGracePeriodSeconds: &grace,
			SecurityContext: &v1.PodSecurityContext{}, EnableServiceLinks: &yes,
			Tolerations: []v1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &grace},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &grace},
			},
			Containers: []v1.Container{{
				Name: "web", Image: "registry.example.com/team/web:1.2.3", ImagePullPolicy: v1.PullIfNotPresent,
				Env:                    []v1.EnvVar{{Name: "A", Value: "some value"}, {Name: "B", Value: "another value"}},
				Ports:                  []v1.ContainerPort{{ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
				Resources: v1.ResourceRequirements{
					Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("256Mi")},
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi")},
				},
				VolumeMounts: []v1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			Volumes: []v1.Volume{{Name: "kube-api-access", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.42.0.17", PodIPs: []v1.PodIP{{IP: "10.42.0.17"}}, StartTime: &now, QOSClass: v1.PodQOSBurstable,
			Conditions: []v1.PodCondition{
				condition(v1.PodReadyToStartContainers), condition(v1.PodInitialized), condition(v1.PodReady), condition(v1.ContainersReady), condition(v1.PodScheduled),
			},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "web", Ready: true, Started: &yes, Image: "registry.example.com/team/web:1.2.3",
				ImageID:     "registry.example.com/team/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				ContainerID: "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				State:       v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
			}},
		},
	}
}

func encodedPod(b *testing.B) (k *registry.Kind, value []byte) {
	b.Helper()
	pod := realPod("ns", "web-1")
	k = viewtest.Kind(b, pod)
	pod.SetGroupVersionKind(k.GVK)
	value, err := codec.Encode(pod)
	if err != nil {
		b.Fatal(err)
	}
	return k, value
}

func BenchmarkDecodePod(b *testing.B) {
	k, value := encodedPod(b)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Decode(k, value, 7); err != nil {
			b.Fatal(err)
		}
	}
}

// plain starts a view as it runs in production, without the mutation check.
func plain(b *testing.B, s *mem.Store) *view.View {
	b.Helper()
	return viewtest.Start(b, view.Config{Store: s, Mutated: func(*registry.Kind, *view.Entry) {}})
}

const thousands = 5000

// BenchmarkMemoryPerPod reports what a cached pod takes, everything in the view counted, encodings not made.
func BenchmarkMemoryPerPod(b *testing.B) {
	s := mem.New(mem.Options{})
	for i := range thousands {
		viewtest.Put(b, s, realPod("ns", fmt.Sprintf("web-%d", i)))
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	v := plain(b, s)
	b.ReportMetric(float64(heap()-before)/thousands, "B/pod")
	_, value := encodedPod(b)
	b.ReportMetric(float64(len(value)), "B/stored")
	runtime.KeepAlive(v)
}

func BenchmarkList5000(b *testing.B) {
	s := mem.New(mem.Options{})
	for i := range thousands {
		viewtest.Put(b, s, realPod(fmt.Sprintf("ns-%d", i%10), fmt.Sprintf("web-%d", i)))
	}
	v := plain(b, s)
	for b.Loop() {
		n := 0
		for e := range v.Snapshot().All(pods, "", view.Key{}) {
			n += len(e.Key.Name)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := mem.New(mem.Options{})
	for i := range thousands {
		viewtest.Put(b, s, pod(fmt.Sprintf("ns-%d", i%10), fmt.Sprintf("web-%d", i), "n"))
	}
	v := plain(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if v.Snapshot().Get(pods, "ns-7", "web-1237") == nil {
			b.Fatal("missing")
		}
	}
}

// BenchmarkPublish is one change, from the store's batch to the snapshot, in a view of 5,000 pods, with as many watchers.
func BenchmarkPublish(b *testing.B) {
	for _, watchers := range []int{0, 500} {
		b.Run(fmt.Sprint(watchers, " watchers"), func(b *testing.B) {
			s := mem.New(mem.Options{Keep: 1000})
			for i := range thousands {
				viewtest.Put(b, s, pod("ns", fmt.Sprintf("web-%d", i), "n"))
			}
			v := plain(b, s)
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			last := make(chan struct{}, watchers)
			start := v.Snapshot().Rev()
			end := start + int64(b.N)
			for range watchers {
				w, err := v.Watch(pods, start)
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					for {
						_, rev, err := w.Next(ctx)
						if err != nil {
							return
						}
						if rev == end {
							last <- struct{}{}
						}
					}
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				viewtest.Put(b, s, pod("ns", fmt.Sprintf("web-%d", i%thousands), "m"))
			}
			if _, err := v.WaitFor(ctx, end); err != nil {
				b.Fatal(err)
			}
			for range watchers {
				<-last
			}
			b.StopTimer()
			cancel()
			wg.Wait()
		})
	}
}

// BenchmarkIdleWatchers reports what a watcher takes that waits in a goroutine of its own.
func BenchmarkIdleWatchers(b *testing.B) {
	v := plain(b, mem.New(mem.Options{}))
	const n = 10_000
	ctx, cancel := context.WithCancel(b.Context())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for range n {
		w, err := v.Watch(pods, v.Snapshot().Rev())
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { _, _, _ = w.Next(ctx) })
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/n, "B/watcher")
	cancel()
	wg.Wait()
}
