// Package owning says in an object whose it is. It is pure.
package owning

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Take makes who the controller of an object; false: it has one. Who owns it already, without controlling it, stays one owner: references are
// merged by their UID, as upstream's controllers have the API server do it. The list that there was is left as it is.
func Take(of, who metav1.Object, kind schema.GroupVersionKind) bool {
	if metav1.GetControllerOfNoCopy(of) != nil {
		return false
	}
	refs := slices.Clone(of.GetOwnerReferences())
	ref := *metav1.NewControllerRef(who, kind)
	if i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	of.SetOwnerReferences(refs)
	return true
}

// Drop takes an owner away; false: it is none.
func Drop(of metav1.Object, who types.UID) bool {
	refs := of.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return r.UID == who })
	if len(left) == len(refs) {
		return false
	}
	if len(left) == 0 {
		left = nil
	}
	of.SetOwnerReferences(left)
	return true
}
