//lint:file-ignore SA1019 Endpoints are deprecated, and an API server still serves them.

package registry

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func endpointsKind() *Kind {
	of := func(obj runtime.Object) *v1.Endpoints { return obj.(*v1.Endpoints) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Endpoints"),
		Resource:         "endpoints",
		Singular:         "endpoints",
		ShortNames:       []string{"ep"},
		Namespaced:       true,
		Dir:              "services/endpoints",
		Verbs:            allVerbs,
		Deprecated:       "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		New:              func() runtime.Object { return &v1.Endpoints{} },
		NewList:          func() runtime.Object { return &v1.EndpointsList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { defaultEndpoints(of(obj)) },
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return validateEndpoints(of(obj)) },
		Warnings:         func(obj runtime.Object) []string { return endpointsWarnings(of(obj)) },
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				e := of(obj)
				// What an older server let in may stay.
				if errs := validateEndpoints(e); len(errs) > 0 && !equality.Semantic.DeepEqual(of(old).Subsets, e.Subsets) {
					return errs
				}
				return nil
			},
			Warnings:           func(obj, _ runtime.Object) []string { return endpointsWarnings(of(obj)) },
			AllowCreate:        true,
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Endpoints", Type: "string", Description: v1.Endpoints{}.SwaggerDoc()["subsets"]}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, shownEndpoints(of(obj)), age(of(obj).CreationTimestamp, now)}
		},
	}
}

func defaultEndpoints(e *v1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = v1.ProtocolTCP
			}
		}
	}
}

func validateEndpoints(ep *v1.Endpoints) field.ErrorList {
	var e check.Errors
	for i := range ep.Subsets {
		s, p := &ep.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			e.Required(p, "must specify `addresses` or `notReadyAddresses`")
		}
		for j := range s.Addresses {
			endpointAddress(&e, p.Child("addresses").Index(j), &s.Addresses[j])
		}
		for j := range s.NotReadyAddresses {
			endpointAddress(&e, p.Child("notReadyAddresses").Index(j), &s.NotReadyAddresses[j])
		}
		for j := range s.Ports {
			endpointPort(&e, p.Child("ports").Index(j), &s.Ports[j], len(s.Ports) > 1)
		}
	}
	return e.List()
}

func endpointAddress(e *check.Errors, p *field.Path, a *v1.EndpointAddress) {
	e.IP(p.Child("ip"), a.IP, nil)
	if a.Hostname != "" {
		e.DNSLabel(p.Child("hostname"), a.Hostname)
	}
	if a.NodeName != nil {
		e.ObjectName(p.Child("nodeName"), *a.NodeName, false)
	}
	e.EndpointIP(p.Child("ip"), a.IP)
}

func endpointPort(e *check.Errors, p *field.Path, port *v1.EndpointPort, needsName bool) {
	if port.Name != "" {
		e.DNSLabel(p.Child("name"), port.Name)
	} else if needsName {
		e.Required(p.Child("name"), "")
	}
	e.Each(p.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))
	check.RequiredOneOf(e, p.Child("protocol"), port.Protocol, v1.ProtocolSCTP, v1.ProtocolTCP, v1.ProtocolUDP)
	if port.AppProtocol != nil {
		e.Qualified(p.Child("appProtocol"), *port.AppProtocol)
	}
}

// endpointsWarnings tells of addresses that are written oddly. The endpoints controller's are never.
func endpointsWarnings(ep *v1.Endpoints) []string {
	if ep.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	addresses := func(p *field.Path, list []v1.EndpointAddress) {
		for i := range list {
			out = append(out, validation.GetWarningsForIP(p.Index(i).Child("ip"), list[i].IP)...)
		}
	}
	for i := range ep.Subsets {
		p := field.NewPath("subsets").Index(i)
		addresses(p.Child("addresses"), ep.Subsets[i].Addresses)
		addresses(p.Child("notReadyAddresses"), ep.Subsets[i].NotReadyAddresses)
	}
	return out
}

// shownAddresses is how many addresses a column has room for.
const shownAddresses = 3

// shownEndpoints are the first addresses that are ready, with their ports.
func shownEndpoints(ep *v1.Endpoints) string {
	if len(ep.Subsets) == 0 {
		return "<none>"
	}
	var list []string
	for i := range ep.Subsets {
		s := &ep.Subsets[i]
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 {
				list = append(list, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				list = append(list, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	return firstFew(list)
}

// firstFew is as much of a list as a column has room for, and how much there is more.
func firstFew(list []string) string {
	if more := len(list) - shownAddresses; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shownAddresses], ","), more)
	}
	return strings.Join(list, ",")
}
