package registry

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// validateIngress judges an Ingress whole; old is nil on create. What an older server let in may stay: names of Secrets, and what the
// rules for wildcards say.
func validateIngress(in, old *networkingv1.Ingress) field.ErrorList {
	var e check.Errors
	var was networkingv1.IngressSpec
	if old != nil {
		was = old.Spec
	}
	spec := &in.Spec
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		e.Invalid(specPath, spec.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if spec.DefaultBackend != nil {
		ingressBackend(&e, specPath.Child("defaultBackend"), spec.DefaultBackend)
	}
	ingressRules(&e, specPath.Child("rules"), spec.Rules, slices.ContainsFunc(was.Rules, badWildcard))
	ingressTLS(&e, specPath.Child("tls"), spec.TLS, slices.ContainsFunc(was.TLS, func(t networkingv1.IngressTLS) bool { return len(badSecretName(t.SecretName)) > 0 }))
	if c := spec.IngressClassName; c != nil {
		e.ObjectName(specPath.Child("ingressClassName"), *c, false)
	}
	if v, set := in.Annotations[IngressClassAnnotation]; old == nil && set && spec.IngressClassName != nil && v != *spec.IngressClassName {
		e.Invalid(field.NewPath("annotations").Child(IngressClassAnnotation), v, "must match `ingressClassName` when both are specified")
	}
	return e.List()
}

func ingressRules(e *check.Errors, p *field.Path, rules []networkingv1.IngressRule, anyWildcard bool) {
	for i, r := range rules {
		at := p.Index(i)
		if r.Host != "" {
			notAnIP(e, at.Child("host"), r.Host)
			ingressHost(e, at.Child("host"), r.Host)
		}
		if !anyWildcard || !strings.Contains(r.Host, "*") {
			ingressPaths(e, at.Child("http"), r.HTTP)
		}
	}
}

// badWildcard says that a rule for a wildcard breaks today's rules.
func badWildcard(r networkingv1.IngressRule) bool {
	var e check.Errors
	ingressPaths(&e, field.NewPath("http"), r.HTTP)
	return strings.Contains(r.Host, "*") && len(e.List()) > 0
}

func ingressHost(e *check.Errors, p *field.Path, host string) {
	if strings.Contains(host, "*") {
		e.Each(p, host, validation.IsWildcardDNS1123Subdomain(host))
		return
	}
	e.Subdomain(p, host)
}

func notAnIP(e *check.Errors, p *field.Path, host string) {
	if netutils.ParseIPSloppy(host) != nil {
		e.Invalid(p, host, "must be a DNS name, not an IP address")
	}
}

func ingressPaths(e *check.Errors, p *field.Path, http *networkingv1.HTTPIngressRuleValue) {
	if http == nil {
		return
	}
	if len(http.Paths) == 0 {
		e.Required(p.Child("paths"), "")
	}
	for i := range http.Paths {
		ingressPath(e, p.Child("paths").Index(i), &http.Paths[i])
	}
}

// What a path that is compared by its segments must not contain, and must not end with.
var (
	oddInPath  = []string{"//", "/./", "/../", "%2f", "%2F"}
	oddPathEnd = []string{"/..", "/."}
)

func ingressPath(e *check.Errors, p *field.Path, path *networkingv1.HTTPIngressPath) {
	if path.PathType == nil {
		e.Required(p.Child("pathType"), "pathType must be specified")
		return
	}
	const exact, prefix, other = networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific
	check.OneOf(e, p.Child("pathType"), *path.PathType, exact, other, prefix)
	at, bySegment := p.Child("path"), *path.PathType == exact || *path.PathType == prefix
	if !strings.HasPrefix(path.Path, "/") && (bySegment || *path.PathType == other && path.Path != "") {
		e.Invalid(at, path.Path, "must be an absolute path")
	}
	if bySegment {
		for _, odd := range oddInPath {
			if strings.Contains(path.Path, odd) {
				e.Invalid(at, path.Path, fmt.Sprintf("must not contain '%s'", odd))
			}
		}
		for _, odd := range oddPathEnd {
			if strings.HasSuffix(path.Path, odd) {
				e.Invalid(at, path.Path, fmt.Sprintf("cannot end with '%s'", odd))
			}
		}
	}
	ingressBackend(e, p.Child("backend"), &path.Backend)
}

func ingressBackend(e *check.Errors, p *field.Path, b *networkingv1.IngressBackend) {
	switch {
	case b.Resource != nil && b.Service != nil:
		e.Invalid(p, "", "cannot set both resource and service backends")
	case b.Resource != nil:
		ingressReference(e, e, p.Child("resource"), b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name)
	case b.Service != nil:
		ingressService(e, p, b.Service)
	default:
		e.Invalid(p, "", "resource or service backend is required")
	}
}

func ingressService(e *check.Errors, p *field.Path, s *networkingv1.IngressServiceBackend) {
	at := p.Child("service")
	if s.Name == "" {
		e.Required(at.Child("name"), "")
	} else {
		e.Each(at.Child("name"), s.Name, apivalidation.NameIsDNSLabel(s.Name, false))
	}
	switch name, number := s.Port.Name, s.Port.Number; {
	case name != "" && number != 0:
		e.Invalid(p, "", "cannot set both port name & port number")
	case name != "":
		e.Each(at.Child("port", "name"), name, validation.IsValidPortName(name))
	case number != 0:
		e.Each(at.Child("port", "number"), number, validation.IsValidPortNum(int(number)))
	default:
		e.Required(p, "port name or number is required")
	}
}

func ingressTLS(e *check.Errors, p *field.Path, list []networkingv1.IngressTLS, anySecret bool) {
	for i, t := range list {
		for j, host := range t.Hosts {
			ingressHost(e, p.Index(i).Child("hosts").Index(j), host)
		}
		if !anySecret {
			e.Each(p.Index(i).Child("secretName"), t.SecretName, badSecretName(t.SecretName))
		}
	}
}

// badSecretName says what is wrong with the name of a Secret; none at all is good.
func badSecretName(name string) []string {
	if name == "" {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

// validateIngressStatus: addresses that were stored before may be written as they were.
func validateIngressStatus(s, old *networkingv1.IngressStatus) field.ErrorList {
	var e check.Errors
	var stored []string
	for _, in := range old.LoadBalancer.Ingress {
		if in.IP != "" {
			stored = append(stored, in.IP)
		}
	}
	for i, in := range s.LoadBalancer.Ingress {
		p := statusPath.Child("loadBalancer", "ingress").Index(i)
		if in.IP != "" {
			e.IP(p.Child("ip"), in.IP, stored)
		}
		if in.Hostname != "" {
			e.Subdomain(p.Child("hostname"), in.Hostname)
			notAnIP(&e, p.Child("hostname"), in.Hostname)
		}
	}
	return e.List()
}
