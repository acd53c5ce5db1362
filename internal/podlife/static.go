package podlife

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of static pods, which this node runs because a file or URL of its own says so. A mirror in the API has them too, and
// v1.MirrorPodAnnotationKey with the hash of the form that it shows.
const (
	SourceAnnotation = "kubernetes.io/config.source" // file or http; api or nothing on other pods
	HashAnnotation   = "kubernetes.io/config.hash"   // of the manifest
)

// Static tells whether a pod comes from a source of this node's own and not from the API.
func Static(p *v1.Pod) bool {
	source := p.Annotations[SourceAnnotation]
	return source != "" && source != "api"
}

// IsMirror tells whether a pod of the API only stands for a static one.
func IsMirror(p *v1.Pod) bool {
	_, ok := p.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}

// Mirrors tells whether a mirror shows this very form of a static pod.
func Mirrors(mirror, static *v1.Pod) bool {
	return mirror.Annotations[v1.MirrorPodAnnotationKey] == static.Annotations[HashAnnotation]
}

// HashUID tells whether a UID is a static pod's that states none: a hash, where the API gives UUIDs.
func HashUID(uid types.UID) bool { return !strings.Contains(string(uid), "-") }
