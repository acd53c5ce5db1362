package oracle

import (
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubectl "k8s.io/kubectl/pkg/describe"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/registry"
)

//go:embed live.yaml
var liveManifests string

// live is bin/podo without a container runtime, with a node on which every pod that is bound to it runs at once.
type live struct {
	kubeconfig string
	config     *clientrest.Config
	dynamic    dynamic.Interface
	typed      kubernetes.Interface
}

const liveNamespace = "live"

// startLive starts the server and ends it with the test.
func startLive(t *testing.T) *live {
	t.Helper()
	podo, err := filepath.Abs("../../../bin/podo")
	if err != nil {
		t.Fatal(err)
	}
	if given := os.Getenv("PODO"); given != "" {
		podo = given
	}
	if _, err := os.Stat(podo); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	dir, err := os.MkdirTemp("", "podo-live-") // short: sockets live below it. The data directory is podo's alone
	if err != nil {
		t.Fatal(err)
	}
	https, kubelet := livePort(t), livePort(t)
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(podo, "server", "--data-dir", filepath.Join(dir, "data"), "--https-port", fmt.Sprint(https), "--kubelet-port", fmt.Sprint(kubelet),
		"--container-runtime-endpoint", "unix://"+filepath.Join(dir, "none.sock"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server that ends leaves its pods and what is theirs on the machine, such as cgroups.
		if out, err := exec.Command(podo, "down", "--data-dir", filepath.Join(dir, "data")).CombinedOutput(); err != nil {
			t.Errorf("podo down: %v\n%s", err, out)
		}
		_ = cmd.Wait() // it was told to end
		log.Close()
		if t.Failed() {
			if b, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("server log:\n%s", b[max(0, len(b)-3000):])
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	hc := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if res, err := hc.Get(fmt.Sprintf("https://127.0.0.1:%d/livez", https)); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not come up")
		}
	}
	l := &live{kubeconfig: filepath.Join(dir, "data", "kubeconfig")}
	if l.config, err = clientcmd.BuildConfigFromFlags("", l.kubeconfig); err != nil {
		t.Fatal(err)
	}
	l.config.QPS = -1
	if l.dynamic, err = dynamic.NewForConfig(l.config); err != nil {
		t.Fatal(err)
	}
	if l.typed, err = kubernetes.NewForConfig(l.config); err != nil {
		t.Fatal(err)
	}
	return l
}

func livePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// kubelet keeps the node of that name ready and runs its pods, until the test ends.
func (l *live) kubelet(t *testing.T, name string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready := []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}
	room := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("100")}
	node, err := l.typed.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.ResourceVersion = "" // the controllers write it too
	node.Status = v1.NodeStatus{Capacity: room, Allocatable: room, Conditions: ready, Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}}}
	if _, err := l.typed.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := l.typed.CoordinationV1().Leases("kube-node-lease")
	lease, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := l.typed.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
	})
	go func() {
		defer close(done)
		defer pods.Stop()
		beat := time.NewTicker(5 * time.Second)
		defer beat.Stop()
		for n := 1; ; {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
				if next, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
					lease = next
				}
			case e, open := <-pods.ResultChan():
				if !open {
					return
				}
				if pod, ok := e.Object.(*v1.Pod); ok && pod.Status.Phase == v1.PodPending && pod.DeletionTimestamp == nil {
					runs(pod, fmt.Sprintf("10.9.8.%d", n))
					if _, err := l.typed.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err == nil {
						n++
					}
				}
			}
		}
	}()
}

