//lint:file-ignore SA1019 sharing the bytes themselves takes the field: the functions copy.

package view

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func seconds(n int64) *int64 { return &n }

func alikePod(name, path string, toleration int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}},
			{Manager: "kubelet", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)}},
		}},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "v-" + name, VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: path}}},
			}}}},
			Tolerations: []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists, TolerationSeconds: seconds(toleration)}},
		},
	}
}

// Objects that are alike share memory, and every one says what it said before; an equal one is shared, an almost equal one is not.
func TestShare(t *testing.T) {
	var a alike
	share := func(p *v1.Pod) *v1.Pod {
		want := p.DeepCopy()
		a.share(p, p)
		if !equality.Semantic.DeepEqual(p, want) {
			t.Fatalf("%s says something else: %+v", p.Name, p)
		}
		return p
	}
	first, second := share(alikePod("a", "token", 300)), share(alikePod("b", "token", 300))
	if &first.ManagedFields[0].FieldsV1.Raw[0] != &second.ManagedFields[0].FieldsV1.Raw[0] ||
		first.Spec.Volumes[0].Projected != second.Spec.Volumes[0].Projected || &first.Spec.Tolerations[0] != &second.Spec.Tolerations[0] {
		t.Error("two pods alike share nothing")
	}
	if &first.ManagedFields[1].FieldsV1.Raw[0] == &second.ManagedFields[1].FieldsV1.Raw[0] {
		t.Error("what is owned of a status was remembered")
	}
	third := share(alikePod("c", "other", 200))
	if third.Spec.Volumes[0].Projected == first.Spec.Volumes[0].Projected || &third.Spec.Tolerations[0] == &first.Spec.Tolerations[0] {
		t.Error("what differs is shared")
	}
	for i := range 2 * maxFieldSets {
		p := alikePod("d", "token", 300)
		p.ManagedFields[0].FieldsV1.Raw = fmt.Appendf(nil, `{"f:spec":{"f:%d":{}}}`, i)
		share(p)
	}
	if len(a.fields) > maxFieldSets {
		t.Errorf("%d sets of fields are remembered", len(a.fields))
	}
}
