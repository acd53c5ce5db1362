package wire

import (
	"encoding/json"
	"fmt"
	"io"
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

func (w *world) do(c *http.Client, method, path, body string, header ...string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.address+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(b)
}

func TestWhoMay(t *testing.T) {
	w := newWorld(t)
	anonymous, node, admin := w.http(""), w.http(pki.Node), w.http(pki.Admin)
	for _, c := range []struct {
		who  *http.Client
		path string
		code int
	}{
		{anonymous, "/version", 200},
		{anonymous, "/healthz", 200},
		{anonymous, "/livez", 200},
		{anonymous, "/readyz", 500},
		{anonymous, "/api", 403},
		{anonymous, "/api/v1/pods", 403},
		{anonymous, "/podo/timeline/x", 403},
		{node, "/api", 200},
		{node, "/api/v1/secrets", 403},
		{node, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200},
		{node, "/api/v1/pods", 403},
		{node, "/metrics", 403},
		{admin, "/metrics", 200},
		{admin, "/podo/timeline/x", 200},
		{admin, "/nothing", 404},
		{admin, "/api/v1/things", 404},
		{admin, "/apis/apps/v1/deployments", 404},
		{admin, "/api/v1/namespaces/default/pods/none", 404},
		{admin, "/api/v1/namespaces/default", 200},
	} {
		if res, b := w.do(c.who, "GET", c.path, ""); res.StatusCode != c.code {
			t.Errorf("%s: %d, want %d: %s", c.path, res.StatusCode, c.code, b)
		}
	}
	if res, b := w.do(anonymous, "GET", "/version", "", "Authorization", "Bearer x"); res.StatusCode != 401 {
		t.Errorf("a token that nobody issued: %d %s", res.StatusCode, b)
	}
	// A certificate of another authority gets an answer, and that is no.
	other := newWorld(t)
	stranger := w.http("")
	stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = other.certs.Client(pki.Admin)
	if res, b := w.do(stranger, "GET", "/api/v1/pods", ""); res.StatusCode != 401 || !strings.Contains(b, `"reason":"Unauthorized"`) {
		t.Errorf("a stranger: %d %s", res.StatusCode, b)
	}
	// As someone else: no more than that one may do, and only for who may be someone else.
	if res, b := w.do(admin, "GET", "/api/v1/pods", "", "Impersonate-User", "jane"); res.StatusCode != 403 || !strings.Contains(b, `User \"jane\" cannot list resource \"pods\"`) {
		t.Errorf("impersonated: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(node, "GET", "/api", "", "Impersonate-User", "jane"); res.StatusCode != 403 || !strings.Contains(b, `cannot impersonate resource \"users\"`) {
		t.Errorf("impersonation by a node: %d %s", res.StatusCode, b)
	}
	if _, b := w.do(anonymous, "GET", "/readyz?verbose", ""); !strings.Contains(b, "[+]store ok\n[-]node failed: reason withheld\nreadyz check failed") || strings.Contains(b, "secret") {
		t.Errorf("readyz: %s", b)
	}
	if _, b := w.do(anonymous, "GET", "/livez?verbose", ""); !strings.Contains(b, "[+]store ok\nlivez check passed") {
		t.Errorf("livez: %s", b)
	}
}

func TestAPanicIsItsRequestsFault(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	if res, b := w.do(admin, "GET", "/podo/panic", ""); res.StatusCode != 500 || !strings.Contains(b, "InternalError") {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	if res, _ := w.do(admin, "GET", "/livez", ""); res.StatusCode != 200 {
		t.Error("the server did not survive")
	}
	if _, b := w.do(admin, "GET", "/metrics", ""); !strings.Contains(b, "podo_apiserver_request_panics_total 1") || !strings.Contains(b, `apiserver_request_total{code="200"`) {
		t.Errorf("metrics: %s", b)
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	post := func(query, contentType, body string) (*http.Response, string) {
		return w.do(admin, "POST", "/api/v1/namespaces/default/configmaps"+query, body, "Content-Type", contentType)
	}
	for _, c := range []struct {
		name, query, media, body string
		code                     int
		text                     string
	}{
		{"yaml", "", yamlType, "kind: ConfigMap\nmetadata: {name: yam}\ndata: {a: b}\n", 201, `"name":"yam"`},
		{"no type", "", "", `{"metadata":{"name":"n"}}`, 201, `"kind":"ConfigMap","apiVersion":"v1"`},
		{"not json", "", jsonType, `{"metadata"`, 400, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error"},
		{"wrong media", "", "text/plain", `x`, 415, "the body of the request was in an unknown format - accepted media types include"},
		{"wrong kind", "", jsonType, `{"kind":"Pod","apiVersion":"v1"}`, 400, `Pod in version \"v1\" cannot be handled as a ConfigMap`},
		{"wrong version", "", jsonType, `{"kind":"ConfigMap","apiVersion":"v2"}`, 400, `the API version in the data (v2) does not match the expected API version (v1)`},
		{"wrong field type", "", jsonType, `{"metadata":{"name":"x"},"data":5}`, 400, `ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string`},
		{"strict", "?fieldValidation=Strict", jsonType, `{"metadata":{"name":"x"},"foo":1}`, 400, `ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"foo\"`},
		{"strict twice", "?fieldValidation=Strict", jsonType, `{"metadata":{"name":"x"},"metadata":{"name":"x"}}`, 400, `duplicate field \"metadata\"`},
		{"ignored", "?fieldValidation=Ignore", jsonType, `{"metadata":{"name":"i"},"foo":1}`, 201, `"name":"i"`},
		{"bad directive", "?fieldValidation=Maybe", jsonType, `{"metadata":{"name":"x"}}`, 422, "fieldValidation: Unsupported value"},
		{"bad dry run", "?dryRun=Some", jsonType, `{"metadata":{"name":"x"}}`, 422, "dryRun: Unsupported value"},
	} {
		if res, b := post(c.query, c.media, c.body); res.StatusCode != c.code || !strings.Contains(b, c.text) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, b)
		}
	}
	res, _ := post("", jsonType, `{"metadata":{"name":"warned"},"foo":1}`)
	if got := res.Header.Get("Warning"); got != `299 - "unknown field \"foo\""` {
		t.Errorf("warning %q", got)
	}
	if res, b := post("", jsonType, `{"data":{"x":"`+strings.Repeat("y", maxBody)+`"}}`); res.StatusCode != 413 {
		t.Errorf("too large: %d %s", res.StatusCode, b[:min(len(b), 200)])
	}
	if res, b := w.do(admin, "PATCH", "/api/v1/namespaces/default/configmaps/yam", "{}", "Content-Type", "application/apply-patch+yaml"); res.StatusCode != 415 && res.StatusCode != 422 {
		t.Errorf("apply: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "PUT", "/api/v1/namespaces/default/configmaps", "{}"); res.StatusCode != 405 {
		t.Errorf("put on a collection: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "GET", "/api/v1/namespaces/default/configmaps/yam", "", "Accept", yamlType); res.StatusCode != 200 || !strings.HasPrefix(b, "apiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\n") {
		t.Errorf("yaml: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "GET", "/api/v1/namespaces/default/configmaps/yam", "", "Accept", "text/html"); res.StatusCode != 406 {
		t.Errorf("not acceptable: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "DELETE", "/api/v1/namespaces/default/configmaps/yam", ""); res.StatusCode != 200 || !strings.Contains(b, `"status":"Success","details":{"name":"yam","kind":"configmaps","uid":`) {
		t.Errorf("delete: %d %s", res.StatusCode, b)
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
	if len(groups) != 2 || groups[0].Name != "" || groups[1].Name != "coordination.k8s.io" {
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
	_, b := w.do(w.http(pki.Admin), "GET", "/api", "", "Accept", aggregatedType)
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
	if res, _ := w.do(w.http(pki.Admin), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1&allowWatchBookmarks=true", ""); res.StatusCode != 200 || time.Since(start) > 30*time.Second {
		t.Errorf("%d after %v", res.StatusCode, time.Since(start))
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
