package oracle

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stripTimes removes the times that rules take from the clock.
func stripTimes(obj runtime.Object) {
	if pod, ok := obj.(*v1.Pod); ok {
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
}
