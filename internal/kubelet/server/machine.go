package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
)

// Debugging says which paths for people who look for a fault are closed.
type Debugging struct {
	Off          bool // all of them, and streams and logs too (enableDebuggingHandlers: false)
	NoLogs       bool
	NoProfiling  bool
	NoVerbosity  bool
	SetVerbosity func(level string) error // of the log; nil: it cannot be changed
}

// closed answers for a path that is off.
func closed(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, why, http.StatusMethodNotAllowed) }
}

// debugging adds /logs/ and /debug/.
func (s *Server) debugging(mux *router) {
	d := s.cfg.Debugging
	if d.NoLogs {
		mux.HandleFunc("/logs/", closed("logs endpoint is disabled."))
	} else {
		mux.HandleFunc("GET /logs/", s.machineLogs)
	}
	if d.NoProfiling {
		mux.HandleFunc("/debug/pprof/", closed("profiling endpoint is disabled."))
	} else {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	if d.NoVerbosity || d.SetVerbosity == nil {
		mux.HandleFunc("/debug/flags/v", closed("flags endpoint is disabled."))
	} else {
		mux.HandleFunc("PUT /debug/flags/v", s.setVerbosity)
	}
}

// machineLogs serves the machine's log folder. Links that lead out of it are refused; its folder "pods" is where this node's pods log,
// wherever that is.
func (s *Server) machineLogs(w http.ResponseWriter, r *http.Request) {
	dir, prefix := s.cfg.LogDir, "/logs"
	pods := prefix + "/" + filepath.Base(s.cfg.PodLogs)
	if s.cfg.PodLogs != "" && (r.URL.Path == pods || strings.HasPrefix(r.URL.Path, pods+"/")) {
		dir, prefix = s.cfg.PodLogs, pods
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	defer func() { _ = root.Close() }()
	http.StripPrefix(prefix, http.FileServerFS(root.FS())).ServeHTTP(w, r)
}

func (s *Server) setVerbosity(w http.ResponseWriter, r *http.Request) {
	var level string
	if _, err := fmt.Fscan(http.MaxBytesReader(w, r.Body, 100), &level); err != nil {
		http.Error(w, "error reading request body: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.cfg.Debugging.SetVerbosity(level); err != nil {
		http.Error(w, "error setting verbosity: "+err.Error(), http.StatusBadRequest)
		return
	}
	writeText(w, "successfully set klog.logging.verbosity to "+level)
}
