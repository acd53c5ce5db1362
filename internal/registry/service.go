package registry

import (
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/service"
)

func serviceKind() *Kind {
	of := func(obj runtime.Object) *v1.Service { return obj.(*v1.Service) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Service"),
		Resource:         "services",
		Singular:         "service",
		ShortNames:       []string{"svc"},
		Categories:       []string{"all"},
		Namespaced:       true,
		Dir:              "services/specs",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &v1.Service{} },
		NewList:          func() runtime.Object { return &v1.ServiceList{} },
		ValidName:        apivalidation.NameIsDNSLabel,
		Default:          func(obj runtime.Object) { service.Default(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = v1.ServiceStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return service.Validate(of(obj), nil) },
		Warnings:         func(obj runtime.Object) []string { return service.Warnings(of(obj)) },
		Updates: map[string]Update{
			"": {
				Prepare:            func(obj, old runtime.Object) { service.PrepareUpdate(of(obj), of(old)) },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return service.ValidateUpdate(of(obj), of(old)) },
				Warnings:           func(obj, _ runtime.Object) []string { return service.Warnings(of(obj)) },
				Resets:             []string{"status"},
				AllowCreate:        true,
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return service.ValidateStatus(of(obj), of(old)) },
				Warnings:           func(obj, _ runtime.Object) []string { return service.StatusWarnings(of(obj)) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(metaFields(obj), "spec.clusterIP", of(obj).Spec.ClusterIP, "spec.type", string(of(obj).Spec.Type))
		},
		Indexes: map[string]func(runtime.Object) []string{
			NodePort: func(obj runtime.Object) []string {
				var out []string
				for _, n := range service.NodePorts(of(obj)) {
					out = append(out, strconv.Itoa(int(n)))
				}
				return out
			},
		},
		Subresources: []Subresource{proxyPart("ServiceProxyOptions")},
		Columns:      serviceColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			s := of(obj)
			kind, ip, external, ports, selector := service.Row(s)
			return []any{s.Name, kind, ip, external, ports, age(s.CreationTimestamp, now), selector}
		},
	}
}

// NodePort is the index of Services by the node ports that they hold.
const NodePort = "nodePort"

func serviceColumns() []metav1.TableColumnDefinition {
	doc := v1.ServiceSpec{}.SwaggerDoc()
	column := func(name, field string, priority int32) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority, Description: doc[field]}
	}
	return []metav1.TableColumnDefinition{
		nameColumn, column("Type", "type", 0), column("Cluster-IP", "clusterIP", 0), column("External-IP", "externalIPs", 0),
		column("Port(s)", "ports", 0), ageColumn, column("Selector", "selector", 1),
	}
}
