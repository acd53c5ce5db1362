package control

import (
	"net/http"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/ship"
)

// shippedTimelines receives the records of agents' kubelets (docs/decisions/0005).
func (p *Plane) shippedTimelines() (wire.Handler, error) {
	v, err := ship.NewReceiver(ship.ReceiverConfig{
		Recorder: p.cfg.Timeline,
		Node: func(r *http.Request) (string, bool) {
			u, known, err := p.identity.authn.Known(r)
			if err != nil || !known {
				return "", false
			}
			return authz.NodeName(u)
		},
		Bound: p.nodeOf,
	})
	return wire.Handler{Path: ship.Path, Handler: v}, err
}

// nodeOf is the node of a pod. A static pod is found by its mirror, which has its own UID and carries the pod's.
func (p *Plane) nodeOf(ref timeline.PodRef) string {
	e := p.view.Snapshot().Get(client.Pods.At("", "").Resource, ref.Namespace, ref.Name)
	if e == nil {
		return ""
	}
	pod, ok := e.Object.(*v1.Pod)
	if !ok || string(pod.UID) != ref.UID && pod.Annotations[v1.MirrorPodAnnotationKey] != ref.UID {
		return ""
	}
	return pod.Spec.NodeName
}
