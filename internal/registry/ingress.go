package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IngressClassAnnotation is how an Ingress named its class before there was a field for it.
const IngressClassAnnotation = "kubernetes.io/ingress.class"

func ingressKind() *Kind {
	of := func(obj runtime.Object) *networkingv1.Ingress { return obj.(*networkingv1.Ingress) }
	return &Kind{
		GVK:        networkingv1.SchemeGroupVersion.WithKind("Ingress"),
		Resource:   "ingresses",
		Singular:   "ingress",
		ShortNames: []string{"ing"},
		Namespaced: true,
		Dir:        "ingress",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &networkingv1.Ingress{} },
		NewList:    func() runtime.Object { return &networkingv1.IngressList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = networkingv1.IngressStatus{}
			of(obj).Generation = 1
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateIngress(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			if _, set := of(obj).Annotations[IngressClassAnnotation]; set && of(obj).Spec.IngressClassName == nil {
				return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", IngressClassAnnotation)}
			}
			return nil
		},
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					in, was := of(obj), of(old)
					in.Status = *was.Status.DeepCopy()
					if !equality.Semantic.DeepEqual(in.Spec, was.Spec) {
						in.Generation = was.Generation + 1
					}
				},
				Validate:           func(obj, old runtime.Object) field.ErrorList { return validateIngress(of(obj), of(old)) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return validateIngressStatus(&of(obj).Status, &of(old).Status)
				},
				Warnings:           func(obj, _ runtime.Object) []string { return ingressStatusWarnings(&of(obj).Status) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Class", Type: "string", Description: "The name of the IngressClass resource that should be used for additional configuration"},
			{Name: "Hosts", Type: "string", Description: "Hosts that incoming requests are matched against before the ingress rule"},
			{Name: "Address", Type: "string", Description: "Address is a list containing ingress points for the load-balancer"},
			{Name: "Ports", Type: "string", Description: "Ports of TLS configurations that open"},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			in, class, ports := of(obj), "<none>", "80"
			if in.Spec.IngressClassName != nil {
				class = *in.Spec.IngressClassName
			}
			if len(in.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			return []any{in.Name, class, shownHosts(in.Spec.Rules), ingressAddresses(&in.Status), ports, age(in.CreationTimestamp, now)}
		},
	}
}

// shownHosts are the first hosts of the rules, and how many rules there are beyond as many as a column has room for.
func shownHosts(rules []networkingv1.IngressRule) string {
	var list []string
	for i, r := range rules {
		if len(list) == shownAddresses {
			return fmt.Sprintf("%s + %d more...", strings.Join(list, ","), len(rules)-shownAddresses)
		}
		if rules[i].Host != "" {
			list = append(list, r.Host)
		}
	}
	return cmp.Or(strings.Join(list, ","), "*")
}

func ingressAddresses(s *networkingv1.IngressStatus) string {
	var list []string
	for _, in := range s.LoadBalancer.Ingress {
		if a := cmp.Or(in.IP, in.Hostname); a != "" {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}

// ingressStatusWarnings tells of addresses that are written oddly.
func ingressStatusWarnings(s *networkingv1.IngressStatus) (out []string) {
	for i, in := range s.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(statusPath.Child("loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}
