package disruption

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/budget"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var deployments = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}

// scales reads what controllers are to keep up from their subresource "scale". Behind a ReplicaSet it is its Deployment that counts.
func scales(s view.Snapshot) budget.Scales {
	return func(pod *v1.Pod, ref *metav1.OwnerReference) (budget.Scale, error) {
		e, k, err := find(s, pod.Namespace, ref)
		if e == nil || err != nil {
			return budget.Scale{}, err
		}
		if up := metav1.GetControllerOfNoCopy(e.Meta); up != nil && groupKind(up) == deployments && k.GVK.Kind == "ReplicaSet" {
			if e, k, err = find(s, pod.Namespace, up); e == nil || err != nil {
				return budget.Scale{}, err
			}
		}
		scale := k.Parts["scale"].Of(e.Object).(*autoscalingv1.Scale)
		return budget.Scale{UID: scale.UID, Replicas: scale.Spec.Replicas}, nil
	}
}

// find finds the object that is meant, nil when it is gone, and its kind, which has a scale.
func find(s view.Snapshot, namespace string, ref *metav1.OwnerReference) (*view.Entry, *registry.Kind, error) {
	for _, k := range registry.All() {
		if k.GVK.GroupKind() != groupKind(ref) || k.Served != nil {
			continue
		}
		if _, has := k.Parts["scale"]; !has {
			return nil, nil, fmt.Errorf("%s does not implement the scale subresource", k.GroupResource())
		}
		e := s.Get(k.GroupResource(), namespace, ref.Name)
		if e == nil || e.Meta.GetUID() != ref.UID {
			return nil, k, nil
		}
		return e, k, nil
	}
	return nil, nil, fmt.Errorf("no matches for kind %q in version %q", ref.Kind, ref.APIVersion)
}

func groupKind(ref *metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return gv.WithKind(ref.Kind).GroupKind()
}
