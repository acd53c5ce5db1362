package daemon

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/ship"
)

// shipTimeline tells the server what an agent's kubelet records, so that a pod's whole story is there (docs/decisions/0005).
func (a *agent) shipTimeline(ctx context.Context, ready func()) error {
	s, err := ship.NewSender(ship.SenderConfig{
		Recorder: a.timeline, File: a.dirs.path("timeline", "shipped"), Log: a.log.With("component", "timeline"),
		Post: func(ctx context.Context, records []timeline.Record) error {
			body, err := ship.Encode(records)
			if err != nil {
				return err
			}
			return a.api.HTTP().Post().AbsPath(ship.Path+a.cfg.NodeName).SetHeader("Content-Type", "application/jsonl").Body(body).Do(ctx).Error()
		},
	})
	if err != nil {
		return err
	}
	return s.Run(ctx, ready)
}

// shippedTimelines takes it.
func (s *server) shippedTimelines() (wire.Handler, error) {
	v, err := ship.NewReceiver(ship.ReceiverConfig{
		Recorder: s.timeline,
		Node: func(r *http.Request) (string, bool) {
			u, known, err := s.control.identity.authn.Known(r)
			if err != nil || !known {
				return "", false
			}
			return authz.NodeName(u)
		},
		Bound: s.nodeOf,
	})
	return wire.Handler{Path: ship.Path, Handler: v}, err
}

// nodeOf is where a pod runs. A static pod is known by its mirror, which has a UID of its own and names that of the pod.
func (s *server) nodeOf(ref timeline.PodRef) string {
	e := s.control.view.Snapshot().Get(client.Pods.At("", "").Resource, ref.Namespace, ref.Name)
	if e == nil {
		return ""
	}
	pod, ok := e.Object.(*v1.Pod)
	if !ok || string(pod.UID) != ref.UID && pod.Annotations[v1.MirrorPodAnnotationKey] != ref.UID {
		return ""
	}
	return pod.Spec.NodeName
}
