package server

import (
	"net/http"
	"slices"
	"strings"
)

// router is a mux that remembers its paths: for /statusz, and for the label of requests in metrics.
type router struct {
	*http.ServeMux
	paths []string
}

func newRouter() *router { return &router{ServeMux: http.NewServeMux()} }

// Handle adds a path, perhaps with a method before it.
func (m *router) Handle(pattern string, h http.Handler) {
	path := pattern
	if _, rest, ok := strings.Cut(pattern, " "); ok {
		path = rest
	}
	m.paths = append(m.paths, path)
	m.ServeMux.Handle(pattern, h)
}

// HandleFunc is Handle for a function.
func (m *router) HandleFunc(pattern string, h http.HandlerFunc) { m.Handle(pattern, h) }

// folders are the first parts of all paths.
func (m *router) folders() []string {
	var out []string
	for _, p := range m.paths {
		name, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		out = append(out, "/"+name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bucket names a path in metrics: its first part, for metrics its first two, "other" for what is not served.
func (m *router) bucket(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	name := parts[0]
	if !slices.Contains(m.folders(), "/"+name) {
		return "other"
	}
	if name == "metrics" && len(parts) > 1 {
		return name + "/" + parts[1]
	}
	return name
}
