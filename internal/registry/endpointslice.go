package registry

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

func endpointSliceKind() *Kind {
	of := func(obj runtime.Object) *discoveryv1.EndpointSlice { return obj.(*discoveryv1.EndpointSlice) }
	return &Kind{
		GVK:        discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		Resource:   "endpointslices",
		Singular:   "endpointslice",
		Namespaced: true,
		Dir:        "endpointslices",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		NewList:    func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(obj runtime.Object) { defaultEndpointSlice(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Generation = 1
			dropTopology(of(obj), nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateEndpointSlice(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			var out []string
			if of(obj).AddressType == discoveryv1.AddressTypeFQDN {
				out = []string{"spec.addressType: FQDN endpoints are deprecated"}
			}
			return append(out, endpointSliceWarnings(of(obj))...)
		},
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) {
				if s, was := of(obj), of(old); changedSlice(s, was) {
					s.Generation = was.Generation + 1
				}
				dropTopology(of(obj), of(old))
			},
			Validate:           func(obj, old runtime.Object) field.ErrorList { return validateEndpointSlice(of(obj), of(old)) },
			Warnings:           func(obj, _ runtime.Object) []string { return endpointSliceWarnings(of(obj)) },
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns:    endpointSliceColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			s := of(obj)
			return []any{s.Name, string(s.AddressType), slicePorts(s), sliceAddresses(s), age(s.CreationTimestamp, now)}
		},
		Indexes: map[string]func(runtime.Object) []string{
			SliceService: func(obj runtime.Object) []string {
				if name := of(obj).Labels[discoveryv1.LabelServiceName]; name != "" {
					return []string{of(obj).Namespace + "/" + name}
				}
				return nil
			},
		},
	}
}

// SliceService is the index of EndpointSlices by the Service that they belong to, as namespace/name.
const SliceService = "service"

func defaultEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(v1.ProtocolTCP)
		}
	}
}

// changedSlice compares all but the metadata, and of that the labels.
func changedSlice(s, old *discoveryv1.EndpointSlice) bool {
	return s.AddressType != old.AddressType || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) ||
		!equality.Semantic.DeepEqual(s.Ports, old.Ports) || !equality.Semantic.DeepEqual(s.Labels, old.Labels)
}

// dropTopology drops a field that only v1beta1 could write. What an endpoint's node was by it is kept when a client that knows no
// nodeName writes the endpoint back.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	var nodes []string
	if old != nil {
		if equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
			return
		}
		for i := range old.Endpoints {
			nodes = append(nodes, old.Endpoints[i].DeprecatedTopology[v1.LabelHostname])
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		node := e.DeprecatedTopology[v1.LabelHostname]
		if e.NodeName == nil && node != "" && slices.Contains(nodes, node) && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0 {
			e.NodeName = &node
		}
		e.DeprecatedTopology = nil
	}
}

// endpointSliceWarnings tells of addresses that are written oddly. The controllers' never are.
func endpointSliceWarnings(s *discoveryv1.EndpointSlice) []string {
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return nil
	}
	var out []string
	for i := range s.Endpoints {
		for j, a := range s.Endpoints[i].Addresses {
			if netutils.ParseIPSloppy(a) != nil {
				out = append(out, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
			}
		}
	}
	return out
}

func endpointSliceColumns() []metav1.TableColumnDefinition {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	column := func(name, field string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: doc[field]}
	}
	return []metav1.TableColumnDefinition{
		nameColumn, column("AddressType", "addressType"), column("Ports", "ports"), column("Endpoints", "endpoints"), ageColumn,
	}
}

func slicePorts(s *discoveryv1.EndpointSlice) string {
	list := make([]string, len(s.Ports))
	for i, p := range s.Ports {
		switch {
		case p.Port != nil:
			list[i] = strconv.Itoa(int(*p.Port))
		case p.Name != nil:
			list[i] = *p.Name
		default:
			list[i] = "*"
		}
	}
	return orUnset(firstFew(list))
}

func sliceAddresses(s *discoveryv1.EndpointSlice) string {
	var list []string
	for i := range s.Endpoints {
		list = append(list, s.Endpoints[i].Addresses...)
	}
	return orUnset(firstFew(list))
}

func orUnset(s string) string { return cmp.Or(s, "<unset>") }
