package openapi

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// path3 is one path and what can be done on it.
type path3 struct {
	path string
	ops  []operation
}

// operation is one method of a path, apart from the form in which a version of OpenAPI writes it.
type operation struct {
	method, description, id, tag string
	action                       string // x-kubernetes-action; "" outside of resources
	gvk                          schema.GroupVersionKind
	params                       []string // the models whose fields are query parameters
	drop                         []string // names of such fields that do not count here
	placed                       []placed // parameters in the path
	pretty                       bool
	body                         string // model of the request; "" for none
	optionalBody                 bool
	patch                        bool
	result                       string // model of the answer, or "string"
	results                      []int  // 200 and others that carry the result
	produces                     []string
}

// placed is a parameter in the path.
type placed struct{ name, description string }

const metaPackage = "io.k8s.apimachinery.pkg.apis.meta.v1."

// What answers and requests are written in.
var (
	plain   = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"}
	streams = append(slices.Clone(plain), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq")
	logs    = append([]string{"text/plain"}, plain...)
	anyType = []string{"*/*"}
	patches = []string{
		"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/apply-patch+yaml", "application/apply-patch+cbor",
	}
)

// roots are the documents that do not depend on what is served.
var roots = map[string]func() []path3{
	"api": func() []path3 {
		return []path3{{"/api/", []operation{discovery("get available API versions", "getCoreAPIVersions", "core", "APIVersions")}}}
	},
	"apis": func() []path3 {
		return []path3{{"/apis/", []operation{discovery("get available API versions", "getAPIVersions", "apis", "APIGroupList")}}}
	},
	"version": func() []path3 {
		return []path3{{"/version/", []operation{{
			method: "get", description: "get the version information for this server", id: "getCodeVersion", tag: "version",
			result: "io.k8s.apimachinery.pkg.version.Info", results: []int{200}, produces: []string{"application/json"},
		}}}}
	},
}

func discovery(description, id, tag, result string) operation {
	return operation{
		method: "get", description: description, id: id, tag: tag,
		result: metaPackage + result, results: []int{200}, produces: plain,
	}
}

func groupPaths(group string) []path3 {
	n := naming(schema.GroupVersion{Group: group})
	return []path3{{"/apis/" + group + "/", []operation{
		discovery("get information of a group", "get"+n.id+"APIGroup", strings.TrimSuffix(n.tag, "_"), "APIGroup"),
	}}}
}

// names are what a group version is called in operations: "CoreV1" and "core_v1".
type names struct{ id, tag string }

func naming(gv schema.GroupVersion) names {
	group := strings.TrimSuffix(gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	id := ""
	for part := range strings.SplitSeq(group, ".") {
		id += title(part)
	}
	return names{id: id + title(gv.Version), tag: strings.ToLower(id[:1]) + id[1:] + "_" + gv.Version}
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// model is the published name of an object's type.
func model(obj runtime.Object) string {
	return obj.(interface{ OpenAPIModelName() string }).OpenAPIModelName()
}

// gvPaths are all paths of a group version.
func (d *Docs) gvPaths(gv schema.GroupVersion) []path3 {
	n := naming(gv)
	root := "/" + gvPath(gv) + "/"
	out := []path3{{root, []operation{discovery("get available resources", "get"+n.id+"APIResources", n.tag, "APIResourceList")}}}
	for _, k := range d.kinds {
		if k.GroupVersion() == gv {
			out = append(out, resource{Kind: k, names: n, root: root}.paths()...)
		}
	}
	return out
}

// resource makes the paths of one kind.
type resource struct {
	*registry.Kind
	names
	root string
}

func (r resource) has(verb string) bool { return slices.Contains(r.Verbs, verb) }

func (r resource) paths() []path3 {
	scope, in := "", "" // of ids and of paths
	var place []placed
	if r.Namespaced {
		scope, in = "Namespaced", "namespaces/{namespace}/"
		place = []placed{{"namespace", "object name and auth scope, such as for teams and projects"}}
	}
	kind := r.GVK.Kind
	one := append(slices.Clone(place), placed{name: "name"})
	collection := r.root + in + r.Resource
	object := collection + "/{name}"

	var out []path3
	add := func(path string, place []placed, ops ...operation) {
		for i := range ops {
			if ops[i].gvk.Kind == "" {
				ops[i].gvk = r.GVK
			}
			ops[i].placed, ops[i].tag = slices.Clone(place), r.tag
			for j := range ops[i].placed {
				if p := &ops[i].placed[j]; p.name == "name" {
					p.description = "name of the " + ops[i].gvk.Kind
				}
			}
		}
		if len(ops) > 0 {
			out = append(out, path3{path, ops})
		}
	}
	if r.Namespaced && r.has("list") {
		add(r.root+r.Resource, nil, r.list("list"+r.id+kind+"ForAllNamespaces"))
	}
	add(collection, place, r.collectionOps(scope)...)
	add(object, one, r.objectOps(scope)...)
	for _, sub := range r.subresources() {
		add(object+"/"+sub, one, r.subOps(scope, sub)...)
		if sub == "proxy" {
			add(object+"/proxy/{path}", append(slices.Clone(one), placed{"path", "path to the resource"}), r.proxyOps(scope, "WithPath")...)
		}
	}
	if r.has("watch") {
		watch := strings.Replace(collection, r.root, r.root+"watch/", 1)
		list := "watch individual changes to a list of " + kind + ". deprecated: use the 'watch' parameter with a list operation instead."
		single := "watch changes to an object of kind " + kind +
			". deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
		if r.Namespaced {
			add(r.root+"watch/"+r.Resource, nil, r.watch(list, "watch"+r.id+kind+"ListForAllNamespaces", "watchlist"))
		}
		add(watch, place, r.watch(list, "watch"+r.id+scope+kind+"List", "watchlist"))
		add(watch+"/{name}", one, r.watch(single, "watch"+r.id+scope+kind, "watch"))
	}
	return out
}

func (r resource) collectionOps(scope string) []operation {
	var out []operation
	if r.has("list") {
		out = append(out, r.list("list"+r.id+scope+r.GVK.Kind))
	}
	if r.has("create") {
		out = append(out, write("post", "create "+article(r.GVK.Kind), "create"+r.id+scope+r.GVK.Kind, model(r.NewServed())))
	}
	if r.has("deletecollection") {
		op := r.remove("delete collection of "+r.GVK.Kind, "delete"+r.id+"Collection"+scope+r.GVK.Kind, "deletecollection")
		op.params = append(op.params, metaPackage+"ListOptions")
		op.drop = []string{"watch", "allowWatchBookmarks"}
		op.result, op.results = metaPackage+"Status", []int{200}
		out = append(out, op)
	}
	return out
}

func (r resource) objectOps(scope string) []operation {
	var out []operation
	if r.has("get") {
		out = append(out, r.read("read the specified "+r.GVK.Kind, "read"+r.id+scope+r.GVK.Kind))
	}
	if r.has("update") {
		out = append(out, write("put", "replace the specified "+r.GVK.Kind, "replace"+r.id+scope+r.GVK.Kind, model(r.NewServed())))
	}
	if r.has("delete") {
		out = append(out, r.remove("delete "+article(r.GVK.Kind), "delete"+r.id+scope+r.GVK.Kind, "delete"))
	}
	if r.has("patch") {
		out = append(out, r.change("partially update the specified "+r.GVK.Kind, "patch"+r.id+scope+r.GVK.Kind))
	}
	return out
}

// subresources are the names of all parts, those of the whole object included.
func (r resource) subresources() []string {
	var out []string
	for sub := range r.Updates {
		if sub != "" {
			out = append(out, sub)
		}
	}
	for _, s := range r.Subresources {
		out = append(out, s.Name)
	}
	for sub := range r.Parts {
		out = append(out, sub)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r resource) subOps(scope, sub string) []operation {
	kind := r.GVK.Kind
	id := r.id + scope + kind + title(sub)
	of := sub + " of the specified " + kind
	if i := slices.IndexFunc(r.Subresources, func(s registry.Subresource) bool { return s.Name == sub }); i >= 0 {
		return r.specialOps(r.Subresources[i], scope, of, id)
	}
	if part, ok := r.Parts[sub]; ok {
		as := resource{Kind: part.Kind, names: r.names, root: r.root}
		ops := []operation{as.read("read "+of, "read"+id), write("put", "replace "+of, "replace"+id, model(part.Kind.New())), as.change("partially update "+of, "patch"+id)}
		for i := range ops {
			ops[i].gvk = part.Kind.GVK
		}
		return ops
	}
	put := write("put", "replace "+of, "replace"+id, model(r.NewServed()))
	if r.Updates[sub].PutOnly {
		return []operation{put}
	}
	return []operation{r.read("read "+of, "read"+id), put, r.change("partially update "+of, "patch"+id)}
}

// specialOps are those of a part that is not the object seen otherwise.
func (r resource) specialOps(s registry.Subresource, scope, of, id string) []operation {
	name := modelOf(s.GVK)
	switch {
	case s.Name == "proxy":
		return r.proxyOps(scope, "")
	case s.Name == "log":
		op := r.read("read "+of, "read"+id)
		op.params, op.result, op.produces = []string{corePackage + "PodLogOptions"}, "string", logs
		return []operation{op}
	case strings.HasSuffix(s.GVK.Kind, "Options"):
		var out []operation
		for _, m := range []string{"get", "post"} {
			out = append(out, operation{
				method:      m,
				description: "connect " + strings.ToUpper(m) + " requests to " + s.Name + " of " + r.GVK.Kind,
				id:          "connect" + r.id + title(m) + scope + r.GVK.Kind + title(s.Name),
				action:      "connect", gvk: s.GVK, params: []string{name},
				result: "string", results: []int{200}, produces: anyType,
			})
		}
		return out
	}
	op := write("post", "create "+s.Name+" of "+article(r.GVK.Kind), "create"+id, name)
	op.gvk = s.GVK
	return []operation{op}
}

// proxyOps are the methods that are passed on, with a path behind them or without.
func (r resource) proxyOps(scope, suffix string) []operation {
	var out []operation
	for _, m := range []string{"delete", "get", "head", "options", "patch", "post", "put"} {
		out = append(out, operation{
			method:      m,
			description: "connect " + strings.ToUpper(m) + " requests to proxy of " + r.GVK.Kind,
			id:          "connect" + r.id + title(m) + scope + r.GVK.Kind + "Proxy" + suffix,
			action:      "connect", gvk: v1.SchemeGroupVersion.WithKind(r.GVK.Kind + "ProxyOptions"), params: []string{corePackage + r.GVK.Kind + "ProxyOptions"},
			result: "string", results: []int{200}, produces: anyType,
		})
	}
	return out
}

const corePackage = "io.k8s.api.core.v1."

// modelOf is the model of a kind that is part of another kind's API.
func modelOf(gvk schema.GroupVersionKind) string {
	group := strings.TrimSuffix(gvk.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	return "io.k8s.api." + group + "." + gvk.Version + "." + gvk.Kind
}

func article(kind string) string {
	if strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss") {
		return kind // a plural
	}
	if strings.Contains("AEIOU", kind[:1]) {
		return "an " + kind
	}
	return "a " + kind
}

func (r resource) read(description, id string) operation {
	return operation{
		method: "get", description: description, id: id, action: "get", pretty: true,
		result: model(r.NewServed()), results: []int{200}, produces: plain,
	}
}

func (r resource) list(id string) operation {
	what := "list or watch"
	if !r.has("watch") {
		what = "list"
	}
	return operation{
		method: "get", description: what + " objects of kind " + r.GVK.Kind, id: id, action: "list", pretty: true,
		params: []string{metaPackage + "ListOptions"}, result: model(r.NewServedList()), results: []int{200}, produces: streams,
	}
}

func (r resource) watch(description, id, action string) operation {
	op := r.list(id)
	op.description, op.action, op.result = description, action, metaPackage+"WatchEvent"
	return op
}

// write is a POST or a PUT.
func write(method, description, id, body string) operation {
	op := operation{
		method: method, description: description, id: id, action: method, pretty: true,
		params: []string{metaPackage + "CreateOptions"}, body: body, result: body, results: []int{200, 201, 202}, produces: plain,
	}
	if method == "put" {
		op.params, op.results = []string{metaPackage + "UpdateOptions"}, []int{200, 201}
	}
	return op
}

func (r resource) change(description, id string) operation {
	op := write("put", description, id, model(r.NewServed()))
	op.method, op.action, op.patch = "patch", "patch", true
	op.params, op.body = []string{metaPackage + "PatchOptions"}, metaPackage+"Patch"
	return op
}

func (r resource) remove(description, id, action string) operation {
	op := operation{
		method: "delete", description: description, id: id, action: action, pretty: true,
		params: []string{metaPackage + "DeleteOptions"}, body: metaPackage + "DeleteOptions", optionalBody: true,
		result: metaPackage + "Status", results: []int{200, 202}, produces: plain,
	}
	if r.ReturnsDeleted && !r.DeletedIsStatus {
		op.result = model(r.NewServed())
	}
	return op
}
