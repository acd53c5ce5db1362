//lint:file-ignore SA1019 sharing the bytes themselves takes the field: the functions copy.

package view

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// alike keeps once what many objects have in common. Objects that are published never change, so that they may share it: of a thousand
// pods of one template the owned fields, the volume with the account's token and the tolerations are a third.
type alike struct {
	mu     sync.Mutex
	fields map[string][]byte // sets of owned fields, by their own bytes
	tokens *v1.ProjectedVolumeSource
	taints []v1.Toleration
}

// maxFieldSets bounds what is remembered: then it begins anew.
const maxFieldSets = 1000

// share gives a new object what an earlier one has already.
func (a *alike) share(obj runtime.Object, m metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	managed := m.GetManagedFields()
	for i := range managed {
		// What a kubelet owns of a status is not like another pod's: addresses are in it.
		if f := managed[i].FieldsV1; f != nil && managed[i].Subresource == "" {
			f.Raw = a.owned(f.Raw)
		}
	}
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	for i := range pod.Spec.Volumes {
		p := pod.Spec.Volumes[i].Projected
		switch {
		case p == nil:
		case a.tokens != nil && equality.Semantic.DeepEqual(p, a.tokens):
			pod.Spec.Volumes[i].Projected = a.tokens
		default:
			a.tokens = p
		}
	}
	switch {
	case len(pod.Spec.Tolerations) == 0:
	case slices.EqualFunc(pod.Spec.Tolerations, a.taints, sameToleration):
		pod.Spec.Tolerations = a.taints
	default:
		a.taints = slices.Clip(pod.Spec.Tolerations)
	}
}

func (a *alike) owned(raw []byte) []byte {
	if known, ok := a.fields[string(raw)]; ok {
		return known
	}
	if a.fields == nil || len(a.fields) >= maxFieldSets {
		a.fields = map[string][]byte{}
	}
	a.fields[string(raw)] = raw
	return raw
}

func sameToleration(a, b v1.Toleration) bool {
	if a.TolerationSeconds != b.TolerationSeconds && (a.TolerationSeconds == nil || b.TolerationSeconds == nil || *a.TolerationSeconds != *b.TolerationSeconds) {
		return false
	}
	a.TolerationSeconds, b.TolerationSeconds = nil, nil
	return a == b
}
