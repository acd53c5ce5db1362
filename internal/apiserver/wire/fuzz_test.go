package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry"
)

// FuzzBody: whatever a body is, it is refused with a 4xx or it is an object of the kind.
func FuzzBody(f *testing.F) {
	kinds := registry.All()
	pods := uint8(slices.IndexFunc(kinds, func(k *registry.Kind) bool { return k.Resource == "pods" }))
	for _, seed := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`, `{"spec":[]}`, `[]`, `null`, `"x"`, `{"kind":1}`,
		`{"metadata":{"creationTimestamp":"never"}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e9999999"}}}]}}`, `{"spec":{"overhead":{"cpu":"1e-999999999"}}}`, `{"spec":{"overhead":{"cpu":1e-999999999}}}`, `{"a":1,"a":2}`, "{\"metadata\":{\"name\":\"\xff\"}}",
	} {
		f.Add(uint8(0), pods, []byte(seed))
	}
	for _, seed := range []string{"kind: Pod\nspec:\n  containers:\n  - name: c\n", "a: &a [*a]", "- x", "\t", "a: 1\na: 2\n", "---\n---\n", "<<: {a: b}\n"} {
		f.Add(uint8(1), pods, []byte(seed))
	}
	for _, seed := range []string{"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\"\x00", "k8s\x00", "k8s\x00\xff", ""} {
		f.Add(uint8(2), pods, []byte(seed))
	}
	for i, k := range kinds {
		raw, err := json.Marshal(map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.GVK.Kind, "metadata": map[string]any{"name": "x"}, "spec": map[string]any{}, "data": map[string]any{"a": ""}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), uint8(i), raw)
	}
	media := []string{jsonType, yamlType, protoType}
	f.Fuzz(func(t *testing.T, form, kind uint8, data []byte) {
		k := kinds[int(kind)%len(kinds)]
		obj := k.NewServed()
		_, err := decodeInto(media[int(form)%len(media)], data, k.GVK, obj)
		if err == nil {
			if got := obj.GetObjectKind().GroupVersionKind(); got != k.GVK {
				t.Errorf("a %v", got)
			}
			return
		}
		if st, ok := err.(apierrors.APIStatus); !ok || st.Status().Code < 400 || st.Status().Code > 499 {
			t.Errorf("%v", err)
		}
	})
}

// FuzzOptions: options of writes are refused with a 4xx or hold, whether they come in the query or in a body.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		"dryRun=All", "dryRun=Some", "fieldManager=%00", "fieldValidation=Strict&force=true", "gracePeriodSeconds=-1", "gracePeriodSeconds=99999999999999999999",
		"propagationPolicy=Orphan&orphanDependents=true", "preconditions.uid=x", "%", "dryRun=All&dryRun=All&dryRun=x", "timeout=1h",
	} {
		f.Add(seed, []byte(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":1}`))
	}
	for _, seed := range []string{`{"preconditions":{"uid":1}}`, `{"dryRun":["All",1]}`, `{"gracePeriodSeconds":1e400}`, "", "{", `{"propagationPolicy":""}`} {
		f.Add("", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, query string, data []byte) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		refused := func(err error) {
			var st apierrors.APIStatus
			if err != nil && (!errors.As(err, &st) || st.Status().Code < 400 || st.Status().Code > 499) {
				t.Errorf("%q: %v", query, err)
			}
		}
		refused(params(q, &metav1.CreateOptions{}, metavalidation.ValidateCreateOptions))
		refused(params(q, &metav1.UpdateOptions{}, metavalidation.ValidateUpdateOptions))
		refused(params(q, &metav1.DeleteOptions{}, metavalidation.ValidateDeleteOptions))
		refused(params(q, &metav1.PatchOptions{}, func(o *metav1.PatchOptions) field.ErrorList {
			return metavalidation.ValidatePatchOptions(o, types.ApplyYAMLPatchType)
		}))
		if _, err := requestTime(&http.Request{URL: &url.URL{RawQuery: query}}); err != nil && !strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: %v", query, err)
		}
		err = decodeOptions(jsonType, data, &metav1.DeleteOptions{})
		refused(err)
	})
}

