package owning

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The same owner is never there twice, whatever it was before, and nobody else's reference is lost.
func TestTakeAndDrop(t *testing.T) {
	yes, no := true, false
	kind := v1.SchemeGroupVersion.WithKind("ReplicationController")
	who := &v1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc", UID: "rc"}}
	ref := func(uid types.UID, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ReplicationController", Name: string(uid), UID: uid, Controller: controller}
	}
	for name, tc := range map[string]struct {
		before []metav1.OwnerReference
		after  []types.UID // nil: not taken
	}{
		"nobody's":                        {nil, []types.UID{"rc"}},
		"another's, who does not control": {[]metav1.OwnerReference{ref("other", nil)}, []types.UID{"other", "rc"}},
		"its own, without controlling":    {[]metav1.OwnerReference{ref("rc", nil), ref("other", &no)}, []types.UID{"rc", "other"}},
		"its own, said not to control":    {[]metav1.OwnerReference{ref("other", nil), ref("rc", &no)}, []types.UID{"other", "rc"}},
		"another's":                       {[]metav1.OwnerReference{ref("other", &yes)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: slices.Clone(tc.before)}}
			shared := pod.OwnerReferences
			if took := Take(pod, who, kind); took != (tc.after != nil) {
				t.Fatalf("taken: %v", took)
			}
			if !slices.EqualFunc(shared, tc.before, same) {
				t.Errorf("the list of before was changed: %v", shared)
			}
			if tc.after == nil {
				return
			}
			var uids []types.UID
			for _, r := range pod.OwnerReferences {
				uids = append(uids, r.UID)
			}
			if c := metav1.GetControllerOf(pod); !slices.Equal(uids, tc.after) || c == nil || c.UID != "rc" {
				t.Errorf("owners %v, controlled by %v; want %v", uids, c, tc.after)
			}
			if !Drop(pod, "rc") || slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == "rc" }) || Drop(pod, "rc") {
				t.Errorf("dropped: %v", pod.OwnerReferences)
			}
		})
	}
}

func same(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && (a.Controller == nil) == (b.Controller == nil) && (a.Controller == nil || *a.Controller == *b.Controller)
}
