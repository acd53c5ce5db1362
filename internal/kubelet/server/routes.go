package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/healthz/", s.healthz)
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/", s.pods)
	mux.HandleFunc("GET /runningpods/", s.runningPods)
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
	for path, h := range s.cfg.Extra {
		mux.Handle(path, h)
	}
	return mux
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.cfg.Healthy(); err != nil {
		http.Error(w, "healthz check failed: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte("ok"))
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
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
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
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
	pod, id, ok := s.target(w, r)
	if !ok {
		return
	}
	stdout, stderr, code, err := s.cfg.Runtime.ExecSync(r.Context(), id, strings.Fields(r.FormValue("cmd")), 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	if code != 0 {
		w.WriteHeader(http.StatusInternalServerError)
		s.cfg.Log.Debug("a command ended with an error", "pod", pod.Name, "code", code)
	}
	_, _ = w.Write(append(stdout, stderr...))
}

// target finds the pod and its newest running container that a request names, or answers the request.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (*v1.Pod, string, bool) {
	pod := s.pod(w, r)
	if pod == nil {
		return nil, "", false
	}
	name := r.PathValue("container")
	found, err := s.cfg.Runtime.ListContainers(r.Context(), &runtimev1.ContainerFilter{
		State:         &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{labels.PodUID: string(pod.UID), labels.ContainerName: name},
	})
	if err != nil {
		writeError(w, err)
		return nil, "", false
	}
	var newest *runtimev1.Container
	for _, c := range found {
		if newest == nil || c.CreatedAt > newest.CreatedAt {
			newest = c
		}
	}
	if newest == nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusInternalServerError)
		return nil, "", false
	}
	return pod, newest.Id, true
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
