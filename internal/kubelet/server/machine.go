package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Debugging says which debugging endpoints are closed.
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
		mux.service("/logs/").route("GET", "", s.machineLogs).route("GET", "/{path...}", s.machineLogs)
	}
	if d.NoProfiling {
		mux.HandleFunc("/debug/pprof/", closed("profiling endpoint is disabled."))
	} else {
		mux.service("/debug/pprof/").route("GET", "", pprof.Index).route("GET", "/profile", pprof.Profile).route("GET", "/symbol", pprof.Symbol).
			route("GET", "/cmdline", pprof.Cmdline).route("GET", "/trace", pprof.Trace).route("GET", "/{path...}", pprof.Index)
	}
	if d.NoVerbosity || d.SetVerbosity == nil {
		mux.HandleFunc("/debug/flags/v", closed("flags endpoint is disabled."))
	} else {
		mux.HandleFunc("/debug/flags/v", s.setVerbosity)
	}
}

// machineLogs serves the machine's log folder. Links that lead out of it are refused; its folder "pods" stands for this node's
// pod logs, wherever they are.
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

// setVerbosity takes a new level of the log by PUT.
func (s *Server) setVerbosity(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, text string) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fail(w, code, text+"\n")
	}
	if r.Method != http.MethodPut {
		answer(http.StatusNotAcceptable, "unsupported http method")
		return
	}
	level, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	if err != nil {
		answer(http.StatusBadRequest, "error reading request body: "+err.Error())
		return
	}
	if _, err := strconv.ParseUint(string(level), 10, 32); err != nil {
		answer(http.StatusBadRequest, err.Error())
		return
	}
	if err := s.cfg.Debugging.SetVerbosity(string(level)); err != nil {
		answer(http.StatusBadRequest, fmt.Sprintf("failed set klog.logging.verbosity %s: %v", level, err))
		return
	}
	answer(http.StatusOK, "successfully set klog.logging.verbosity to "+string(level))
}
