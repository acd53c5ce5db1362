package oracle

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/registry"
)

// What upstream publishes of its API is in its module, made by a server with every version and every alpha feature on, and without
// the values of enumerated fields. What Podo says of what it serves must be the same; what it does not serve it must not name.

// published reads one of upstream's files.
func published(t *testing.T, name string) any {
	t.Helper()
	dir, err := module("k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "api", name))
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, b)
}

func parsed(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at follows keys into a document; nil where there is nothing.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

func list(v any) []any { l, _ := v.([]any); return l }

func str(v any) string { s, _ := v.(string); return s }

// named compares the elements of two lists by what name says of them. What only upstream has is of no interest when skip says so.
// The order of what both have must be the same.
func named(where string, theirs, ours []any, name func(any) string, skip func(name string) bool) []Difference {
	var out []Difference
	var order, wanted []string
	byName := map[string]any{}
	for _, v := range theirs {
		byName[name(v)] = v
		if slices.ContainsFunc(ours, func(o any) bool { return name(o) == name(v) }) {
			wanted = append(wanted, name(v))
		} else if !skip(name(v)) {
			out = append(out, Difference{Where: where + " " + name(v), Upstream: "served"})
		}
	}
	for _, v := range ours {
		order = append(order, name(v))
		if byName[name(v)] == nil {
			out = append(out, Difference{Where: where + " " + name(v), Podo: "served"})
			continue
		}
		out = append(out, compareJSON(where+" "+name(v), byName[name(v)], v)...)
	}
	if len(out) == 0 && !slices.Equal(order, wanted) {
		out = append(out, Difference{Where: where + " order", Upstream: strings.Join(wanted, " "), Podo: strings.Join(order, " ")})
	}
	return out
}

// published notes differences, each with what both sides say.
func (r *Report) published(what string, list []Difference) {
	r.ran()
	all := signatures(what, list)
	r.found(what, list, func(sig string) string { return "upstream: " + all[sig].Upstream + "\npodo:     " + all[sig].Podo })
}

func servesResource(group, resource string) bool {
	return registry.Lookup(schema.GroupResource{Group: group, Resource: resource}) != nil
}

// upstreamsKinds are those that its API server serves itself: what is in metrics.k8s.io comes from a server that has to be added.
func upstreamsKinds() []*registry.Kind {
	return slices.DeleteFunc(registry.All(), func(k *registry.Kind) bool { return k.GVK.Group == metricsGroup })
}

func groupVersions() []schema.GroupVersion {
	return slices.DeleteFunc(registry.GroupVersions(), func(gv schema.GroupVersion) bool { return gv.Group == metricsGroup })
}

const metricsGroup = "metrics.k8s.io"

func TestDiscovery(t *testing.T) {
	routes, err := wire.Discovery(upstreamsKinds(), "10.10.10.10:8050")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, accept string) any {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		if routes[path] == nil {
			t.Fatal("nothing at ", path)
		}
		routes[path].ServeHTTP(w, req)
		return parsed(t, w.Body.Bytes())
	}
	var r Report
	found := func(list []Difference) { r.published("discovery", list) }
	nameOf := func(v any) string { return str(at(v, "name")) }

	found(compareJSON("/api", published(t, "discovery/api.json"), get("/api", "application/json")))
	for _, gv := range groupVersions() {
		path := "/api/" + gv.Version
		if gv.Group != "" {
			path = "/apis/" + gv.String()
		}
		theirs := published(t, "discovery/"+strings.ReplaceAll(path[1:], "/", "__")+".json")
		found(named(path, list(at(theirs, "resources")), list(at(get(path, "application/json"), "resources")), nameOf, func(name string) bool {
			resource, _, _ := strings.Cut(name, "/")
			return !servesResource(gv.Group, resource)
		}))
		delete(theirs.(map[string]any), "resources")
		ours := get(path, "application/json")
		delete(ours.(map[string]any), "resources")
		found(compareJSON(path, theirs, ours))
	}
	// Groups have the versions that are served.
	trim := func(group any, version func(any) string) any {
		g := group.(map[string]any)
		name := str(g["name"])
		if name == "" {
			name = str(at(group, "metadata", "name"))
		}
		g["versions"] = slices.DeleteFunc(slices.Clone(list(g["versions"])), func(v any) bool {
			return !slices.Contains(registry.GroupVersions(), schema.GroupVersion{Group: name, Version: version(v)})
		})
		return g
	}
	versionOf := func(v any) string { return str(at(v, "version")) }
	var groups []any
	for _, g := range list(at(published(t, "discovery/apis.json"), "groups")) {
		groups = append(groups, trim(g, versionOf))
	}
	notServed := func(string) bool { return true }
	found(named("/apis", groups, list(at(get("/apis", "application/json"), "groups")), nameOf, notServed))
	for _, gv := range groupVersions() {
		if gv.Group != "" {
			path := "/apis/" + gv.Group
			found(compareJSON(path, trim(published(t, "discovery/apis__"+gv.Group+".json"), versionOf), get(path, "application/json")))
		}
	}
	// The aggregated form; the file has the named groups.
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	byResource := func(v any) string { return str(at(v, "resource")) }
	bySubresource := func(v any) string { return str(at(v, "subresource")) }
	theirs := map[string]any{}
	for _, g := range list(at(published(t, "discovery/aggregated_v2.json"), "items")) {
		theirs[str(at(g, "metadata", "name"))] = trim(g, versionOf)
	}
	for _, g := range list(at(get("/apis", aggregated), "items")) {
		group := str(at(g, "metadata", "name"))
		for i, v := range list(at(g, "versions")) {
			u := list(at(theirs[group], "versions"))[i]
			where := "aggregated " + group
			resources, ours := list(at(u, "resources")), list(at(v, "resources"))
			for _, pair := range [][]any{resources, ours} {
				for _, r := range pair {
					m := r.(map[string]any)
					m["subs"], m["subresources"] = m["subresources"], nil // compared by name below
				}
			}
			subs := func(list []any) map[string][]any {
				out := map[string][]any{}
				for _, r := range list {
					m := r.(map[string]any)
					out[byResource(r)], _ = m["subs"].([]any)
					delete(m, "subs")
				}
				return out
			}
			a, b := subs(resources), subs(ours)
			found(named(where, resources, ours, byResource, func(name string) bool { return !servesResource(group, name) }))
			for name := range b {
				found(named(where+" "+name, a[name], b[name], bySubresource, func(string) bool { return false }))
			}
		}
	}
	r.fail(t)
}

