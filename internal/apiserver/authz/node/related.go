package node

import (
	"iter"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry/podspec"
	"podo.dev/podo/internal/view"
)

var (
	pods            = schema.GroupResource{Resource: "pods"}
	claims          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
	attachments     = schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattachments"}
	resourceSlices  = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}
	podCertificates = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}
)

// related answers what an object has to do with a node:
//
//	secret, configmap, service account, claim ◄─ pod ─► node
//	secret ◄─ volume ─► claim ◄─ pod ─► node
//
// A mirror pod leads nowhere but to its node: a kubelet makes those itself.
type related struct {
	now  view.Snapshot
	node string
}

func (r *related) pod(namespace, name string) bool {
	e := r.now.Get(pods, namespace, name)
	return e != nil && e.Object.(*v1.Pod).Spec.NodeName == r.node
}

// onNode are the node's pods in a namespace ("" for all) that may refer to other objects.
func (r *related) onNode(namespace string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for e := range r.now.By(pods, "spec.nodeName", r.node) {
			p := e.Object.(*v1.Pod)
			if _, mirror := p.Annotations[v1.MirrorPodAnnotationKey]; mirror || namespace != "" && p.Namespace != namespace {
				continue
			}
			if !yield(p) {
				return
			}
		}
	}
}

func (r *related) any(namespace string, is func(*v1.Pod) bool) bool {
	for p := range r.onNode(namespace) {
		if is(p) {
			return true
		}
	}
	return false
}

func (r *related) secret(namespace, name string) bool {
	return r.any(namespace, func(p *v1.Pod) bool { return podspec.UsesSecret(p, name) }) || r.volumeSecret(namespace, name)
}

func (r *related) configMap(namespace, name string) bool {
	return r.any(namespace, func(p *v1.Pod) bool { return podspec.UsesConfigMap(p, name) })
}

func (r *related) serviceAccount(namespace, name string) bool {
	return r.any(namespace, func(p *v1.Pod) bool { return p.Spec.ServiceAccountName == name })
}

func (r *related) resourceClaim(namespace, name string) bool {
	return r.any(namespace, func(p *v1.Pod) bool { return usesResourceClaim(p, name) })
}

func (r *related) claim(namespace, name string) bool {
	return r.any(namespace, func(p *v1.Pod) bool {
		for c := range claimsOf(p) {
			if c == name {
				return true
			}
		}
		return false
	})
}

// volume: bound to a claim of the node's pods.
func (r *related) volume(_, name string) bool {
	e := r.now.Get(volumes, "", name)
	if e == nil {
		return false
	}
	ref := e.Object.(*v1.PersistentVolume).Spec.ClaimRef
	return ref != nil && r.claim(ref.Namespace, ref.Name)
}

// volumeSecret: needed on the node by a volume of its pods.
func (r *related) volumeSecret(namespace, name string) bool {
	return r.any("", func(p *v1.Pod) bool {
		for c := range claimsOf(p) {
			e := r.now.Get(claims, p.Namespace, c)
			if e == nil {
				continue
			}
			pv := r.now.Get(volumes, "", e.Object.(*v1.PersistentVolumeClaim).Spec.VolumeName)
			if pv == nil {
				continue
			}
			v := pv.Object.(*v1.PersistentVolume)
			if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == p.Namespace && ref.Name == c && volumeUsesSecret(v, namespace, name) {
				return true
			}
		}
		return false
	})
}

// The kinds below are in groups that may not be served; then nothing is related.

func (r *related) attachment(_, name string) bool {
	e := r.now.Get(attachments, "", name)
	return e != nil && e.Object.(*storagev1.VolumeAttachment).Spec.NodeName == r.node
}

func (r *related) resourceSlice(_, name string) bool {
	e := r.now.Get(resourceSlices, "", name)
	if e == nil {
		return false
	}
	n := e.Object.(*resourcev1.ResourceSlice).Spec.NodeName
	return n != nil && *n == r.node
}

func (r *related) podCertificate(namespace, name string) bool {
	e := r.now.Get(podCertificates, namespace, name)
	return e != nil && string(e.Object.(*certificatesv1.PodCertificateRequest).Spec.NodeName) == r.node
}
