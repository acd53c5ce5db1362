package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"podo.dev/podo/internal/registry"
)

// Discovery is the discovery documents by path: the classic ones, with a request for each group version, and the aggregated one,
// which /api and /apis give to clients that ask for it. The order of kinds in the table does not matter. advertise is the
// server's address in the documents (default: the one that the client used).
func Discovery(kinds []*registry.Kind, advertise string) (map[string]http.Handler, error) {
	kinds = slices.SortedFunc(slices.Values(kinds), func(a, b *registry.Kind) int {
		return cmp.Or(
			cmp.Compare(groupPlace(a.GVK.Group), groupPlace(b.GVK.Group)),
			cmp.Compare(a.GVK.Group, b.GVK.Group),
			-version.CompareKubeAwareVersionStrings(a.GVK.Version, b.GVK.Version), // the newest is preferred
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	var versions []schema.GroupVersion
	byVersion := map[schema.GroupVersion][]*registry.Kind{}
	for _, k := range kinds {
		gv := k.GroupVersion()
		if byVersion[gv] == nil {
			versions = append(versions, gv)
		}
		byVersion[gv] = append(byVersion[gv], k)
	}
	routes := map[string]http.Handler{}
	var groups []metav1.APIGroup
	var core, named []apidiscovery.APIGroupDiscovery
	for _, gv := range versions {
		kinds := byVersion[gv]
		list := metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: gv.String(), APIResources: resources(kinds),
		}
		if gv.Group == "" {
			list.APIVersion = "" // older than apiVersion
		}
		h, err := document(&list)
		if err != nil {
			return nil, err
		}
		d := apidiscovery.APIVersionDiscovery{Version: gv.Version, Resources: aggregated(kinds), Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		if gv.Group == "" {
			routes["/api/"+gv.Version] = got(documents, h)
			core = append(core, apidiscovery.APIGroupDiscovery{Versions: []apidiscovery.APIVersionDiscovery{d}})
			continue
		}
		routes["/apis/"+gv.String()] = got(documents, h)
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		last := len(groups) - 1
		if last < 0 || groups[last].Name != gv.Group {
			named = append(named, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}})
			groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
			last++
		}
		named[last].Versions = append(named[last].Versions, d)
		groups[last].Versions = append(groups[last].Versions, v)
	}
	for _, g := range groups {
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		var err error
		if routes["/apis/"+g.Name], err = document(&g); err != nil {
			return nil, err
		}
	}
	old, err := document(&metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups})
	if err != nil {
		return nil, err
	}
	if routes["/apis"], err = bothForms(old, named); err != nil {
		return nil, err
	}
	api, err := bothForms(apiVersions(advertise), core)
	if err != nil {
		return nil, err
	}
	routes["/api"] = got(documents, api)
	return routes, nil
}

// groupOrder is upstream's order of the groups; others follow by name.
var groupOrder = []string{
	"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
	"certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
	"apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
	"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "storagemigration.k8s.io",
}

func groupPlace(group string) int {
	if i := slices.Index(groupOrder, group); i >= 0 {
		return i
	}
	return len(groupOrder)
}

// apiVersions is the oldest document of all; it contains the server's address.
func apiVersions(advertise string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := document(&metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: cmp.Or(advertise, r.Host)}},
		})
		if err != nil {
			writeError(w, r, err, nil)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// documents are their media types. The documents about groups answer every method, as upstream's aggregator does, which only
// looks at the form; the others go by its router (got).
var documents = []string{jsonType, yamlType, protoType}

// document answers with obj in the form that the client wants. The most common form is encoded once.
func document(obj runtime.Object) (http.HandlerFunc, error) {
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	plain := static(jsonType, append(b, '\n'))
	gvk := schema.GroupVersionKind{Version: "v1", Kind: obj.GetObjectKind().GroupVersionKind().Kind}
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := negotiate(r, false)
		if err == nil && f.as != whole {
			err = notAcceptable()
		}
		if err != nil {
			writeError(w, r, err, nil)
			return
		}
		served{plain, gvk, obj, ""}.send(w, r, f)
	}, nil
}

// served is an answer in a negotiated form: plain is the usual one, made in advance; as is the rest of its content type.
type served struct {
	plain http.Handler
	gvk   schema.GroupVersionKind
	obj   runtime.Object
	as    string
}

func (d served) send(w http.ResponseWriter, r *http.Request, f form) {
	if f.media == jsonType && !f.pretty {
		d.plain.ServeHTTP(w, r)
		return
	}
	b, err := objectBody(f, d.gvk, d.obj, nil)
	if err != nil {
		writeError(w, r, err, nil)
		return
	}
	writeBody(w, r, http.StatusOK, f.contentType()+d.as, b)
}

