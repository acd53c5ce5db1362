package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/logs"
)

// logOptions reads log options from a query as the API does: a flag is on unless it says "false" or "0". Clients of the kubelet
// itself may also use the old name tail for tailLines, with the value "all".
func logOptions(q url.Values) (*v1.PodLogOptions, error) {
	switch tail := q.Get("tail"); tail {
	case "":
	case "all":
		q.Del("tailLines")
	default:
		q.Set("tailLines", tail)
	}
	flag := func(name string) bool {
		v, ok := q[name]
		return ok && (len(v) == 0 || !strings.EqualFold(v[0], "false") && v[0] != "0")
	}
	var errs []error
	number := func(name string) *int64 {
		if !q.Has(name) {
			return nil
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		errs = append(errs, err)
		return &n
	}
	o := &v1.PodLogOptions{
		Follow: flag("follow"), Previous: flag("previous"), Timestamps: flag("timestamps"),
		SinceSeconds: number("sinceSeconds"), TailLines: number("tailLines"), LimitBytes: number("limitBytes"),
	}
	if q.Has("sinceTime") {
		o.SinceTime = &metav1.Time{}
		errs = append(errs, o.SinceTime.UnmarshalQueryParameter(q.Get("sinceTime")))
	}
	if q.Has("stream") {
		stream := q.Get("stream")
		o.Stream = &stream
	}
	return o, errors.Join(errs...)
}

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	opts, err := logOptions(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, `{"message": "Unable to decode query."}`)
		return
	}
	if invalid(opts) {
		fail(w, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
		return
	}
	pod := s.cfg.Pods.Pod(namespace, name)
	if pod == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name))
		return
	}
	if containerOf(pod, container) == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, name))
		return
	}
	if opts.Stream != nil && *opts.Stream != v1.LogStreamAll {
		// PodLogsQuerySplitStreams is off by default.
		fail(w, http.StatusBadRequest,
			fmt.Sprintf("unable to return the given log stream: %q. Please enable PodLogsQuerySplitStreams feature gate in kubelet", *opts.Stream))
		return
	}
	full, err := logContainer(pod, container, opts.Previous)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	_, id, ok := strings.Cut(full, "://")
	if !ok {
		id = full
	}
	status, err := s.cfg.Runtime.ContainerStatus(r.Context(), id)
	if err != nil {
		s.cfg.Log.Debug("a container whose log was asked for is not known", "container", id, "err", err)
		fail(w, http.StatusBadRequest, fmt.Sprintf("unable to retrieve container logs for %s", full))
		return
	}
	o := logs.FromAPI(opts, time.Now())
	o.Unwatched = func(every time.Duration, err error) {
		s.cfg.Event(pod, container, v1.EventTypeWarning, "FailedWatch", fmt.Sprintf("what it writes reaches who follows its log within %v only: the log cannot be watched: %v", every, err))
	}
	s.serveLog(w, r, status, o)
}

func (s *Server) serveLog(w http.ResponseWriter, r *http.Request, status *runtimev1.ContainerStatus, o logs.Options) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var ended <-chan struct{}
	if o.Follow {
		ended = s.cfg.Ended(ctx, status.Id)
	}
	out := &body{w: w}
	err := s.logs.Read(ctx, status.GetLogPath(), o, ended, out, out)
	if err == nil {
		out.start()
		return
	}
	if errors.Is(err, context.Canceled) {
		return // the client has gone
	}
	s.cfg.Log.Warn("a container's log could not be read", "container", status.Id, "path", status.GetLogPath(), "err", err)
	if !out.started {
		fail(w, http.StatusBadRequest, err.Error())
	}
}

// body is a response that is text from its first byte on, and is flushed whenever the reader has caught up.
type body struct {
	w       http.ResponseWriter
	started bool
}

func (b *body) start() {
	if !b.started {
		b.started = true
		b.w.Header().Set("Content-Type", "text/plain")
	}
}

func (b *body) Write(p []byte) (int, error) { b.start(); return b.w.Write(p) }

func (b *body) Flush() error {
	b.start()
	return http.NewResponseController(b.w).Flush()
}

var _ io.Writer = (*body)(nil)

// invalid tells whether the options are such that the API server should have refused them.
func invalid(o *v1.PodLogOptions) bool {
	switch {
	case o.TailLines != nil && *o.TailLines < 0,
		o.LimitBytes != nil && *o.LimitBytes < 1,
		o.SinceSeconds != nil && *o.SinceSeconds < 1,
		o.SinceSeconds != nil && o.SinceTime != nil:
		return true
	case o.Stream == nil, *o.Stream == v1.LogStreamAll:
		return false
	}
	return *o.Stream != v1.LogStreamStdout && *o.Stream != v1.LogStreamStderr || o.TailLines != nil
}

// containerOf is a pod's container of a name, of whatever kind; nil when it has none.
func containerOf(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon); c.Name == name {
			return c
		}
	}
	return nil
}

// logContainer returns the id, with its runtime's prefix, of the container whose log is meant: the one that runs or ran last, or
// with previous the one before. Users see its errors as they are.
func logContainer(pod *v1.Pod, name string, previous bool) (string, error) {
	var status *v1.ContainerStatus
	for _, list := range [][]v1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == name && status == nil {
				status = &list[i]
			}
		}
	}
	if status == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	last, state := status.LastTerminationState.Terminated, status.State
	var id string
	switch {
	case previous:
		if last == nil || last.ContainerID == "" {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
		}
		id = last.ContainerID
	case state.Running != nil:
		id = status.ContainerID
	case state.Terminated != nil:
		// A container that never started has no log, but the one before it may.
		if id = state.Terminated.ContainerID; id == "" && last != nil {
			id = last.ContainerID
		}
		if id == "" {
			return "", fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
		}
	case last != nil:
		if id = last.ContainerID; id == "" {
			return "", fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
		}
	case state.Waiting != nil:
		why := state.Waiting.Reason
		switch why {
		case "ErrImagePull":
			why = "image can't be pulled"
		case "ImagePullBackOff":
			why = "trying and failing to pull image"
		}
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %v", name, pod.Name, why)
	default:
		return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	return id, nil
}
