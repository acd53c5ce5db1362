package openapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	utilproto "k8s.io/kube-openapi/pkg/util/proto"

	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/registry"
)

var update = flag.Bool("update", false, "write testdata anew")

func docs() *openapi.Docs { return openapi.New(registry.All(), "v1.2.3") }

// paths are the documents that the index lists.
func paths(t testing.TB, d *openapi.Docs) map[string]string {
	t.Helper()
	text, _, err := d.V3Index()
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for p, e := range index.Paths {
		out[p] = e.ServerRelativeURL
	}
	return out
}

func TestIndexListsWhatIsServed(t *testing.T) {
	d := docs()
	list := paths(t, d)
	want := []string{"api", "apis", "version"}
	for _, gv := range registry.GroupVersions() {
		if gv.Group == "" {
			want = append(want, "api/"+gv.Version)
		} else {
			want = append(want, "apis/"+gv.Group, "apis/"+gv.String())
		}
	}
	slices.Sort(want)
	want = slices.Compact(want) // a group of several versions is one
	for _, p := range want {
		_, hash, ok, err := d.V3(p)
		if !ok || err != nil || list[p] != "/openapi/v3/"+p+"?hash="+hash {
			t.Errorf("%s: ok %v, err %v, index has %q", p, ok, err, list[p])
		}
		delete(list, p)
	}
	if len(list) > 0 {
		t.Errorf("the index has more: %v", list)
	}
}

