package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// What is spliced together is byte for byte what the library makes of the whole list.
func TestSplicedListsAreTheLibrarys(t *testing.T) {
	kind := registry.Lookup(schema.GroupResource{Resource: "configmaps"})
	rapid.Check(t, func(t *rapid.T) {
		whole := &v1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, Items: []v1.ConfigMap{}}
		l := &verbs.List{Kind: kind, Rev: rapid.Int64Range(1, 1<<40).Draw(t, "rev"), Continue: rapid.SampledFrom([]string{"", "more"}).Draw(t, "continue")}
		if l.Continue != "" {
			n := rapid.Int64Range(0, 300).Draw(t, "remaining")
			l.Remaining = &n
		}
		whole.ListMeta = metav1.ListMeta{ResourceVersion: fmt.Sprint(l.Rev), Continue: l.Continue, RemainingItemCount: l.Remaining}
		for i := range rapid.IntRange(0, 5).Draw(t, "items") {
			cm := v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "ns"}, Data: map[string]string{"<k>": rapid.StringN(0, 400, -1).Draw(t, "value")}}
			whole.Items = append(whole.Items, cm)
			cm.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
			l.Items = append(l.Items, &view.Entry{Object: &cm, Meta: &cm})
		}
		var want bytes.Buffer
		if err := protobuf.NewSerializer(nil, nil).Encode(whole, &want); err != nil {
			t.Fatal(err)
		}
		got, err := listBody(form{media: protoType}, l)
		if err != nil || !bytes.Equal(got.bytes(), want.Bytes()) || got.size != want.Len() {
			t.Fatalf("protobuf: %v\n%q\n%q", err, got.bytes(), want.Bytes())
		}
		plain, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		got, err = listBody(form{media: jsonType}, l)
		if err != nil || string(got.bytes()) != string(plain)+"\n" || got.size != len(plain)+1 {
			t.Fatalf("json: %v\n%s\n%s", err, got.bytes(), plain)
		}
	})
}

func TestFramesAreTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cm := &v1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Data: map[string]string{"k": rapid.StringN(0, 40000, -1).Draw(t, "value")}}
		typ := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error}).Draw(t, "type")
		f := framer{form: form{media: protoType}}
		got, err := f.event(nil, &verbs.Event{Type: typ, Object: cm})
		if err != nil {
			t.Fatal(err)
		}
		var raw bytes.Buffer
		if err := protobuf.NewSerializer(nil, nil).Encode(cm, &raw); err != nil {
			t.Fatal(err)
		}
		e := metav1.WatchEvent{Type: string(typ)}
		e.Object.Raw = raw.Bytes()
		want, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if n := int(got[0])<<24 | int(got[1])<<16 | int(got[2])<<8 | int(got[3]); n != len(want) || !bytes.Equal(got[4:], want) {
			t.Fatalf("length %d, want %d\n%q\n%q", n, len(want), got[4:], want)
		}
	})
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		method, url string
		want        info
	}{
		{"GET", "/api/v1/pods", info{Verb: "list", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods"}},
		{"GET", "/api/v1/namespaces/ns/pods?watch=1", info{Verb: "watch", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns"}},
		{"GET", "/api/v1/namespaces/ns/pods?watch", info{Verb: "watch", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns"}},
		{"GET", "/api/v1/namespaces/ns/pods?watch=False", info{Verb: "list", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns"}},
		{"GET", "/api/v1/namespaces/ns/pods/p?watch=1", info{Verb: "get", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns", Name: "p"}},
		{"POST", "/api/v1/watch/namespaces/ns/pods", info{Verb: "watch", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns", prefixed: true}},
		{"GET", "/api/v1/watch/namespaces/ns/pods/p", info{Verb: "watch", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns", prefixed: true, Name: "p"}},
		{"GET", "/api/v1/namespaces/ns/pods/p/log", info{Verb: "get", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns", Name: "p", Subresource: "log"}},
		{"GET", "/api/v1/namespaces", info{Verb: "list", GV: schema.GroupVersion{Version: "v1"}, Resource: "namespaces"}},
		{"DELETE", "/api/v1/namespaces/ns", info{Verb: "delete", GV: schema.GroupVersion{Version: "v1"}, Resource: "namespaces", Name: "ns"}},
		{"GET", "/api/v1/proxy/namespaces/ns/pods/p/x", info{Verb: "proxy", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns", Name: "p", prefixed: true, nowhere: true}},
		{"GET", "/apis//v1/pods", info{Verb: "list", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", nowhere: true}},
		{"GET", "/api///api", info{Verb: "get"}},
		{"PUT", "/apis/apps/v1/namespaces/ns//name", info{Verb: "put"}},
		{"PUT", "/api/v1/namespaces/ns/finalize", info{Verb: "update", GV: schema.GroupVersion{Version: "v1"}, Resource: "namespaces", Name: "ns", Subresource: "finalize"}},
		{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", info{Verb: "patch", GV: schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}, Resource: "leases", Namespace: "ns", Name: "l"}},
		{"DELETE", "/api/v1/namespaces/ns/pods", info{Verb: "deletecollection", GV: schema.GroupVersion{Version: "v1"}, Resource: "pods", Namespace: "ns"}},
		{"GET", "/api/v1", info{Verb: "get"}},
		{"GET", "/apis/coordination.k8s.io/v1", info{Verb: "get"}},
		{"GET", "/healthz", info{Verb: "get"}},
	} {
		r := httptest.NewRequest(c.method, c.url, nil)
		c.want.Path = r.URL.Path
		if got, err := parse(r); got != c.want || err != nil {
			t.Errorf("%s %s: %+v, want %+v", c.method, c.url, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := &http.Request{Method: rapid.SampledFrom([]string{"GET", "POST", "DELETE", "X"}).Draw(t, "method")}
		r.URL = httptest.NewRequest("GET", "/", nil).URL
		r.URL.Path = "/" + rapid.StringMatching(`(api|apis|watch|namespaces|v1|/|pods|a){0,12}`).Draw(t, "path")
		if i, _ := parse(r); i.Resource == "" && (i.Name != "" || i.Subresource != "") {
			t.Fatalf("%s: a name without a resource: %+v", r.URL.Path, i)
		}
	})
}

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]form{
		"":                            {media: jsonType},
		"*/*":                         {media: jsonType},
		"application/json":            {media: jsonType},
		protoType + ",*/*":            {media: protoType},
		"text/html, application/yaml": {media: yamlType},
		"application/json;q=0.5, application/vnd.kubernetes.protobuf":   {media: protoType},
		tableAccept + ",application/json":                               {media: jsonType, as: table, in: metaGV},
		protoType + ";as=Table;g=meta.k8s.io;v=v1,application/json":     {media: jsonType},
		protoType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1":  {media: protoType, as: partials, in: metaGV},
		"application/json;as=Table;g=meta.k8s.io;v=v9,application/json": {media: jsonType},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		if got, err := negotiate(r, true); err != nil || got != want {
			t.Errorf("%q: %+v %v, want %+v", accept, got, err, want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	if _, err := negotiate(r, true); err == nil {
		t.Error("text/html was acceptable")
	}
	r.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	if _, err := negotiate(r, false); err == nil {
		t.Error("a table of what has none was acceptable")
	}
	r.Header.Set("Accept", tableAccept+",application/json")
	if got, err := negotiate(r, false); err != nil || got != (form{media: jsonType}) {
		t.Errorf("a table, or else JSON: %+v %v", got, err)
	}
}

// What watches are told of a deletion is encoded once for all of them, beside what they were told of the object before, and goes with that.
func TestADeletionIsEncodedOnce(t *testing.T) {
	vw, s := viewtest.New(t, defaultNamespace(), viewtest.Account("default"))
	w := serve(t, vw, s)
	admin := w.http(pki.Admin)
	const path = "/api/v1/namespaces/default/configmaps"
	_, made := w.do(admin, "POST", path, `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
	_, gone := w.do(admin, "DELETE", path+"/c", "")
	rev := func(text string, in ...string) (rv string) {
		t.Helper()
		var at any
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, name := range in {
			at = at.(map[string]any)[name]
		}
		return at.(string)
	}
	before := rev(made, "metadata", "resourceVersion")
	if !strings.Contains(gone, `"Success"`) {
		t.Fatal(gone)
	}
	for _, media := range []string{jsonType, protoType} {
		var told [2]string
		held := [3]int64{vw.EncodingBytes()}
		for i := range told {
			_, told[i] = w.do(admin, "GET", path+"?watch=1&timeoutSeconds=1&resourceVersion="+before, "", "Accept", media)
			held[i+1] = vw.EncodingBytes()
		}
		if told[0] != told[1] || !strings.Contains(told[0], "DELETED") {
			t.Errorf("%s: told %q, and %q", media, told[0], told[1])
		}
		if held[1] <= held[0] || held[2] != held[1] {
			t.Errorf("%s: %d bytes of encodings are held, then %d, then %d", media, held[0], held[1], held[2])
		}
		if media == jsonType {
			if after := rev(told[0], "object", "metadata", "resourceVersion"); after == before {
				t.Errorf("it ended at %s, after %s", after, before)
			}
		}
	}
}

// Who takes no Status is told of an error all the same, as upstream's server writes it then; who takes one besides gets that.
func TestErrorsForWhoTakesNone(t *testing.T) {
	w := newWorld(t)
	get := func(accept string) (string, string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", w.address+"/api/v1/namespaces/default/configmaps/none", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		res, err := w.http(pki.Admin).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.Header.Get("Content-Type"), string(b)
	}
	const onlyTables = "application/json;as=Table;v=v1;g=meta.k8s.io"
	const indented = "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n"
	for _, accept := range []string{onlyTables, "text/plain"} {
		if media, text := get(accept); media != jsonType || !strings.HasPrefix(text, indented) || strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %s %q", accept, media, text)
		}
	}
	if media, text := get(onlyTables + "," + yamlType); media != yamlType || !strings.Contains(text, "\nreason: NotFound\n") {
		t.Errorf("YAML: %s %q", media, text)
	}
	if media, text := get(tableAccept); media != jsonType || !strings.HasPrefix(text, `{"kind":"Status"`) {
		t.Errorf("JSON: %s %q", media, text)
	}
}

// Who asks in a way that leads nowhere, or may not ask, is not told that what he did not come to is deprecated.
func TestWhoIsToldOfWhatIsDeprecated(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		as, method string
		status     int
		told       bool
	}{
		{"", "GET", http.StatusNotFound, true},
		{"", "PATCH", http.StatusUnsupportedMediaType, false},
		{"nobody", "GET", http.StatusForbidden, false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, w.address+"/api/v1/namespaces/default/endpoints/none", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "text/plain")
		if c.as != "" {
			r.Header.Set("Impersonate-User", c.as)
		}
		res, err := w.http(pki.Admin).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if told := res.Header.Get("Warning") != ""; res.StatusCode != c.status || told != c.told {
			t.Errorf("%s as %q: %d, warned: %v", c.method, c.as, res.StatusCode, told)
		}
	}
}
