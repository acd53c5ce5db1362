package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
)

func TestRoundTrips(t *testing.T) {
	w := newWorld(t)
	for _, media := range []string{jsonType, protoType} {
		t.Run(media, func(t *testing.T) {
			pods := w.client(media).CoreV1().Pods("default")
			name := "p-" + media[len(media)-4:]
			p, err := pods.Create(w.ctx, pod(name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.UID == "" || p.Status.Phase != v1.PodPending {
				t.Errorf("created: %+v", p)
			}
			got, err := pods.Get(w.ctx, name, metav1.GetOptions{})
			if err != nil || got.UID != p.UID || got.ResourceVersion != p.ResourceVersion || len(got.Spec.Containers) != 1 {
				t.Errorf("get: %+v %v", got, err)
			}
			l, err := pods.List(w.ctx, metav1.ListOptions{LabelSelector: "app=x", FieldSelector: "metadata.name=" + name})
			if err != nil || len(l.Items) != 1 || l.Items[0].Name != name || l.ResourceVersion == "" || l.Items[0].Kind != "" {
				t.Errorf("list: %+v %v", l, err)
			}
			watch, err := pods.Watch(w.ctx, metav1.ListOptions{ResourceVersion: p.ResourceVersion, FieldSelector: "metadata.name=" + name})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			if p, err = pods.Patch(w.ctx, name, types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"z":"1"}}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if e := <-watch.ResultChan(); e.Type != "MODIFIED" || e.Object.(*v1.Pod).Labels["z"] != "1" || e.Object.(*v1.Pod).ResourceVersion != p.ResourceVersion {
				t.Errorf("watched: %+v", e)
			}
			p.Status.Message = "hi"
			if p, err = pods.UpdateStatus(w.ctx, p, metav1.UpdateOptions{}); err != nil || p.Status.Message != "hi" {
				t.Errorf("status: %+v %v", p, err)
			}
			stale := got.DeepCopy()
			stale.Labels["q"] = "1"
			if _, err := pods.Update(w.ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("stale update: %v", err)
			}
			if err := pods.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			<-watch.ResultChan() // the status
			if e := <-watch.ResultChan(); e.Type != "DELETED" || e.Object.(*v1.Pod).Name != name {
				t.Errorf("watched: %+v", e)
			}
			if _, err := pods.Get(w.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != fmt.Sprintf("pods %q not found", name) {
				t.Errorf("get of a deleted pod: %v", err)
			}
			_, err = pods.Create(w.ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.containers: Required value") {
				t.Errorf("invalid pod: %v", err)
			}
		})
	}
}

func TestInformer(t *testing.T) {
	w := newWorld(t)
	for _, media := range []string{jsonType, protoType} {
		cs := w.client(media)
		f := informers.NewSharedInformerFactory(cs, 0)
		inf := f.Core().V1().ConfigMaps().Informer()
		type event struct{ kind, name, value string }
		events := make(chan event, 100)
		tell := func(kind string) func(any) {
			return func(obj any) {
				if cm, ok := obj.(*v1.ConfigMap); ok {
					events <- event{kind, cm.Name, cm.Data["k"]}
				}
			}
		}
		if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: tell("add"), DeleteFunc: tell("delete"),
			UpdateFunc: func(_, obj any) { tell("update")(obj) },
		}); err != nil {
			t.Fatal(err)
		}
		cms := cs.CoreV1().ConfigMaps("default")
		before := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before"}}
		if _, err := cms.Create(w.ctx, before, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.StartWithContext(w.ctx)
		if !cache.WaitForCacheSync(w.ctx.Done(), inf.HasSynced) {
			t.Fatal("no sync")
		}
		if _, err := cms.Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cms.Patch(w.ctx, "after", types.MergePatchType, []byte(`{"data":{"k":"2"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"before", "after"} {
			if err := cms.Delete(w.ctx, n, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []event{{"add", "before", ""}, {"add", "after", ""}, {"update", "after", "2"}, {"delete", "before", ""}, {"delete", "after", "2"}} {
			if got := <-events; got != want {
				t.Errorf("%s: got %v, want %v", media, got, want)
			}
		}
	}
}

func TestDynamicAndMetadataClients(t *testing.T) {
	w := newWorld(t)
	dyn, err := dynamic.NewForConfig(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "u"}, "data": map[string]any{"a": "b"},
	}}
	if _, err := dyn.Resource(gvr).Namespace("default").Create(w.ctx, obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l, err := dyn.Resource(gvr).List(w.ctx, metav1.ListOptions{})
	if err != nil || len(l.Items) != 1 || l.GetResourceVersion() == "" {
		t.Errorf("%v %v", l, err)
	}
	md, err := metadata.NewForConfig(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	m, err := md.Resource(gvr).Namespace("default").Get(w.ctx, "u", metav1.GetOptions{})
	if err != nil || m.Name != "u" || m.UID == "" {
		t.Errorf("%+v %v", m, err)
	}
	ml, err := md.Resource(gvr).List(w.ctx, metav1.ListOptions{})
	if err != nil || len(ml.Items) != 1 || ml.Items[0].Name != "u" {
		t.Errorf("%+v %v", ml, err)
	}
	watch, err := md.Resource(gvr).Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if e := <-watch.ResultChan(); e.Type != "ADDED" || e.Object.(*metav1.PartialObjectMetadata).Name != "u" {
		t.Errorf("%+v", e)
	}
}

const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

func TestTables(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	if _, err := w.client(jsonType).CoreV1().Pods("default").Create(w.ctx, pod("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, b := w.do(admin, "GET", "/api/v1/namespaces/default/pods", "", "Accept", tableAccept)
	var tab metav1.Table
	if err := json.Unmarshal([]byte(b), &tab); err != nil {
		t.Fatal(err)
	}
	if tab.Kind != "Table" || tab.APIVersion != "meta.k8s.io/v1" || tab.ResourceVersion == "" || len(tab.Rows) != 1 || tab.ColumnDefinitions[0].Name != "Name" || tab.Rows[0].Cells[0] != "a" ||
		len(tab.Rows[0].Cells) != len(tab.ColumnDefinitions) || !strings.Contains(string(tab.Rows[0].Object.Raw), `"kind":"PartialObjectMetadata"`) {
		t.Errorf("table: %s", b)
	}
	req, err := http.NewRequestWithContext(w.ctx, "GET", w.address+"/api/v1/namespaces/default/pods?watch=true&includeObject=Object", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", tableAccept)
	res, err := admin.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	d := json.NewDecoder(res.Body)
	for i, name := range []string{"a", "b"} {
		var e struct {
			Type   string
			Object metav1.Table
		}
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "ADDED" || e.Object.Rows[0].Cells[0] != name || (len(e.Object.ColumnDefinitions) > 0) != (i == 0) || !strings.Contains(string(e.Object.Rows[0].Object.Raw), `"kind":"Pod"`) {
			t.Errorf("watched table: %+v", e)
		}
		if i == 0 {
			if _, err := w.client(jsonType).CoreV1().Pods("default").Create(w.ctx, pod("b"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	d, err := discovery.NewDiscoveryClientForConfig(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	groups, resources, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, gv := range registry.GroupVersions() {
		served[gv.Group] = true
	}
	if len(groups) != len(served) || groups[0].Name != "" {
		t.Errorf("groups %v", groups)
	}
	var all []string
	for _, l := range resources {
		for _, r := range l.APIResources {
			all = append(all, l.GroupVersion+" "+r.Name)
		}
	}
	d.UseLegacyDiscovery = true
	_, resources, err = d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var old []string
	for _, l := range resources {
		for _, r := range l.APIResources {
			old = append(old, l.GroupVersion+" "+r.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(old)
	if !slices.Equal(all, old) || !slices.Contains(all, "v1 pods/status") || !slices.Contains(all, "coordination.k8s.io/v1 leases") || !slices.Contains(all, "v1 pods/log") {
		t.Errorf("aggregated %v\nclassic %v", all, old)
	}
	v, err := d.ServerVersion()
	if err != nil || v.Major != "1" || v.Minor != "37" || !strings.HasPrefix(v.GitVersion, "v1.37.2") {
		t.Errorf("version %+v %v", v, err)
	}
	_, b := w.do(w.http(pki.Admin), "GET", "/api", "", "Accept", jsonType+aggregatedAs)
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal([]byte(b), &list); err != nil || list.Kind != "APIGroupDiscoveryList" || len(list.Items) != 1 {
		t.Errorf("%v %s", err, b)
	}
}

func TestWatchErrorsComeOnTheStream(t *testing.T) {
	w := newWorld(t)
	res, b := w.do(w.http(pki.Admin), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersionMatch=Exact", "")
	if res.StatusCode != 422 {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	start := time.Now()
	// It says that it has told what there was, and how far it is before its time is over.
	res, b = w.do(w.http(pki.Admin), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1&allowWatchBookmarks=true", "")
	if res.StatusCode != 200 || time.Since(start) > 30*time.Second || strings.Count(b, `{"type":"BOOKMARK",`) != 2 {
		t.Errorf("%d after %v: %s", res.StatusCode, time.Since(start), b)
	}
}

func TestEventsThroughTheWire(t *testing.T) {
	w := newWorld(t)
	cs := w.client(protoType)
	e := &v1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "a", Namespace: "default"}, Reason: "R", Message: "m", Type: "Normal"}
	if _, err := cs.CoreV1().Events("default").Create(w.ctx, e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l, err := cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a"})
	if err != nil || len(l.Items) != 1 {
		t.Errorf("%v %v", l, err)
	}
	watch, err := cs.CoreV1().Events("default").Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if got := <-watch.ResultChan(); got.Type != "ADDED" || got.Object.(*v1.Event).Message != "m" {
		t.Errorf("%+v", got)
	}
}
