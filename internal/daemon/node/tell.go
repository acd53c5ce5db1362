package node

import (
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// append records a stage and wakes those who wait for a change of a container.
func (k *run) append(r timeline.Record) {
	k.c.Timeline.Append(r)
	if r.Stage == timeline.Container {
		k.bell.Ring()
	}
}

// event tells users about a container of a pod, or the pod itself.
func (k *run) event(pod *v1.Pod, container, eventType, reason, message string) {
	k.recorder.Event(reference(pod, container), eventType, reason, message)
}

// annotated sends an event about a pod whose annotations carry the same for programs.
func (k *run) annotated(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	k.recorder.AnnotatedEventf(reference(pod, ""), annotations, eventType, reason, "%s", message)
}

func reference(pod *v1.Pod, container string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
}

// nodeEvent sends an event about the node, with its UID once it is registered.
func (k *run) nodeEvent(eventType, reason, message string) {
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.c.Name}
	if k.node != nil {
		ref.UID = k.node.UID()
	}
	k.recorder.Event(ref, eventType, reason, message)
}

// fieldPath names a container in an event, as upstream does: spec.containers{name}.
func fieldPath(pod *v1.Pod, container string) string {
	if container == "" {
		return ""
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return "spec.initContainers{" + container + "}"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return "spec.ephemeralContainers{" + container + "}"
		}
	}
	return "spec.containers{" + container + "}"
}

// logger makes loggers of parts.
type logger struct{ *slog.Logger }

func (l logger) of(component string) *slog.Logger { return l.With("component", component) }
