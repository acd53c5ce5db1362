package openapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"

	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/registry"
)

const release = "v1.37.2"

// What is carried is what would be built, to the byte, and all of it: a change of a kind needs `go generate ./internal/openapi`, or
// `go test -run TestCarried ./internal/openapi -update` alone.
func TestCarried(t *testing.T) {
	built := openapi.New(registry.All(), release)
	text, hash, err := built.V2()
	if err != nil || len(text) == 0 {
		t.Fatal(err)
	}
	index := openapi.Index{Version: release, V2: hash, V3: map[string]string{}}
	want := map[string][]byte{openapi.CarriedFile("v2"): get(t, built, "/openapi/v2", proto2)}
	for path := range paths(t, built) {
		if _, index.V3[path], _, err = built.V3(path); err != nil {
			t.Fatal(err)
		}
		want[openapi.CarriedFile(path)] = get(t, built, "/openapi/v3/"+path, proto3)
	}
	const dir = "data/carried"
	if *update {
		write(t, dir, index, want)
		return // what is embedded is still what it was
	}
	text, err = os.ReadFile(dir + "/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var got openapi.Index
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, index) {
		t.Errorf("the index of what is carried is old (go test -update writes it anew): %v", err)
	}
	files, err := filepath.Glob(dir + "/*.pb.gz")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d documents are carried, not %d: %v", len(files), len(want), err)
	}
	for file, text := range want {
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(unpacked(t, packed), text) {
			t.Errorf("%s is old (go test -update writes it anew)", file)
		}
	}
}

// A server of the release answers as one that builds everything, in every form.
func TestRelease(t *testing.T) {
	d, err := openapi.Release(release)
	if err != nil {
		t.Fatal(err)
	}
	built := openapi.New(registry.All(), release)
	urls := map[string]string{"/openapi/v2": proto2, "/openapi/v3/api/v1": proto3, "/openapi/v3/apis/apps/v1": proto3}
	for url, form := range urls {
		for _, accept := range []string{form, "application/json"} {
			for _, encoding := range []string{"", "gzip"} {
				a, b := ask(d, url, accept, encoding, ""), ask(built, url, accept, encoding, "")
				tag := a.Header().Get("Etag")
				if a.Code != http.StatusOK || tag != b.Header().Get("Etag") {
					t.Errorf("%s as %s: %d, tags %s and %s", url, accept, a.Code, tag, b.Header().Get("Etag"))
				}
				one, other := a.Body.Bytes(), b.Body.Bytes()
				if encoding != "" {
					one, other = unpacked(t, one), unpacked(t, other)
				}
				if !bytes.Equal(one, other) {
					t.Errorf("%s as %s, %s: it is not what is built", url, accept, encoding)
				}
				if again := ask(d, url, accept, encoding, tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
					t.Errorf("%s as %s with its tag: %d, %d bytes", url, accept, again.Code, again.Body.Len())
				}
			}
		}
	}
	if a, _ := openapi.Release("v0.0.1"); !bytes.Contains(get(t, a, "/openapi/v3/version", proto3), []byte("v0.0.1")) {
		t.Error("a server of another version says it is of the carried one")
	}
}

// A client that takes what is carried costs next to nothing, and so does one that has the document in whatever form: nothing is built.
func TestReleaseBuildsNothing(t *testing.T) {
	d, err := openapi.Release(release)
	if err != nil {
		t.Fatal(err)
	}
	list := paths(t, d)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, url := range list {
		tag := ask(d, url, proto3, "gzip", "").Header().Get("Etag")
		ask(d, url, "application/json", "gzip", tag)
	}
	ask(d, "/openapi/v2", proto2, "gzip", "")
	runtime.ReadMemStats(&after)
	if each := int(after.Mallocs-before.Mallocs) / (len(list) + 1); each > 300 {
		t.Errorf("a document costs %d allocations", each)
	}
}

func ask(d *openapi.Docs, url, accept, encoding, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func unpacked(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// write leaves those files alone whose content has not changed, and removes those that nobody needs.
func write(t *testing.T, dir string, index openapi.Index, docs map[string][]byte) {
	text, err := json.MarshalIndent(index, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/index.json", append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := filepath.Glob(dir + "/*.pb.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if docs[file] == nil {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for file, text := range docs {
		if packed, err := os.ReadFile(file); err == nil && bytes.Equal(unpacked(t, packed), text) {
			continue
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(text) // to memory: cannot fail
		w.Close()
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