const aggregatedAs = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// bothForms answers with the aggregated form when the client prefers it.
func bothForms(old http.Handler, groups []apidiscovery.APIGroupDiscovery) (http.HandlerFunc, error) {
	list := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscovery.SchemeGroupVersion.String()},
		Items:    groups,
	}
	gvk := list.GroupVersionKind()
	b, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	etag := fmt.Sprintf("%q", fmt.Sprintf("%X", sha256.Sum256(b)))
	plain := static(jsonType+aggregatedAs, b)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		f, yes := wantsAggregated(r)
		if !yes {
			old.ServeHTTP(w, r)
			return
		}
		w.Header().Set("ETag", etag)
		if strings.Contains(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		served{plain, gvk, list, aggregatedAs}.send(w, r, f)
	}, nil
}

// wantsAggregated tells whether the client's first servable choice is the aggregated form, and how to encode it.
func wantsAggregated(r *http.Request) (form, bool) {
	for _, c := range goautoneg.ParseAccept(r.Header.Get("Accept")) {
		f := form{pretty: isPretty(r) || c.Params["pretty"] == "1"}
		switch media := c.Type + "/" + c.SubType; media {
		case "*/*", "application/*":
			f.media = jsonType
		case jsonType, yamlType, protoType:
			f.media = media
		default:
			continue
		}
		if s := c.Params["stream"]; s != "" && (s != "watch" || f.media == yamlType) || c.Params["sv"] != "" {
			continue
		}
		switch (schema.GroupVersionKind{Group: c.Params["g"], Version: c.Params["v"], Kind: c.Params["as"]}) {
		case schema.GroupVersionKind{}:
			return f, false
		case apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"):
			return f, true
		}
	}
	return form{}, false
}

// subs are a kind's subresources by name, those that take the whole object and the others.
func subs(k *registry.Kind) []registry.Subresource {
	out := slices.Clone(k.Subresources)
	for name, part := range k.Parts {
		out = append(out, registry.Subresource{Name: name, GVK: part.Kind.GVK, Verbs: []string{"get", "patch", "update"}})
	}
	for name, u := range k.Updates {
		if name == "" || slices.ContainsFunc(out, func(s registry.Subresource) bool { return s.Name == name }) {
			continue
		}
		verbs := []string{"get", "patch", "update"}
		if u.PutOnly {
			verbs = []string{"update"}
		}
		out = append(out, registry.Subresource{Name: name, GVK: k.GVK, Verbs: verbs})
	}
	slices.SortFunc(out, func(a, b registry.Subresource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// stored identifies the version in which a kind is stored, so that clients that migrate objects notice a change.
func stored(k *registry.Kind) string {
	if k.Unstored {
		return ""
	}
	gvk := k.StoredGVK()
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

func resources(kinds []*registry.Kind) []metav1.APIResource {
	var out []metav1.APIResource
	for _, k := range kinds {
		out = append(out, metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.GVK.Kind,
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories, StorageVersionHash: stored(k),
		})
		for _, sub := range subs(k) {
			as := responseKind(k, sub.GVK)
			out = append(out, metav1.APIResource{
				Name: k.Resource + "/" + sub.Name, Namespaced: k.Namespaced, Kind: as.Kind, Group: as.Group, Version: as.Version, Verbs: sub.Verbs,
			})
		}
	}
	return out
}

func aggregated(kinds []*registry.Kind) []apidiscovery.APIResourceDiscovery {
	var out []apidiscovery.APIResourceDiscovery
	for _, k := range kinds {
		r := apidiscovery.APIResourceDiscovery{
			Resource: k.Resource, SingularResource: k.Singular, Scope: apidiscovery.ScopeCluster, ResponseKind: responseKind(k, k.GVK),
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories,
		}
		if k.Namespaced {
			r.Scope = apidiscovery.ScopeNamespace
		}
		for _, sub := range subs(k) {
			r.Subresources = append(r.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: sub.Name, ResponseKind: responseKind(k, sub.GVK), Verbs: sub.Verbs,
			})
		}
		out = append(out, r)
	}
	return out
}

// responseKind names a kind, with group and version only where they differ from the document's.
func responseKind(k *registry.Kind, gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	if gvk.GroupVersion() == k.GroupVersion() {
		return &metav1.GroupVersionKind{Kind: gvk.Kind}
	}
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
