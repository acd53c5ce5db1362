package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/", s.pods)
	s.metrics(mux)
	for path, h := range s.cfg.Extra {
		mux.Handle(path, h)
	}
}

// routes are the TLS port's.
func (s *Server) routes() *router {
	mux := newRouter()
	s.open(mux)
	if s.cfg.LocalVolumes != nil {
		mux.Handle("DELETE "+localclass.Path+"{name}", s.cfg.LocalVolumes)
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

// guarded adds what looks into pods or acts on them.
func (s *Server) guarded(mux *router) {
	mux.HandleFunc("GET /runningpods/", s.runningPods)
	mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", s.checkpoint)
	mux.HandleFunc("GET /allocatedPods", s.allocatedPods)
	mux.HandleFunc("GET /allocatedPods/{namespace}/{pod}", s.allocatedPod)
	mux.HandleFunc("GET /allocatedPods/{namespace}/{pod}/{uid}", s.allocatedPod)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, method := range []string{"GET ", "POST "} {
		for _, rest := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
			mux.HandleFunc(method+"/exec"+rest, s.exec)
			mux.HandleFunc(method+"/attach"+rest, s.attach)
		}
		for _, rest := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
			mux.HandleFunc(method+"/portForward"+rest, s.portForward)
		}
	}
	for _, rest := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
		mux.HandleFunc("POST /run"+rest, s.run)
	}
	if s.cfg.Configz != nil {
		mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]any{"kubeletconfig": s.cfg.Configz()})
		})
	}
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

// runningPods tells what the runtime runs, as far as the runtime knows it.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	running, err := s.cfg.Runtime.ListContainers(r.Context(), &runtimev1.ContainerFilter{
		State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := podList()
	index := map[string]int{}
	for _, c := range running {
		uid := c.Labels[labels.PodUID]
		if uid == "" {
			continue // not the kubelet's
		}
		i, ok := index[uid]
		if !ok {
			i = len(list.Items)
			index[uid] = i
			list.Items = append(list.Items, v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: c.Labels[labels.PodName], Namespace: c.Labels[labels.PodNamespace], UID: types.UID(uid),
			}})
		}
		list.Items[i].Spec.Containers = append(list.Items[i].Spec.Containers, v1.Container{
			Name: c.Labels[labels.ContainerName], Image: c.GetImage().GetImage(),
		})
	}
	writeJSON(w, list)
}

// run executes a command and returns its output as the body.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	_, id, ok := s.target(w, r)
	if !ok {
		return
	}
	cmd := strings.Split(r.FormValue("cmd"), " ")
	stdout, stderr, code, err := s.cfg.Runtime.ExecSync(r.Context(), id, cmd, 0)
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), code, stderr)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
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
	name := r.PathValue("container")
	id, err := s.running(r.Context(), pod, name)
	if err != nil {
		writeError(w, err)
		return nil, "", false
	}
	if id == "" {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusInternalServerError)
		return nil, "", false
	}
	return pod, id, true
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
	if uid := r.PathValue("uid"); pod == nil || uid != "" && uid != string(pod.UID) {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return nil
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