// plainSchema drops what the published files are made without: the values of enumerated fields, and the sentence on them.
func plainSchema(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if d, ok := v["description"].(string); ok {
			v["description"], _, _ = strings.Cut(d, "\n\nPossible enum values:")
		}
		if _, isList := v["enum"].([]any); isList && v["type"] == "string" {
			delete(v, "enum")
		}
		for _, e := range v {
			plainSchema(e)
		}
	case []any:
		for _, e := range v {
			plainSchema(e)
		}
	}
	return v
}

// ownKinds leaves of a model that many group versions share those kinds that Podo serves.
func ownKinds(model any) {
	m, _ := model.(map[string]any)
	kinds, ok := m["x-kubernetes-group-version-kind"].([]any)
	if !ok || len(kinds) < 2 {
		return
	}
	m["x-kubernetes-group-version-kind"] = slices.DeleteFunc(slices.Clone(kinds), func(k any) bool {
		return !slices.ContainsFunc(registry.GroupVersions(), func(gv schema.GroupVersion) bool {
			return gv.Group == str(at(k, "group")) && gv.Version == str(at(k, "version"))
		})
	})
}

// apiDocument compares the paths and the models of a document with the published one.
func apiDocument(where string, theirs, ours any, models ...string) []Difference {
	var out []Difference
	u, _ := at(theirs, "paths").(map[string]any)
	p, _ := at(ours, "paths").(map[string]any)
	for path, item := range p {
		if u[path] == nil {
			out = append(out, Difference{Where: where + " " + path, Podo: "served"})
			continue
		}
		out = append(out, compareJSON(where+" "+path+" ", u[path], item)...)
	}
	for path := range u {
		if p[path] == nil && servesPath(path) {
			out = append(out, Difference{Where: where + " " + path, Upstream: "served"})
		}
	}
	known, _ := at(theirs, models...).(map[string]any)
	mine, _ := at(ours, models...).(map[string]any)
	for name, schema := range mine {
		if known[name] == nil {
			out = append(out, Difference{Where: where + " " + name, Podo: "published"})
			continue
		}
		ownKinds(known[name])
		ownKinds(schema)
		out = append(out, compareJSON(where+" "+name+" ", known[name], plainSchema(schema))...)
	}
	for _, rest := range []any{theirs, ours} {
		m := rest.(map[string]any)
		delete(m, "paths")
		delete(at(rest, models[:len(models)-1]...).(map[string]any), models[len(models)-1])
	}
	return append(out, compareJSON(where+" ", theirs, ours)...)
}

// inPlace puts shared parameters where they are used, in the order of names.
func inPlace(v any, shared map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := strings.CutPrefix(str(v["$ref"]), "#/parameters/"); ok {
			return shared[name]
		}
		for key, e := range v {
			v[key] = inPlace(e, shared)
		}
		if l, ok := v["parameters"].([]any); ok {
			slices.SortStableFunc(l, func(a, b any) int {
				return cmp.Or(cmp.Compare(str(at(a, "in")), str(at(b, "in"))), cmp.Compare(str(at(a, "name")), str(at(b, "name"))))
			})
		}
	case []any:
		for i, e := range v {
			v[i] = inPlace(e, shared)
		}
	}
	return v
}

// servesPath tells whether the resource that a path is of is served.
func servesPath(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	if len(parts) > 0 && parts[0] == "apis" {
		parts = parts[1:]
		if len(parts) > 0 {
			group = parts[0]
		}
	}
	if len(parts) < 3 {
		return false
	}
	parts = parts[2:] // the version
	if parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[1] == "{namespace}" {
		parts = parts[2:]
	}
	return len(parts) > 0 && servesResource(group, parts[0])
}

func TestOpenAPI(t *testing.T) {
	docs := openapi.New(upstreamsKinds(), "unversioned")
	var r Report
	found := func(list []Difference) { r.published("openapi", list) }
	index, _, err := docs.V3Index()
	if err != nil {
		t.Fatal(err) // a group whose types tools/openapigen does not generate
	}
	paths, _ := at(parsed(t, index), "paths").(map[string]any)
	for path := range paths {
		text, _, _, err := docs.V3(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		theirs := published(t, "openapi-spec/v3/"+strings.ReplaceAll(path, "/", "__")+"_openapi.json")
		found(apiDocument("v3 "+path, theirs, parsed(t, text), "components", "schemas"))
	}
	text, _, err := docs.V2()
	if err != nil {
		t.Fatal(err)
	}
	theirs := published(t, "openapi-spec/swagger.json").(map[string]any)
	shared, _ := theirs["parameters"].(map[string]any)
	delete(theirs, "parameters") // Podo writes every parameter where it is used, which means the same
	found(apiDocument("v2", inPlace(theirs, shared), inPlace(parsed(t, text), nil), "definitions"))
	r.fail(t)
}
