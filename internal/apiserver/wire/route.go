package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"podo.dev/podo/internal/about"
)

// DefaultVersion is the version of Kubernetes that is served, with Podo's name behind it, where clients allow one.
const DefaultVersion = "v1.37.2+podo"

// route fills the table of paths.
func (s *Server) route() error {
	s.routes = map[string]http.Handler{}
	v, err := s.version()
	if err != nil {
		return err
	}
	s.routes["/version"], s.routes["/version/"] = v, v
	s.routes["/metrics"] = promhttp.HandlerFor(about.Gatherer(s.c.Metrics, auditMetrics()), promhttp.HandlerOpts{})
	s.routes["/metrics/slis"] = s.metrics.checks
	for _, name := range []string{"healthz", "livez", "readyz"} {
		s.routes["/"+name] = s.health(name)
		s.below = append(s.below, Handler{Path: "/" + name + "/", Handler: s.health(name)})
	}
	if s.c.OpenAPI != nil {
		s.routes["/openapi/v2"], s.routes["/openapi/v3"] = s.c.OpenAPI, s.c.OpenAPI
		s.below = append(s.below, Handler{Path: "/openapi/v3/", Handler: s.c.OpenAPI})
	}
	documents, err := Discovery(s.c.Kinds, s.c.Advertise)
	if err != nil {
		return err
	}
	maps.Copy(s.routes, documents)
	for _, h := range s.c.Handlers {
		if h.Type != "" {
			h.Handler = got([]string{h.Type}, h.Handler.ServeHTTP)
		}
		if strings.HasSuffix(h.Path, "/") {
			s.below = append(s.below, h)
		} else {
			s.routes[h.Path] = h.Handler
		}
	}
	paths := []string{}
	for p := range s.routes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	index, err := json.MarshalIndent(map[string][]string{"paths": paths}, "", "  ")
	if err != nil {
		return err
	}
	s.routes["/"] = static(jsonType, index)
	s.routes["/index.html"] = s.routes["/"]
	return nil
}

// handler finds the handler of a path; the longest prefix wins.
func (s *Server) handler(path string) http.Handler {
	if h := s.routes[path]; h != nil {
		return h
	}
	var best *Handler
	for i := range s.below {
		h := &s.below[i]
		if strings.HasPrefix(path, h.Path) && (best == nil || len(h.Path) > len(best.Path)) {
			best = h
		}
	}
	if best != nil {
		return best.Handler
	}
	for _, of := range []string{"/api", "/.well-known/", "/openid/"} {
		if !strings.HasPrefix(path, of) || path == "/apis//" {
			continue
		}
		h := s.routes[strings.TrimRight(path, "/")]
		if h != nil && strings.HasSuffix(path, "//") {
			h = got(documents, h.ServeHTTP) // upstream's aggregator, which takes any method, does not see these
		}
		return h
	}
	return nil
}

// long says that a path of our own lasts as long as its client wants.
func (s *Server) long(r *http.Request) bool {
	for _, h := range s.c.Handlers {
		if h.Long != nil && (r.URL.Path == h.Path || strings.HasSuffix(h.Path, "/") && strings.HasPrefix(r.URL.Path, h.Path)) {
			return h.Long(r)
		}
	}
	return false
}

func (s *Server) version() (http.Handler, error) {
	told := about.Program(s.c.Version)
	// The API is that of this version, and compatible with the one before.
	told.EmulationMajor, told.EmulationMinor, told.MinCompatibilityMajor, told.MinCompatibilityMinor = "1", "37", "1", "36"
	b, err := json.MarshalIndent(told, "", "  ")
	if err != nil {
		return nil, err
	}
	return got([]string{jsonType}, static(jsonType, b).ServeHTTP), nil
}

// got refuses requests that upstream's router has no route for: every method but GET, and headers that name none of the
// document's media types.
func got(made []string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch sent, accept := r.Header.Get("Content-Type"), r.Header.Get("Accept"); {
		case r.Method != http.MethodGet:
			err = unrouted(http.StatusMethodNotAllowed)
		case sent != "" && !names(sent, made, ""):
			err = unroutedMedia(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
		case accept != "" && !names(accept, made, "*/*"):
			err = unroutedMedia(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(made, ", "))
		}
		if err != nil {
			writeError(w, r, err, nil)
			return
		}
		h(w, r)
	})
}

// static always answers a GET with the same bytes.
func static(contentType string, b []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeBody(w, r, http.StatusOK, contentType, &body{pieces: [][]byte{b}, size: len(b)})
	})
}

// ping is what an answer says.
var ping = Check{Name: "ping", Live: true, Check: func() error { return nil }}

// health serves /healthz, /livez or /readyz, and each check below it. A failed check is named, but its reason is only logged,
// since anyone may ask.
func (s *Server) health(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		only := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+name), "/")
		exclude := r.URL.Query()["exclude"]
		unknown := slices.Clone(exclude)
		var out strings.Builder
		failed, found := false, false
		if only == "" && strings.HasSuffix(r.URL.Path, "/") { // neither all checks nor one of them
			notFound(w)
			return
		}
		for _, c := range append([]Check{ping}, s.checks()...) {
			if !c.Live && name != "readyz" || only != "" && c.Name != only {
				continue
			}
			found = true
			unknown = slices.DeleteFunc(unknown, func(e string) bool { return e == c.Name })
			if slices.Contains(exclude, c.Name) {
				fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.Name)
				continue
			}
			err := c.Check()
			if only == "" {
				s.metrics.checks.Went(c.Name, name, err)
			}
			if err != nil {
				failed = true
				s.c.Logger.Info("a health check failed", "endpoint", name, "check", c.Name, "err", err)
				fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
			} else {
				fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
			}
		}
		if len(unknown) > 0 {
			slices.Sort(unknown)
			for i := range unknown {
				unknown[i] = strconv.Quote(unknown[i])
			}
			fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(slices.Compact(unknown), ","))
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache, private")
		_, verbose := r.URL.Query()["verbose"]
		switch {
		case !found:
			notFound(w)
		case failed:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "%s%s check failed\n", out.String(), name)
		case verbose:
			fmt.Fprintf(w, "%s%s check passed\n", out.String(), name)
		default:
			fmt.Fprint(w, "ok")
		}
	})
}

func (s *Server) checks() []Check {
	if s.c.Checks == nil {
		return nil
	}
	return s.c.Checks()
}