// runs is what a kubelet says of a pod whose containers all run.
func runs(pod *v1.Pod, ip string) {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs, pod.Status.StartTime = v1.PodRunning, ip, []v1.PodIP{{IP: ip}}, &now
	for _, c := range []v1.PodConditionType{v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// create makes an object from what it is as JSON.
func (l *live) create(ctx context.Context, k *registry.Kind, namespace string, obj any) error {
	u := &unstructured.Unstructured{Object: tree(obj).(map[string]any)}
	u.SetGroupVersionKind(k.GVK)
	for _, field := range []string{"uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	_, err := l.at(k, namespace).Create(ctx, u, metav1.CreateOptions{})
	return err
}

func (l *live) at(k *registry.Kind, namespace string) dynamic.ResourceInterface {
	r := l.dynamic.Resource(k.GroupVersion().WithResource(k.Resource))
	if k.Namespaced {
		return r.Namespace(namespace)
	}
	return r
}

// until waits for an object of the live namespace, or outside of all, to be as is says.
func (l *live) until(t *testing.T, ctx context.Context, of, name string, is func(obj map[string]any) bool) {
	t.Helper()
	k := registry.Lookup(schema.ParseGroupResource(of))
	w, err := l.at(k, liveNamespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var last any
	for {
		select {
		case e := <-w.ResultChan():
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("%s %s: %v", of, name, e)
			}
			if last = u.Object["status"]; is(u.Object) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s %s is never as it should: %v", of, name, last)
		}
	}
}

func number(obj map[string]any, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj, path...)
	return n
}

// populate makes a small live cluster: of every kind the manifests of the corpus that admission lets in, and a few objects that have to
// do with each other.
func (l *live) populate(t *testing.T, ctx context.Context) {
	t.Helper()
	l.kubelet(t, "live")
	for doc := range strings.SplitSeq(liveManifests, "\n---\n") {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(doc), &obj); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		u := unstructured.Unstructured{Object: obj}
		k := registry.ByGVK(u.GroupVersionKind())
		if k == nil {
			t.Fatalf("no kind %v", u.GroupVersionKind())
		}
		if err := l.create(ctx, k, liveNamespace, obj); err != nil {
			t.Fatalf("%s %s: %v", k.Resource, u.GetName(), err)
		}
	}
	for _, k := range Kinds {
		if k.Podo.Resource == "limitranges" || k.Podo.Resource == "resourcequotas" {
			continue // they keep others out
		}
		for _, obj := range seeds(t, k) {
			_ = l.create(ctx, k.Podo, inNamespace, obj) // what it refers to may not be there
		}
	}
	l.until(t, ctx, "deployments.apps", "web", func(o map[string]any) bool { return number(o, "status", "availableReplicas") == 2 })
	l.until(t, ctx, "statefulsets.apps", "db", func(o map[string]any) bool { return number(o, "status", "readyReplicas") == 1 })
	l.until(t, ctx, "daemonsets.apps", "agent", func(o map[string]any) bool { return number(o, "status", "numberAvailable") == 1 })
	l.until(t, ctx, "jobs.batch", "once", func(o map[string]any) bool { return number(o, "status", "ready") == 1 })
	l.until(t, ctx, "poddisruptionbudgets.policy", "web", func(o map[string]any) bool { return number(o, "status", "disruptionsAllowed") == 1 })
	l.until(t, ctx, "horizontalpodautoscalers.autoscaling", "web", func(o map[string]any) bool {
		conditions, _, _ := unstructured.NestedSlice(o, "status", "conditions")
		return len(conditions) > 1
	})
	l.until(t, ctx, "resourcequotas", "q", func(o map[string]any) bool {
		used, _, _ := unstructured.NestedString(o, "status", "used", "pods")
		return used == "5"
	})
	l.until(t, ctx, "endpoints", "web", func(o map[string]any) bool {
		subsets, _, _ := unstructured.NestedSlice(o, "subsets")
		return len(subsets) == 1 && len(subsets[0].(map[string]any)["addresses"].([]any)) == 2
	})
}

// shownKinds are the kinds that can be listed, each in every version that is served.
func shownKinds() []*registry.Kind {
	return slices.DeleteFunc(registry.All(), func(k *registry.Kind) bool { return k.Computed || !slices.Contains(k.Verbs, "list") })
}

// TestLive: `kubectl get -o wide` and `kubectl describe` of objects of every kind on a server that runs. The table is that of upstream's
// printers for the objects that come with it; kubectl's describers find all that they ask for, and what has to do with each other.
func TestLive(t *testing.T) {
	l := startLive(t)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	l.populate(t, ctx)
	for _, k := range shownKinds() {
		t.Run(k.Resource+"."+k.GVK.Version+"."+k.GVK.Group, func(t *testing.T) {
			t.Run("get", func(t *testing.T) { l.get(t, ctx, k) })
			t.Run("describe", func(t *testing.T) { l.describe(t, ctx, k) })
		})
	}
	for what, wants := range described {
		of, name, _ := strings.Cut(what, "/")
		t.Run(of, func(t *testing.T) {
			k := registry.Lookup(schema.ParseGroupResource(of))
			text := l.description(t, ctx, k, liveNamespace, l.named(t, ctx, k, name))
			for _, want := range wants {
				if !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("it does not say %s:\n%s", want, text)
				}
			}
		})
	}
}

