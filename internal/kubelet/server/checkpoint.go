package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkpoint has the runtime write a container's memory and files into an archive on the node, and answers with its path. The
// runtime decides whether that is possible: it needs CRIU.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	pod := s.pod(w, r)
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	if containerOf(pod, name) == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("container %v does not exist", name))
		return
	}
	var limit int64
	if values := r.URL.Query()["timeout"]; len(values) > 0 {
		var err error
		if limit, err = strconv.ParseInt(values[len(values)-1], 10, 64); err != nil {
			fail(w, http.StatusNotFound, "cannot parse value of timeout parameter")
			return
		}
	}
	id, err := s.running(r.Context(), pod, name)
	if err == nil && id == "" {
		err = fmt.Errorf("container %v not found", name)
	}
	file := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, name, time.Now().Format(time.RFC3339))
	location := filepath.Join(s.cfg.Checkpoints, file)
	if err == nil {
		err = s.cfg.Runtime.CheckpointContainer(r.Context(), &runtimev1.CheckpointContainerRequest{ContainerId: id, Location: location, Timeout: limit})
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("checkpointing of %v/%v/%v failed (%v)", pod.Namespace, pod.Name, name, err))
		return
	}
	writeJSON(w, map[string][]string{"items": {location}})
}

// allocatedPods answers with what the kubelet has granted each pod, which differs from the API's while a pod is being resized.
func (s *Server) allocatedPods(w http.ResponseWriter, _ *http.Request) {
	list := podList()
	for _, p := range s.granted() {
		list.Items = append(list.Items, *bare(p))
	}
	writeJSON(w, list)
}

func (s *Server) allocatedPod(w http.ResponseWriter, r *http.Request) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	for _, p := range s.granted() {
		if p.Namespace == namespace && p.Name == name && (uid == "" || uid == string(p.UID)) {
			out := bare(p)
			out.APIVersion, out.Kind = "v1", "Pod"
			writeJSON(w, out)
			return
		}
	}
	fail(w, http.StatusNotFound, "pod not found")
}

func (s *Server) granted() []*v1.Pod {
	if s.cfg.Granted != nil {
		return s.cfg.Granted()
	}
	return s.cfg.Pods.Pods()
}

// bare is a pod without its status, which does not belong to the grant.
func bare(p *v1.Pod) *v1.Pod {
	out := *p
	out.Status = v1.PodStatus{}
	return &out
}
