package quota_test

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/quota"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func list(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, pair := range strings.Fields(text) {
		name, amount, _ := strings.Cut(pair, "=")
		out[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

func text(l v1.ResourceList) string {
	var out []string
	for name, q := range l {
		if !q.IsZero() {
			out = append(out, string(name)+"="+q.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// bounds are all that a quota can say of the resources in these tests.
const bounds = "pods count/pods cpu memory requests.cpu requests.memory limits.cpu limits.memory ephemeral-storage limits.ephemeral-storage " +
	"hugepages-2Mi requests.hugepages-2Mi requests.nvidia.com/gpu services count/services services.nodeports services.loadbalancers " +
	"persistentvolumeclaims count/persistentvolumeclaims requests.storage gold.storageclass.storage.k8s.io/requests.storage " +
	"gold.storageclass.storage.k8s.io/persistentvolumeclaims configmaps count/configmaps count/leases.coordination.k8s.io"

// TestUsage: what one object uses of a quota that bounds everything.
func TestUsage(t *testing.T) {
	hard := v1.ResourceList{}
	for _, name := range strings.Fields(bounds) {
		hard[v1.ResourceName(name)] = resource.MustParse("1000")
	}
	for _, c := range []struct {
		name, resource, group string
		obj                   runtime.Object
		manifest, scopes      string
		want                  string
	}{
		{"nothing said", "pods", "", &v1.Pod{}, `spec: {containers: [{name: c}]}`, "", "count/pods=1 pods=1"},
		{
			"requests and limits", "pods", "", &v1.Pod{},
			`spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 1Mi, hugepages-2Mi: 2Mi, nvidia.com/gpu: 1}, limits: {cpu: 1, ephemeral-storage: 1Gi, nvidia.com/gpu: 1}}}]}`,
			"", "count/pods=1 cpu=100m hugepages-2Mi=2Mi limits.cpu=1 limits.ephemeral-storage=1Gi memory=1Mi pods=1 requests.cpu=100m requests.hugepages-2Mi=2Mi requests.memory=1Mi requests.nvidia.com/gpu=1",
		},
		{
			"an init container needs more than the others, a sidecar beside it, and the sandbox", "pods", "", &v1.Pod{},
			`spec: {overhead: {cpu: 10m}, initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}, {name: i, resources: {requests: {cpu: 2}}}], containers: [{name: c, resources: {requests: {cpu: 1}}}]}`,
			"", "count/pods=1 cpu=2110m pods=1 requests.cpu=2110m",
		},
		{"ended", "pods", "", &v1.Pod{}, `{spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}, status: {phase: Failed}}`, "", "count/pods=1"},
		{
			"should have gone", "pods", "", &v1.Pod{},
			`{metadata: {deletionTimestamp: "2026-01-02T03:03:30Z", deletionGracePeriodSeconds: 30}, spec: {containers: [{name: c}]}}`, "", "count/pods=1",
		},
		{
			"is about to go", "pods", "", &v1.Pod{},
			`{metadata: {deletionTimestamp: "2026-01-02T03:03:40Z", deletionGracePeriodSeconds: 30}, spec: {containers: [{name: c}]}}`, "", "count/pods=1 pods=1",
		},
		{"best effort", "pods", "", &v1.Pod{}, `spec: {containers: [{name: c}]}`, "BestEffort NotTerminating", "count/pods=1 pods=1"},
		{"not best effort", "pods", "", &v1.Pod{}, `spec: {containers: [{name: c}]}`, "NotBestEffort", ""},
		{"terminating", "pods", "", &v1.Pod{}, `spec: {activeDeadlineSeconds: 0, containers: [{name: c}]}`, "Terminating", "count/pods=1 pods=1"},
		{
			"looks into other namespaces", "pods", "", &v1.Pod{},
			`spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, namespaceSelector: {}}}]}}}`,
			"CrossNamespacePodAffinity", "count/pods=1 pods=1",
		},
		{"node ports", "services", "", &v1.Service{}, `spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}`, "", "count/services=1 services.nodeports=2 services=1"},
		{"balanced", "services", "", &v1.Service{}, `spec: {type: LoadBalancer, ports: [{port: 1}]}`, "", "count/services=1 services.loadbalancers=1 services.nodeports=1 services=1"},
		{
			"balanced without ports of nodes but one", "services", "", &v1.Service{},
			`spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 30000}]}`, "",
			"count/services=1 services.loadbalancers=1 services.nodeports=1 services=1",
		},
		{
			"a claim, which was given more, of a class", "persistentvolumeclaims", "", &v1.PersistentVolumeClaim{},
			`{spec: {storageClassName: gold, resources: {requests: {storage: 1500m}}}, status: {allocatedResources: {storage: 3}}}`, "",
			"count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=3 persistentvolumeclaims=1 requests.storage=3",
		},
		{"an old name beside the new", "configmaps", "", &v1.ConfigMap{}, `{}`, "", "configmaps=1 count/configmaps=1"},
		{"of another group", "leases", "coordination.k8s.io", &v1.ConfigMap{}, `{}`, "", "count/leases.coordination.k8s.io=1"},
		{"nobody counts events", "events", "", &v1.Event{}, `{}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := yaml.UnmarshalStrict([]byte(c.manifest), c.obj); err != nil {
				t.Fatal(err)
			}
			r := schema.GroupResource{Group: c.group, Resource: c.resource}
			q := &v1.ResourceQuota{Spec: v1.ResourceQuotaSpec{Hard: hard}}
			for _, s := range strings.Fields(c.scopes) {
				q.Spec.Scopes = append(q.Spec.Scopes, v1.ResourceQuotaScope(s))
			}
			status := quota.Count(q, []schema.GroupResource{r}, func(schema.GroupResource) iter.Seq[runtime.Object] {
				return slices.Values([]runtime.Object{c.obj})
			}, now)
			if got := text(status.Used); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestCharge is upstream's example of a quota of memory and cpu, and what a change of an object costs.
func TestCharge(t *testing.T) {
	pod := func(spec string) *v1.Pod {
		p := &v1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		return p
	}
	q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "mem-cpu-demo"}}
	q.Status.Hard = list("requests.cpu=1 requests.memory=1Gi limits.cpu=2 limits.memory=2Gi")
	q.Status.Used = list("requests.cpu=0 requests.memory=0 limits.cpu=0 limits.memory=0")
	pods := schema.GroupResource{Resource: "pods"}
	charge := func(w quota.Write) string {
		w.Resource, w.Now = pods, now
		changed, err := quota.Charge([]*v1.ResourceQuota{q}, w, nil)
		if err != nil {
			return err.Error()
		}
		if len(changed) == 0 {
			return "nothing"
		}
		q = changed[0]
		return text(q.Status.Used)
	}
	first := pod(`containers: [{name: c, resources: {limits: {memory: 800Mi, cpu: 800m}, requests: {memory: 600Mi, cpu: 400m}}}]`)
	larger := pod(`containers: [{name: c, resources: {limits: {memory: 800Mi, cpu: 1}, requests: {memory: 500Mi, cpu: 500m}}}]`)
	other := pod(`containers: [{name: c, resources: {limits: {memory: 1Gi, cpu: 800m}, requests: {memory: 700Mi, cpu: 400m}}}]`)
	for _, c := range []struct {
		name string
		w    quota.Write
		want string
	}{
		{"the first fits", quota.Write{Object: first}, "limits.cpu=800m limits.memory=800Mi requests.cpu=400m requests.memory=600Mi"},
		{"the second does not", quota.Write{Object: other}, "exceeded quota: mem-cpu-demo, requested: requests.memory=700Mi, used: requests.memory=600Mi, limited: requests.memory=1Gi"},
		{"who says nothing", quota.Write{Object: pod(`containers: [{name: c}, {name: b}]`)}, "failed quota: mem-cpu-demo: must specify limits.cpu for: b,c; limits.memory for: b,c; requests.cpu for: b,c; requests.memory for: b,c"},
		{"grows, and is charged only for what it grows", quota.Write{Object: larger, Old: first, Subresource: "resize"}, "limits.cpu=1 limits.memory=800Mi requests.cpu=500m requests.memory=600Mi"},
		{"shrinks: a count gives it back", quota.Write{Object: first, Old: larger, Subresource: "resize"}, "limits.cpu=1 limits.memory=800Mi requests.cpu=500m requests.memory=700Mi"},
	} {
		if got := charge(c.w); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if w := (quota.Write{Resource: pods, Object: first, Old: first, Subresource: "status"}); w.Concerns() {
		t.Error("a status is charged")
	}
}