// described is what the descriptions of the live namespace's objects say of others: of the first object whose name begins so.
var described = map[string][]string{
	"deployments.apps/web":                         {`Replicas: +2 desired \| 2 updated \| 2 total \| 2 available \| 0 unavailable`, `NewReplicaSet: +web-\w+ \(2/2 replicas created\)`, `ScalingReplicaSet`},
	"replicasets.apps/web":                         {`Controlled By: +Deployment/web`, `Pods Status: +2 Running / 0 Waiting / 0 Succeeded / 0 Failed`, `SuccessfulCreate +\S+ +replicaset-controller`},
	"pods/web":                                     {`Node: +live/`, `Controlled By: +ReplicaSet/web-`, `IP: +10\.9\.8\.`, `Normal +Scheduled +\S+ +default-scheduler +Successfully assigned live/web-`},
	"services/web":                                 {`Endpoints: +10\.9\.8\.\d+:80,10\.9\.8\.\d+:80`},
	"endpoints/web":                                {`Addresses: +10\.9\.8\.\d+,10\.9\.8\.\d+`},
	"endpointslices.discovery.k8s.io/web":          {`TargetRef: +Pod/web-`, `NodeName: +live`},
	"ingresses.networking.k8s.io/site":             {`/cart +web:80 \(10\.9\.8\.\d+:80,10\.9\.8\.\d+:80\)`, `Ingress Class: +outer`},
	"persistentvolumeclaims/data":                  {`Status: +Bound`, `Volume: +disk`, `Used By: +web-`},
	"persistentvolumes/disk":                       {`Claim: +live/data`, `Status: +Bound`},
	"poddisruptionbudgets.policy/web":              {`Allowed disruptions: +1`, `Total: +2`},
	"horizontalpodautoscalers.autoscaling/web":     {`Reference: +Deployment/web`, `Deployment pods: +2 current`, `ScalingActive +False +FailedGet`},
	"nodes/live":                                   {`Non-terminated Pods: +\(\d+ in total\)`, `live +web-`, `cpu +\d+m`},
	"namespaces/live":                              {`Resource Quotas\n +Name: +q`, `Resource Limits\n`},
	"resourcequotas/q":                             {`pods +5 +20`},
	"limitranges/small":                            {`Container +cpu`},
	"jobs.batch/once":                              {`Pods Statuses: +1 Active \(1 Ready\) / 0 Succeeded / 0 Failed`, `SuccessfulCreate`},
	"cronjobs.batch/nightly":                       {`Schedule: +0 3 \* \* \*`},
	"statefulsets.apps/db":                         {`Pods Status: +1 Running`, `SuccessfulCreate`},
	"daemonsets.apps/agent":                        {`Number of Nodes Scheduled with Available Pods: 1`, `SuccessfulCreate`},
	"secrets/key":                                  {`password: +6 bytes`},
	"configmaps/settings":                          {`colour:\n----\nblue`},
	"rolebindings.rbac.authorization.k8s.io/robot": {`ServiceAccount +robot +live`},
	"storageclasses.storage.k8s.io/fast":           {`Provisioner: +kubernetes.io/no-provisioner`},
	"ipaddresses.networking.k8s.io/10.43.9.9":      {`Resource: +services`, `Name: +web`},
	"servicecidrs.networking.k8s.io/kubernetes":    {`10\.43\.0\.0/16`},
	"networkpolicies.networking.k8s.io/web":        {`PodSelector: +app=web`},
}

// named is the first object of the live namespace whose name begins so.
func (l *live) named(t *testing.T, ctx context.Context, k *registry.Kind, prefix string) string {
	t.Helper()
	list, err := l.at(k, liveNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if strings.HasPrefix(item.GetName(), prefix) {
			return item.GetName()
		}
	}
	t.Fatalf("no %s begins with %s", k.Resource, prefix)
	return ""
}

