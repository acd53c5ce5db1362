package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// router finds the handler of a request, and refuses the others the way upstream's server does, which knows paths and services.
//
// A path answers every method. A service answers everything below its root, for the methods of its routes. Each has its own
// guard, and an unknown path is reported to everybody.
type router struct {
	*http.ServeMux
	guard   func(http.Handler) http.Handler // nil: everybody may
	paths   []string                        // paths that are no services, in the order in which they were added
	buckets []string                        // first elements of all
}

func newRouter(guard func(http.Handler) http.Handler) *router {
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	return &router{ServeMux: http.NewServeMux(), guard: guard}
}

// Handle adds a path; one that ends with a slash stands for all below it.
func (m *router) Handle(path string, h http.Handler) {
	m.paths = append(m.paths, path)
	m.add(path, h)
}

// HandleFunc is Handle for a function.
func (m *router) HandleFunc(path string, h http.HandlerFunc) { m.Handle(path, h) }

func (m *router) add(path string, h http.Handler) {
	m.buckets = append(m.buckets, first(path))
	m.ServeMux.Handle(path, m.guard(h))
}

// service adds all below root. A root that ends with a slash is led to from the path without.
func (m *router) service(root string) *service {
	s := &service{root: root}
	m.add(root, s)
	if !strings.HasSuffix(root, "/") {
		m.add(root+"/", s)
	}
	return s
}

// folders are the first elements of the paths that are no services.
func (m *router) folders() []string {
	var out []string
	for _, p := range m.paths {
		out = append(out, "/"+first(p))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bucket names a path in metrics: its first element, for metrics its first two, "other" for what is not served.
func (m *router) bucket(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	name := parts[0]
	if name == "metrics" && len(parts) > 1 {
		name += "/" + parts[1]
		if !slices.Contains([]string{"metrics/cadvisor", "metrics/probes", "metrics/resource"}, name) {
			return "other"
		}
		return name
	}
	if !slices.Contains(m.buckets, name) {
		return "other"
	}
	return name
}

// first is the first element of a path.
func first(path string) string { return elements(path)[0] }

// elements are what stands between a path's slashes; one at its end says nothing.
func elements(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

// service answers for all below its root.
type service struct {
	root   string
	json   bool // all its answers are JSON: clients that do not accept that are refused
	routes []route
}

type route struct {
	parts   []string // {name} matches any element, {name...} the rest of the path, at least one element
	methods []string
	handler http.HandlerFunc
}

// onlyJSON refuses clients that do not accept JSON.
func (s *service) onlyJSON() *service {
	s.json = true
	return s
}

// route adds a path below the root, of methods that are separated by blanks.
func (s *service) route(methods, path string, h http.HandlerFunc) *service {
	s.routes = append(s.routes, route{elements(strings.TrimSuffix(s.root, "/") + path), strings.Fields(methods), h})
	return s
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := elements(r.URL.Path)
	i := slices.IndexFunc(s.routes, func(c route) bool { return c.matches(asked) })
	switch {
	case i < 0:
		fail(w, http.StatusNotFound, "404: Page Not Found")
	case !slices.Contains(s.routes[i].methods, r.Method):
		w.Header().Set("Allow", strings.Join(s.routes[i].methods, ", "))
		fail(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
	case s.json && !accepts(r, "application/json"):
		fail(w, http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: application/json")
	default:
		s.routes[i].fill(r, asked)
		s.routes[i].handler(w, r)
	}
}

func (c route) matches(asked []string) bool {
	for i, part := range c.parts {
		switch {
		case i == len(asked):
			return false
		case strings.HasSuffix(part, "...}"):
			return true
		case !strings.HasPrefix(part, "{") && part != asked[i]:
			return false
		}
	}
	return len(asked) == len(c.parts)
}

// fill gives the handler the values of its path's names.
func (c route) fill(r *http.Request, asked []string) {
	for i, part := range c.parts {
		if name, ok := strings.CutPrefix(part, "{"); ok && !strings.HasSuffix(part, "...}") {
			r.SetPathValue(strings.TrimSuffix(name, "}"), asked[i])
		}
	}
}

// accepts tells whether a client takes a media type.
func accepts(r *http.Request, want string) bool {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		if media = strings.TrimSpace(media); media == "*/*" || media == want {
			return true
		}
	}
	return false
}

// fail answers with the error text unchanged; http.Error would add a newline.
func fail(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, text)
}
