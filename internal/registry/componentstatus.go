//lint:file-ignore SA1019 ComponentStatus is deprecated, and an API server still serves it.

package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// componentStatusKind tells how the control plane's parts are.
func componentStatusKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("ComponentStatus"),
		Resource:   "componentstatuses",
		Singular:   "componentstatus",
		ShortNames: []string{"cs"},
		Verbs:      []string{"get", "list"},
		Unstored:   true,
		Computed:   true,
		Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
		New:        func() runtime.Object { return &v1.ComponentStatus{} },
		NewList:    func() runtime.Object { return &v1.ComponentStatusList{} },
		Default:    func(runtime.Object) {},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Status", Type: "string", Description: "Status of the component conditions"},
			{Name: "Message", Type: "string", Description: "Message of the component conditions"},
			{Name: "Error", Type: "string", Description: "Error of the component conditions"},
		},
		Row: func(obj runtime.Object, _ time.Time) []any {
			c := obj.(*v1.ComponentStatus)
			status, message, fault := "Unknown", "", ""
			for _, cond := range c.Conditions {
				if cond.Type != v1.ComponentHealthy {
					continue
				}
				status, message, fault = "Unhealthy", cond.Message, cond.Error
				if cond.Status == v1.ConditionTrue {
					status = "Healthy"
				}
				break
			}
			return []any{c.Name, status, message, fault}
		},
	}
}
