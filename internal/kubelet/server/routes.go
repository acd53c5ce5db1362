package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/localclass"
)

// open adds what the read-only port serves too.
func (s *Server) open(mux *router) {
	s.health.routes(mux)
	mux.service("/pods").onlyJSON().route("GET", "", s.pods)
	stats := mux.service("/stats/").onlyJSON()
	if s.cfg.Summary != nil {
		stats.route("GET POST", "/summary", s.cfg.Summary)
	}
	s.metrics(mux)
	for path, h := range s.cfg.Extra {
		mux.Handle(path, h)
	}
}

// routes are the TLS port's.
func (s *Server) routes() *router {
	mux := newRouter(s.guard)
	s.open(mux)
	if s.cfg.LocalVolumes != nil {
		mux.service(localclass.Path).route("DELETE", "/{name}", s.cfg.LocalVolumes.ServeHTTP)
	}
	if s.cfg.Debugging.Off {
		for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/", "/debug/pprof/", "/logs/"} {
			mux.HandleFunc(path, closed("Debug endpoints are disabled."))
		}
		return mux
	}
	s.debugging(mux)
	s.guarded(mux)
	s.pages(mux)
	return mux
}

// guarded adds the endpoints that look into pods or act on them.
func (s *Server) guarded(mux *router) {
	const container, ofPod = "/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"
	mux.service("/run").route("POST", container, s.run).route("POST", ofPod, s.run)
	mux.service("/exec").route("GET POST", container, s.exec).route("GET POST", ofPod, s.exec)
	mux.service("/attach").route("GET POST", container, s.attach).route("GET POST", ofPod, s.attach)
	mux.service("/portForward").route("GET POST", "/{namespace}/{pod}", s.portForward).route("GET POST", "/{namespace}/{pod}/{uid}", s.portForward)
	mux.service("/containerLogs").route("GET", container, s.containerLogs)
	if s.cfg.Configz != nil {
		mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			writeJSON(w, map[string]any{"kubeletconfig": s.cfg.Configz()})
		})
	}
	mux.service("/allocatedPods").onlyJSON().route("GET", "", s.allocatedPods).
		route("GET", "/{namespace}/{pod}", s.allocatedPod).route("GET", "/{namespace}/{pod}/{uid}", s.allocatedPod)
	mux.service("/runningpods/").onlyJSON().route("GET", "", s.runningPods)
	mux.service("/checkpoint/").onlyJSON().route("POST", container, s.checkpoint)
}

func podList() v1.PodList {
	return v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := podList()
	for _, p := range s.cfg.Pods.Pods() {
		list.Items = append(list.Items, *p)
	}
	writeJSON(w, list)
}

// runningPods answers with what the runtime runs, and as much of it as the runtime knows: pods with a ready sandbox or a running
// container, newest first.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	sandboxes, err := s.cfg.Runtime.ListPodSandbox(r.Context(), &runtimev1.PodSandboxFilter{
		State: &runtimev1.PodSandboxStateValue{State: runtimev1.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	running, err := s.cfg.Runtime.ListContainers(r.Context(), &runtimev1.ContainerFilter{
		State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	type found struct {
		pod     v1.Pod
		created int64 // its newest sandbox, or its oldest container that runs where none is ready
	}
	pods := map[string]*found{}
	know := func(of map[string]string, created int64) *found {
		uid := of[labels.PodUID]
		if uid == "" {
			return nil // not the kubelet's
		}
		p := pods[uid]
		if p == nil {
			p = &found{created: created, pod: v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: of[labels.PodName], Namespace: of[labels.PodNamespace], UID: types.UID(uid),
			}}}
			pods[uid] = p
		}
		return p
	}
	for _, b := range sandboxes {
		if p := know(b.Labels, b.CreatedAt); p != nil {
			p.created = max(p.created, b.CreatedAt)
		}
	}
	for _, c := range running {
		if p := know(c.Labels, c.CreatedAt); p != nil {
			p.pod.Spec.Containers = append(p.pod.Spec.Containers, v1.Container{
				Name: c.Labels[labels.ContainerName], Image: c.GetImage().GetImage(),
			})
		}
	}
	newest := slices.SortedFunc(maps.Values(pods), func(a, b *found) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	list := podList()
	for _, p := range newest {
		list.Items = append(list.Items, p.pod)
	}
	writeJSON(w, list)
}

// run executes a command and returns its output as the body.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	id, ok := s.executable(w, r)
	if !ok {
		return
	}
	cmd := strings.Split(r.FormValue("cmd"), " ")
	stdout, stderr, code, err := s.cfg.Runtime.ExecSync(r.Context(), id, cmd, 0)
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), code, stderr)
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json") // as upstream, whatever the command wrote
	_, _ = w.Write(append(stdout, stderr...))
}

// target finds the pod and its newest running container that a request names, or answers the request.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (*v1.Pod, string, bool) {
	pod := s.pod(w, r)
	if pod == nil {
		return nil, "", false
	}
	if another(r, pod) {
		return pod, "", true // the container does not run here
	}
	id, err := s.running(r.Context(), pod, r.PathValue("container"))
	if err != nil {
		writeError(w, err)
		return nil, "", false
	}
	return pod, id, true
}

// another tells whether a request means another pod of the name, by its UID.
func another(r *http.Request, pod *v1.Pod) bool {
	uid := r.PathValue("uid")
	return uid != "" && uid != string(pod.UID)
}

// executable is target for who runs a command: the container must be there.
func (s *Server) executable(w http.ResponseWriter, r *http.Request) (id string, ok bool) {
	_, id, ok = s.target(w, r)
	if ok && id == "" {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", r.PathValue("container")))
	}
	return id, ok && id != ""
}

// running finds a pod's newest running container of a name; "" is none.
func (s *Server) running(ctx context.Context, pod *v1.Pod, name string) (string, error) {
	found, err := s.cfg.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{
		State:         &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{labels.PodUID: string(pod.UID), labels.ContainerName: name},
	})
	var newest *runtimev1.Container
	for _, c := range found {
		if newest == nil || c.CreatedAt > newest.CreatedAt {
			newest = c
		}
	}
	return newest.GetId(), err
}

// pod finds the pod that a request names, or answers the request.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) *v1.Pod {
	pod := s.cfg.Pods.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if pod == nil {
		fail(w, http.StatusNotFound, "pod does not exist")
	}
	return pod
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
