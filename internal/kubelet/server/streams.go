package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	tunnel "k8s.io/apiserver/pkg/util/proxy"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/streams"
)

// streamOptions reads which streams a client asks for. A terminal has no stderr of its own.
func streamOptions(r *http.Request) (streams.Options, error) {
	on := func(name string) bool { return r.FormValue(name) == "1" }
	o := streams.Options{Stdin: on("input"), Stdout: on("output"), Stderr: on("error"), TTY: on("tty")}
	if o.TTY {
		o.Stderr = false
	}
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return o, fmt.Errorf("you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	o, err := streamOptions(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	id, ok := s.executable(w, r)
	if !ok {
		return
	}
	to, err := s.cfg.Runtime.Exec(r.Context(), &runtimev1.ExecRequest{
		ContainerId: id, Cmd: r.URL.Query()["command"], Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
	})
	s.remoteCommand(w, r, "exec", o, to, err)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	o, err := streamOptions(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	pod, id, ok := s.target(w, r)
	if !ok {
		return
	}
	switch {
	case another(r, pod):
		fail(w, http.StatusInternalServerError, fmt.Sprintf("pod %s not found", fullName(pod)))
		return
	case id == "":
		fail(w, http.StatusInternalServerError, fmt.Sprintf("container %s not found in pod %s", r.PathValue("container"), fullName(pod)))
		return
	}
	// The container decides about its terminal, not the client.
	if c := containerOf(pod, r.PathValue("container")); c != nil {
		o.TTY = c.TTY
	}
	if o.TTY {
		o.Stderr = false
	}
	to, err := s.cfg.Runtime.Attach(r.Context(), &runtimev1.AttachRequest{
		ContainerId: id, Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
	})
	s.remoteCommand(w, r, "attach", o, to, err)
}

func (s *Server) remoteCommand(w http.ResponseWriter, r *http.Request, what string, o streams.Options, to string, err error) {
	location, ok := s.location(w, to, err)
	if !ok {
		return
	}
	if !wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		s.verbatim(location).ServeHTTP(w, r)
		return
	}
	s.requests.streams.WithLabelValues(what).Inc()
	streams.Handler{Location: location, Options: o}.ServeHTTP(w, r)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	ports, err := forwardPorts(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	pod := s.pod(w, r)
	if pod == nil {
		return
	}
	if another(r, pod) {
		fail(w, http.StatusNotFound, "pod not found")
		return
	}
	found, err := s.cfg.Runtime.ListPodSandbox(r.Context(), &runtimev1.PodSandboxFilter{
		State:         &runtimev1.PodSandboxStateValue{State: runtimev1.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labels.PodUID: string(pod.UID)},
	})
	if err != nil {
		writeError(w, err)
		return
	}
	var newest *runtimev1.PodSandbox
	for _, p := range found {
		if newest == nil || p.CreatedAt > newest.CreatedAt {
			newest = p
		}
	}
	if newest == nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("pod not found (%q)", fullName(pod)))
		return
	}
	to, err := s.cfg.Runtime.PortForward(r.Context(), &runtimev1.PortForwardRequest{PodSandboxId: newest.Id, Port: ports})
	location, ok := s.location(w, to, err)
	if !ok {
		return
	}
	h := s.verbatim(location)
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		s.requests.streams.WithLabelValues("portforward").Inc()
		h = tunnel.NewTunnelingHandler(h)
	}
	h.ServeHTTP(w, r)
}

// fullName is what a kubelet calls a pod.
func fullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// forwardPorts reads the ports that the old WebSocket protocol names in the query. SPDY names them per stream.
func forwardPorts(r *http.Request) ([]int32, error) {
	if !wsstream.IsWebSocketRequest(r) || wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		return nil, nil
	}
	values := r.URL.Query()["port"]
	if len(values) == 0 {
		return nil, fmt.Errorf("query parameter %q is required", "port")
	}
	var out []int32
	for _, v := range values {
		for p := range strings.SplitSeq(v, ",") {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unable to parse %q as a port: %w", v, err)
			}
			if n < 1 {
				return nil, fmt.Errorf("port %q must be > 0", v)
			}
			out = append(out, int32(n))
		}
	}
	return out, nil
}

// location reads the runtime's answer: where its streaming server waits for this one stream.
func (s *Server) location(w http.ResponseWriter, to string, err error) (*url.URL, bool) {
	if err != nil {
		writeError(w, err)
		return nil, false
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		http.Error(w, fmt.Sprintf("the runtime's streaming address %q cannot be read", to), http.StatusInternalServerError)
		return nil, false
	}
	return u, true
}

// verbatim hands an upgrade on to location as it came.
func (s *Server) verbatim(location *url.URL) http.Handler {
	return proxy.NewUpgradeAwareHandler(location, nil, false, true, responder{s})
}

// responder answers what the proxy could not hand on.
type responder struct{ s *Server }

func (r responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	r.s.cfg.Log.Warn("a stream could not be handed on to the runtime", "path", req.URL.Path, "err", err)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// writeError answers with a runtime's error under the status that fits.
func writeError(w http.ResponseWriter, err error) { _ = streaming.WriteError(err, w) }