// FuzzImpersonation: headers that want another user name one, or are refused; nobody becomes anybody by a header that is none.
func FuzzImpersonation(f *testing.F) {
	for _, seed := range [][3]string{
		{"Impersonate-User", "ada", "g"},
		{"Impersonate-Group", "system:masters", ""},
		{"Impersonate-Extra-%2f", "x", "y"},
		{"Impersonate-Extra-", "", ""},
		{"impersonate-user", "root", ""},
		{"Impersonate-Uid", "1", ""},
		{"Impersonate-Extra-%zz", "x", ""},
		{"Impersonate-\xff", "x", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, key, value, other string) {
		h := http.Header{}
		h.Add(key, value)
		h.Add(key, other)
		u, err := wantedUser(h)
		switch {
		case err != nil && !apierrors.IsBadRequest(err):
			t.Errorf("%q: %v", key, err)
		case u != nil && (http.CanonicalHeaderKey(key) != "Impersonate-User" || u.Name != value || u.Name == ""):
			t.Errorf("%q: %q is %+v", key, value, u)
		case (u != nil || err != nil) && !impersonates(h):
			t.Errorf("%q: %+v is not seen to impersonate", key, u)
		}
	})
}

// FuzzRequest: any URL, method and Accept header is read without harm, and a path that names a resource names it without slashes.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/default/pods/p/log", "watch=1", "application/json;as=Table;g=meta.k8s.io;v=v1, */*;q=0.1")
	f.Add("POST", "/apis/a/v1/watch/namespaces/x", "", "application/yaml;q=x,;,")
	f.Add("DELETE", "/api/v1//pods/../x", "limit=-1&continue=%00", "")
	f.Add("0", "api//0", "", "0") // no verb for an unknown method, as upstream
	f.Add("\x00", "///", "fieldSelector=%3D&labelSelector=a+in+(", "text/html;q=2")
	f.Fuzz(func(t *testing.T, method, path, query, accept string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Accept": {accept}}}
		i, _ := parse(r)
		known := method == "GET" || method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE" || method == "HEAD"
		if i.Verb == "" && known || strings.Contains(i.Resource+i.Name+i.Subresource+i.Namespace, "/") {
			t.Errorf("%q is %+v", path, i)
		}
		i.long()
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

// FuzzQuery: whatever is asked of a collection or of an object of it is answered, or refused as the client's fault.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"limit=-1", "limit=9223372036854775807", "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYS9iIn0", "resourceVersion=-1",
		"resourceVersion=0&resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=NotOlderThan&limit=-5", "sendInitialEvents=true", "fieldSelector=metadata.name=one,metadata.name=two",
		"fieldSelector=metadata.namespace!=x&labelSelector=!a", "labelSelector=a+in+(b,,c)", "timeoutSeconds=-1", "allowWatchBookmarks=x", "pretty=1&includeObject=x", "dryRun=All&propagationPolicy=Foreground",
	} {
		for where := range uint8(4) {
			f.Add(where, seed, "application/json;as=Table;g=meta.k8s.io;v=v1, */*")
		}
	}
	l := newLocked(f, nil, town()...)
	const ns = "/api/v1/namespaces/team/"
	lines := []string{"GET " + ns + "secrets", "GET " + ns + "events", "GET " + ns + "secrets/one", "DELETE " + ns + "pods?dryRun=All"}
	f.Fuzz(func(t *testing.T, where uint8, query, accept string) {
		q, err := url.ParseQuery(query)
		if err != nil || len(q["watch"]) > 0 || len(q.Get("resourceVersion")) > 1 { // those that last, or wait for what has not happened
			return
		}
		path := lines[int(where)%len(lines)]
		if strings.Contains(path, "?") {
			q.Set("dryRun", "All")
			path, _, _ = strings.Cut(path, "?")
		}
		for _, c := range accept {
			if c < ' ' || c > '~' {
				return
			}
		}
		w := l.ask("root|system:masters", path+"?"+q.Encode(), "Accept: "+accept, "")
		if w.Code >= 500 && w.Code != http.StatusGatewayTimeout {
			t.Errorf("%s?%s: %d %s", path, q.Encode(), w.Code, w.Body)
		}
	})
}