// get compares each row at a moment at which no age ticks between the two sides: one of several answers.
func (l *live) get(t *testing.T, ctx context.Context, k *registry.Kind) {
	generator := printers.NewTableGenerator().With(printersinternal.AddHandlers)
	equal, differ := map[string]bool{}, map[string][]Difference{}
	for range 30 {
		table, objects := l.table(t, ctx, k), k.Stored()
		whole := table
		if objects != k { // upstream prints what is stored
			whole = l.table(t, ctx, objects)
		}
		if len(table.Rows) == 0 {
			t.Fatal("there is none")
		}
		up, names := upstreamsTable(t, generator, objects, whole)
		if up == nil {
			return // upstream's printer panics of one of them
		}
		for _, d := range compareJSON("columns", tree(up.ColumnDefinitions), tree(table.ColumnDefinitions)) {
			t.Fatalf("%s: upstream %s, podo %s", d.Where, d.Upstream, d.Podo)
		}
		if len(names) != len(table.Rows) {
			continue // one came or went between two answers
		}
		clear(differ)
		for i, name := range names {
			if equal[name] {
				continue
			}
			d := compareJSON("cells", tree(up.Rows[i].Cells), tree(table.Rows[i].Cells))
			d = append(d, compareJSON("conditions", tree(up.Rows[i].Conditions), tree(table.Rows[i].Conditions))...)
			if len(d) == 0 {
				equal[name] = true
			} else {
				differ[name] = d
			}
		}
		if len(differ) == 0 {
			return
		}
	}
	for name, list := range differ {
		for _, d := range list {
			t.Errorf("%s: %s: upstream %s, podo %s", name, d.Where, d.Upstream, d.Podo)
		}
	}
}

// table is what kubectl asks for, with whole objects.
func (l *live) table(t *testing.T, ctx context.Context, k *registry.Kind) *metav1.Table {
	t.Helper()
	path := "/apis/" + k.GroupVersion().String() + "/" + k.Resource
	if k.GVK.Group == "" {
		path = "/api/v1/" + k.Resource
	}
	raw, err := l.typed.CoreV1().RESTClient().Get().AbsPath(path).Param("includeObject", "Object").
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	return &table
}

// upstreamsTable is what upstream's printers say of a table's objects, and their names; nil where they panic.
func upstreamsTable(t *testing.T, generator *printers.HumanReadableGenerator, k *registry.Kind, table *metav1.Table) (*metav1.Table, []string) {
	t.Helper()
	var items []json.RawMessage
	var names []string
	for _, row := range table.Rows {
		items = append(items, row.Object.Raw)
		var m metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &m); err != nil {
			t.Fatal(err)
		}
		names = append(names, m.Namespace+"/"+m.Name)
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.GVK.Kind + "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := legacyscheme.Codecs.UniversalDecoder(runtimeInternal(k)).Decode(raw, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	up, err := shown(generator, list)
	if up == nil && err == nil {
		return nil, nil
	}
	if err != nil { // it has no columns of its own
		up, err = rest.NewDefaultTableConvertor(k.GroupResource()).ConvertToTable(context.Background(), list, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return up, names
}

func runtimeInternal(k *registry.Kind) schema.GroupVersion {
	return schema.GroupVersion{Group: k.GVK.Group, Version: runtime.APIVersionInternal}
}

// describe asks kubectl's describer of every object of the kind, ten of them at most.
func (l *live) describe(t *testing.T, ctx context.Context, k *registry.Kind) {
	list, err := l.dynamic.Resource(k.GroupVersion().WithResource(k.Resource)).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(k.Verbs, "get") {
		t.Fatal("it cannot be read")
	}
	for _, item := range list.Items[:min(10, len(list.Items))] {
		if text := l.description(t, ctx, k, item.GetNamespace(), item.GetName()); !strings.Contains(text, item.GetName()) {
			t.Errorf("%s is not in its own description:\n%s", item.GetName(), text)
		}
	}
}

func (l *live) description(t *testing.T, _ context.Context, k *registry.Kind, namespace, name string) string {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &l.kubeconfig
	scope := meta.RESTScopeRoot
	if k.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	d, err := kubectl.Describer(flags, &meta.RESTMapping{Resource: k.GroupVersion().WithResource(k.Resource), GroupVersionKind: k.GVK, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.Describe(namespace, name, kubectl.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err != nil {
		t.Fatalf("%s/%s: %v", namespace, name, err)
	}
	return text
}
