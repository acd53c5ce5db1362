package wire

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// discovery serves what kinds there are: the classic documents, a request for each group version, and the aggregated
// one, everything in one answer, which /api and /apis give to clients that ask for it.
func (s *Server) discovery() error {
	var versions []schema.GroupVersion
	byVersion := map[schema.GroupVersion][]*registry.Kind{}
	for _, k := range s.c.Kinds {
		gv := k.GroupVersion()
		if byVersion[gv] == nil {
			versions = append(versions, gv)
		}
		byVersion[gv] = append(byVersion[gv], k)
	}
	var groups []metav1.APIGroup
	var core, named []apidiscovery.APIGroupDiscovery
	for _, gv := range versions {
		kinds := byVersion[gv]
		list := metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: gv.String(), APIResources: resources(kinds),
		}
		h, err := document(list)
		if err != nil {
			return err
		}
		d := apidiscovery.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Group},
			Versions: []apidiscovery.APIVersionDiscovery{{
				Version: gv.Version, Resources: aggregated(kinds), Freshness: apidiscovery.DiscoveryFreshnessCurrent,
			}},
		}
		if gv.Group == "" {
			s.routes["/api/"+gv.Version] = h
			core = append(core, d)
			continue
		}
		named = append(named, d)
		s.routes["/apis/"+gv.String()] = h
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		g := metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
		groups = append(groups, g)
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		if s.routes["/apis/"+gv.Group], err = document(g); err != nil {
			return err
		}
	}
	old, err := document(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups})
	if err != nil {
		return err
	}
	if s.routes["/apis"], err = bothForms(old, named); err != nil {
		return err
	}
	s.routes["/api"], err = bothForms(http.HandlerFunc(s.apiVersions), core)
	return err
}

// apiVersions is the oldest document of all; it tells the client where it is talking to.
func (s *Server) apiVersions(w http.ResponseWriter, r *http.Request) {
	at := s.c.Advertise
	if at == "" {
		at = r.Host
	}
	h, err := document(metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: at}},
	})
	if err != nil {
		writeError(w, r, err, nil)
		return
	}
	h.ServeHTTP(w, r)
}

func document(v any) (http.Handler, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return static(jsonType, append(b, '\n')), nil
}

const aggregatedType = jsonType + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// bothForms answers with the aggregated form to those who list it first among what they accept.
func bothForms(old http.Handler, groups []apidiscovery.APIGroupDiscovery) (http.Handler, error) {
	b, err := json.Marshal(apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscovery.SchemeGroupVersion.String()},
		Items:    groups,
	})
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	etag := fmt.Sprintf("%q", fmt.Sprintf("%X", sha256.Sum256(b)))
	all := static(aggregatedType, b)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if !wantsAggregated(r) {
			old.ServeHTTP(w, r)
			return
		}
		w.Header().Set("ETag", etag)
		if strings.Contains(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		all.ServeHTTP(w, r)
	}), nil
}

func wantsAggregated(r *http.Request) bool {
	for clause := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, p, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil || media != jsonType {
			continue
		}
		if p["as"] == "" {
			return false
		}
		if p["as"] == "APIGroupDiscoveryList" && p["g"] == apidiscovery.GroupName && p["v"] == "v2" {
			return true
		}
	}
	return false
}

// subs are a kind's subresources: those that take the whole object, then the others.
func subs(k *registry.Kind) []registry.Subresource {
	var out []registry.Subresource
	for _, name := range []string{"ephemeralcontainers", "finalize", "resize", "status"} {
		if _, ok := k.Updates[name]; ok {
			verbs := []string{"get", "patch", "update"}
			if name == "finalize" {
				verbs = []string{"update"}
			}
			out = append(out, registry.Subresource{Name: name, GVK: k.GVK, Verbs: verbs})
		}
	}
	return append(out, k.Subresources...)
}

func resources(kinds []*registry.Kind) []metav1.APIResource {
	var out []metav1.APIResource
	for _, k := range kinds {
		out = append(out, metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.GVK.Kind,
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories,
		})
		for _, sub := range subs(k) {
			r := metav1.APIResource{Name: k.Resource + "/" + sub.Name, Namespaced: k.Namespaced, Kind: sub.GVK.Kind, Verbs: sub.Verbs}
			if sub.GVK.GroupVersion() != k.GroupVersion() {
				r.Group, r.Version = sub.GVK.Group, sub.GVK.Version
			}
			out = append(out, r)
		}
	}
	return out
}

func aggregated(kinds []*registry.Kind) []apidiscovery.APIResourceDiscovery {
	var out []apidiscovery.APIResourceDiscovery
	for _, k := range kinds {
		r := apidiscovery.APIResourceDiscovery{
			Resource: k.Resource, SingularResource: k.Singular, Scope: apidiscovery.ScopeCluster, ResponseKind: kindOf(k.GVK),
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories,
		}
		if k.Namespaced {
			r.Scope = apidiscovery.ScopeNamespace
		}
		for _, sub := range subs(k) {
			r.Subresources = append(r.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: sub.Name, ResponseKind: kindOf(sub.GVK), Verbs: sub.Verbs,
			})
		}
		out = append(out, r)
	}
	return out
}

func kindOf(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