// Every reference leads to a schema of the same document, and the documents are what the libraries of clients can read.
func TestDocumentsAreWhole(t *testing.T) {
	d := docs()
	whole := func(name, text, prefix string, has func(string) bool) {
		for _, m := range regexp.MustCompile(`"\$ref":"([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if model, ok := strings.CutPrefix(m[1], prefix); !ok || !has(model) {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
		}
	}
	for p := range paths(t, d) {
		text, _, _, _ := d.V3(p)
		var doc spec3.OpenAPI
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		whole(p, string(text), "#/components/schemas/", func(m string) bool { return doc.Components.Schemas[m] != nil })
		if _, err := managedfields.NewTypeConverter(doc.Components.Schemas, false); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	text, _, err := d.V2()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := openapi_v2.ParseDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := utilproto.NewOpenAPIData(parsed); err != nil {
		t.Error(err)
	}
	var doc struct{ Definitions map[string]any }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	whole("v2", string(text), "#/definitions/", func(m string) bool { return doc.Definitions[m] != nil })
}

// What kubectl looks for: the kind's schema under its name, and that PATCH takes fieldValidation.
func TestKindsCanBePatchedAndExplained(t *testing.T) {
	d := docs()
	read := map[string]*spec3.OpenAPI{} // reading one takes seconds under the race detector
	for _, k := range registry.All() {
		p := "apis/" + k.GroupVersion().String()
		if k.GVK.Group == "" {
			p = "api/" + k.GVK.Version
		}
		doc := read[p]
		if doc == nil {
			text, _, _, err := d.V3(p)
			if err != nil {
				t.Fatal(err)
			}
			doc = &spec3.OpenAPI{}
			if err := json.Unmarshal(text, doc); err != nil {
				t.Fatal(err)
			}
			read[p] = doc
		}
		gvk := map[string]any{"group": k.GVK.Group, "version": k.GVK.Version, "kind": k.GVK.Kind}
		schemas, patches := 0, 0
		for _, s := range doc.Components.Schemas {
			if list, ok := s.Extensions["x-kubernetes-group-version-kind"].([]any); ok && len(list) == 1 && fmt.Sprint(list[0]) == fmt.Sprint(gvk) {
				schemas++
			}
		}
		for path, item := range doc.Paths.Paths {
			if item.Patch == nil || !strings.HasSuffix(path, "/"+k.Resource+"/{name}") {
				continue
			}
			all := slices.Concat(item.Patch.Parameters, item.Parameters)
			if slices.ContainsFunc(all, func(p *spec3.Parameter) bool { return p.Name == "fieldValidation" && p.In == "query" }) &&
				fmt.Sprint(item.Patch.Extensions["x-kubernetes-group-version-kind"]) == fmt.Sprint(gvk) {
				patches++
			}
		}
		want := 1
		if k.Unstored {
			want = 0 // there is nothing to patch
		}
		if schemas != 1 || patches != want {
			t.Errorf("%s: %d schemas, %d PATCH with fieldValidation", k.GVK, schemas, patches)
		}
	}
}

// testdata/operations.txt is every operation of the API, for people to see what a change adds.
func TestOperations(t *testing.T) {
	d := docs()
	text, _, err := d.V2()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var lines []string
	seen := map[string]bool{}
	for path, methods := range doc.Paths {
		for m, raw := range methods {
			var op struct{ OperationID string }
			if m == "parameters" {
				continue
			}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			if seen[op.OperationID] {
				t.Errorf("%s names two operations", op.OperationID)
			}
			seen[op.OperationID] = true
			lines = append(lines, fmt.Sprintf("%s %s %s\n", path, m, op.OperationID))
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	const file = "testdata/operations.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("operations differ from %s (go test -update writes it anew): %v\n%s", file, err, got)
	}
}

// Two servers of one version publish the same, to the byte: clients keep documents by their hash.
func TestTheSameEverywhere(t *testing.T) {
	first, hash, err := docs().V2()
	if err != nil {
		t.Fatal(err)
	}
	again, hash2, err := docs().V2()
	if err != nil || !bytes.Equal(first, again) || hash2 != hash {
		t.Errorf("differs: %v, hashes %s and %s", err, hash, hash2)
	}
}

// Whoever takes gzip gets what is kept, everybody else the same unpacked, in every form.
func TestPacked(t *testing.T) {
	d := docs()
	const pb = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	for _, accept := range []string{"application/json", pb} {
		do := func(encoding string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/apps/v1", nil)
			r.Header.Set("Accept", accept)
			r.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			return w
		}
		bare, packed := do("identity, gzip;q=0"), do("br, gzip")
		if bare.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: encodings %q and %q", accept, bare.Header().Get("Content-Encoding"), packed.Header().Get("Content-Encoding"))
		}
		if got := packed.Body.Len(); got*5 > bare.Body.Len() {
			t.Errorf("%s: %d bytes are packed into %d", accept, bare.Body.Len(), got)
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, bare.Body.Bytes()) {
			t.Errorf("%s: unpacked it is not the same: %v", accept, err)
		}
	}
}

func TestHandler(t *testing.T) {
	d := docs()
	do := func(url string, header ...string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, url, nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w.Result()
	}
	const pb2, pb3 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	for _, c := range []struct {
		url, accept string
		status      int
		content     string
	}{
		{"/openapi/v2", "", 200, "application/json"},
		{"/openapi/v2", "application/json", 200, "application/json"},
		{"/openapi/v2", "*/*", 200, "application/json"},
		{"/openapi/v2", "application/json;q=0.5, " + pb2, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
		{"/openapi/v2", "text/html", 406, ""},
		{"/openapi/v3", "", 200, "application/json"},
		{"/openapi/v3", "text/html", 200, "application/json"},
		{"/openapi/v2/", "", 404, "text/plain; charset=utf-8"},
		{"/openapi/v3/", "", 404, ""},
		{"/openapi/v3/api/v1", "", 200, "application/json"},
		{"/openapi/v3/api/v1", pb3, 200, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"},
		{"/openapi/v3/apis/coordination.k8s.io/v1", "application/*", 200, "application/json"},
		{"/openapi/v3/apis/nothing/v1", "", 404, ""},
		{"/openapi/v3/api/v1?hash=old", "", 301, "text/html; charset=utf-8"},
	} {
		res := do(c.url, "Accept", c.accept)
		if res.StatusCode != c.status || res.Header.Get("Content-Type") != c.content {
			t.Errorf("%s as %q: %d, %q", c.url, c.accept, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if tag := res.Header.Get("Etag"); c.content == "application/json" {
			if again := do(c.url, "Accept", c.accept, "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
				t.Errorf("%s with its own tag %s: %d", c.url, tag, again.StatusCode)
			}
		}
	}
	right := paths(t, d)["api/v1"]
	if res := do(right); res.StatusCode != 200 || res.Header.Get("Cache-Control") != "public, immutable" || res.Header.Get("Expires") == "" {
		t.Errorf("%s: %d %v", right, res.StatusCode, res.Header)
	}
	if to := do("/openapi/v3/api/v1?hash=old").Header.Get("Location"); to != right {
		t.Errorf("an old hash leads to %s, not %s", to, right)
	}
}

func TestProtobufIsTheSameDocument(t *testing.T) {
	d := docs()
	text, _, err := d.V2()
	if err != nil {
		t.Fatal(err)
	}
	want2, err := openapi_v2.ParseDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	var two openapi_v2.Document
	if err := proto.Unmarshal(get(t, d, "/openapi/v2", proto2), &two); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(want2, &two) {
		t.Errorf("v2 in protobuf is not what its JSON says: %s", difference(want2, &two))
	}
	for path := range paths(t, d) {
		text, _, _, err := d.V3(path)
		if err != nil {
			t.Fatal(err)
		}
		want3, err := openapi_v3.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		var three openapi_v3.Document
		if err := proto.Unmarshal(get(t, d, "/openapi/v3/"+path, proto3), &three); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want3, &three) {
			t.Errorf("%s in protobuf is not what its JSON says: %s", path, difference(want3, &three))
		}
	}
}

// difference is where the texts of two messages begin to differ.
func difference(want, got proto.Message) string {
	a, b := prototext.Format(want), prototext.Format(got)
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-300)
	return fmt.Sprintf("want %.600s\ngot %.600s", a[from:], b[from:])
}

const (
	proto2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	proto3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
)

func get(t testing.TB, d *openapi.Docs, url, accept string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// BenchmarkFirst is what the first client costs: every document in protobuf, as clients ask for them.
func BenchmarkFirst(b *testing.B) {
	for b.Loop() {
		d := docs()
		if _, _, err := d.V3Index(); err != nil {
			b.Fatal(err)
		}
		for path := range paths(b, d) {
			get(b, d, "/openapi/v3/"+path, proto3)
		}
		get(b, d, "/openapi/v2", proto2)
	}
}
