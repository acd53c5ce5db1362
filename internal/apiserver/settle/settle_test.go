package settle_test

import (
	"encoding/json"
	"reflect"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/settle"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/codec"
)

// The answer to a write is what will be read: in JSON too, where an empty list may show.
func TestSettledIsWhatIsReadBack(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{}}}}}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{}}}}
	job := &batchv1.Job{Spec: batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{}}}}
	job.Spec.Template.Spec = *pod.Spec.DeepCopy()
	role := &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{}}}}
	node := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{TopologyKeys: []string{}}}}}
	for _, obj := range []runtime.Object{
		pod, job, role, node, &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{}}, &v1.LimitRange{Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{}}},
		&discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{}, Ports: []discoveryv1.EndpointPort{}},
	} {
		var k *registry.Kind
		for _, k = range registry.All() {
			if reflect.TypeOf(k.New()) == reflect.TypeOf(obj) {
				break
			}
		}
		obj.GetObjectKind().SetGroupVersionKind(k.GVK)
		value, err := codec.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.Decode(k, value, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := text(t, obj)
		settle.Object(obj)
		if got, want := text(t, obj), text(t, back); got != want || got == before {
			t.Errorf("%T was %s\nsettled it is %s\nread it is %s", obj, before, got, want)
		}
	}
}

func text(t *testing.T, obj runtime.Object) string {
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
