package wire

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzBody: whatever a body is, it is refused with a 4xx or it is a pod.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`, `{"spec":[]}`, `[]`, `null`, `"x"`, `{"kind":1}`,
		`{"metadata":{"creationTimestamp":"never"}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e9999999"}}}]}}`, `{"a":1,"a":2}`, "{\"metadata\":{\"name\":\"\xff\"}}",
	} {
		f.Add(uint8(0), []byte(seed))
	}
	for _, seed := range []string{"kind: Pod\nspec:\n  containers:\n  - name: c\n", "a: &a [*a]", "- x", "\t", "a: 1\na: 2\n", "---\n---\n", "<<: {a: b}\n"} {
		f.Add(uint8(1), []byte(seed))
	}
	for _, seed := range []string{"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\"\x00", "k8s\x00", "k8s\x00\xff", ""} {
		f.Add(uint8(2), []byte(seed))
	}
	media := []string{jsonType, yamlType, protoType}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		want := v1.SchemeGroupVersion.WithKind("Pod")
		pod := &v1.Pod{}
		_, err := decodeInto(media[int(kind)%len(media)], data, want, pod)
		if err == nil {
			if pod.GroupVersionKind() != want {
				t.Errorf("a %v", pod.GroupVersionKind())
			}
			return
		}
		if st, ok := err.(apierrors.APIStatus); !ok || st.Status().Code < 400 || st.Status().Code > 499 {
			t.Errorf("%v", err)
		}
	})
}

// FuzzRequest: any URL, method and Accept header is read without harm, and a path that names a resource names it without slashes.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/default/pods/p/log", "watch=1", "application/json;as=Table;g=meta.k8s.io;v=v1, */*;q=0.1")
	f.Add("POST", "/apis/a/v1/watch/namespaces/x", "", "application/yaml;q=x,;,")
	f.Add("DELETE", "/api/v1//pods/../x", "limit=-1&continue=%00", "")
	f.Add("\x00", "///", "fieldSelector=%3D&labelSelector=a+in+(", "text/html;q=2")
	f.Fuzz(func(t *testing.T, method, path, query, accept string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Accept": {accept}}}
		i := parse(r)
		if i.Verb == "" && method != "" || strings.Contains(i.Resource+i.Name+i.Subresource+i.Namespace, "/") {
			t.Errorf("%q is %+v", path, i)
		}
		i.long(r)
		i.scope()
		if form, err := negotiate(r, true); err == nil && form.media != jsonType && form.media != yamlType && form.media != protoType {
			t.Errorf("%q is %+v", accept, form)
		}
		c := &call{r: r, info: i}
		if o, err := c.listOptions(); err == nil && o == nil {
			t.Error("no options and no error")
		}
		if program(accept) != program(program(accept)) {
			t.Errorf("%q has no one program", accept)
		}
	})
}
