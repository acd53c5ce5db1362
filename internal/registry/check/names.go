package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/gate"
)

// Texts that several checks share.
const (
	NotNegative   = apivalidation.IsNegativeErrorMsg
	MustBeInteger = "must be an integer"
	FileMode      = "must be a number between 0 and 0777 (octal), both inclusive"
)

// DNSLabel checks for an RFC 1123 label.
func (e *Errors) DNSLabel(p *field.Path, v string) {
	if !good(v, validation.DNS1123LabelMaxLength, false) {
		e.Each(p, v, validation.IsDNS1123Label(v))
	}
}

// Subdomain checks for an RFC 1123 subdomain.
func (e *Errors) Subdomain(p *field.Path, v string) {
	if !good(v, validation.DNS1123SubdomainMaxLength, true) {
		e.Each(p, v, validation.IsDNS1123Subdomain(v))
	}
}

// ObjectName checks for the name of an object of most kinds; a prefix may end in a dash.
func (e *Errors) ObjectName(p *field.Path, v string, prefix bool) {
	e.Each(p, v, ObjectName(v, prefix))
}

// ObjectName says what is wrong with the name of an object of most kinds.
func ObjectName(v string, prefix bool) []string {
	if good(v, validation.DNS1123SubdomainMaxLength, true) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(v, prefix)
}

// good says that v is a label of RFC 1123, or several with dots between them. What is not may still be, as a prefix; the library's
// checks, by regular expressions, know that and say what is wrong.
func good(v string, longest int, dots bool) bool {
	before := byte('.')
	for i := range len(v) {
		c := v[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && before != '.':
		case c == '.' && dots && before != '.' && before != '-':
		default:
			return false
		}
		before = c
	}
	return before != '.' && before != '-' && len(v) <= longest
}

// Qualified checks for a name with an optional domain in front.
func (e *Errors) Qualified(p *field.Path, v string) { e.Each(p, v, validation.IsQualifiedName(v)) }

// NonNegative checks for zero or more.
func (e *Errors) NonNegative(p *field.Path, v int64) {
	if v < 0 {
		e.Invalid(p, v, NotNegative)
	}
}

// Positive checks for more than zero.
func (e *Errors) Positive(p *field.Path, v int64) {
	if v <= 0 {
		e.Invalid(p, v, "must be greater than zero")
	}
}

// Mode checks permission bits; nil passes.
func (e *Errors) Mode(p *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		e.Invalid(p, *mode, FileMode)
	}
}

// Port checks a number or a name of a port.
func (e *Errors) Port(p *field.Path, v intstr.IntOrString) {
	if v.Type == intstr.Int {
		e.Each(p, v.IntValue(), validation.IsValidPortNum(v.IntValue()))
		return
	}
	e.Each(p, v.StrVal, validation.IsValidPortName(v.StrVal))
}

// NoBacksteps checks that no element of the path is "..".
func (e *Errors) NoBacksteps(p *field.Path, v string) {
	if HasBackstep(v) {
		e.Invalid(p, v, "must not contain '..'")
	}
}

// HasBackstep says whether an element of the path is "..".
func HasBackstep(v string) bool { return slices.Contains(strings.Split(v, "/"), "..") }

// RelativePath checks for a path that stays below where it starts.
func (e *Errors) RelativePath(p *field.Path, v string) {
	if path.IsAbs(v) {
		e.Invalid(p, v, "must be a relative path")
	}
	e.NoBacksteps(p, v)
}

// ProjectedPath is RelativePath for files of projected volumes, which keep names starting with ".." to themselves.
func (e *Errors) ProjectedPath(p *field.Path, v string) {
	e.RelativePath(p, v)
	if strings.HasPrefix(v, "..") && !strings.HasPrefix(v, "../") {
		e.Invalid(p, v, "must not start with '..'")
	}
}

// IP checks an address; values that were stored before stay accepted however they are written.
func (e *Errors) IP(p *field.Path, v string, stored []string) {
	e.Add(validation.IsValidIPForLegacyField(p, v, gate.StrictIPCIDRValidation, stored))
}

// CIDR checks a network; values that were stored before stay accepted however they are written.
func (e *Errors) CIDR(p *field.Path, v string, stored []string) {
	e.Add(validation.IsValidCIDRForLegacyField(p, v, gate.StrictIPCIDRValidation, stored))
}

// StandardFinalizers checks that finalizers without a domain are upstream's own.
func (e *Errors) StandardFinalizers(p *field.Path, finalizers []string) {
	for i, f := range finalizers {
		e.StandardFinalizer(p.Index(i), f)
	}
}

// StandardFinalizer checks one finalizer's name.
func (e *Errors) StandardFinalizer(p *field.Path, f string) {
	switch f {
	case "kubernetes", "orphan", "foregroundDeletion":
		return
	}
	if !strings.Contains(f, "/") {
		e.Invalid(p, f, "name is neither a standard finalizer name nor is it fully qualified")
	}
}

// SignerName checks for domain.example/name: a domain of two labels or more, and a path of subdomains.
func (e *Errors) SignerName(p *field.Path, name string) {
	if name == "" {
		e.Required(p, "")
		return
	}
	domain, path, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(path, "/") {
		e.Invalid(p, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		e.TooLong(p, validation.DNS1123SubdomainMaxLength)
	}
	// The first bad label is reported; more would repeat it.
	labels := func(whole string, check func(string) []string) int {
		parts := strings.Split(whole, ".")
		for _, l := range parts {
			if msgs := check(l); len(msgs) > 0 {
				for _, m := range msgs {
					e.Invalid(p, whole, fmt.Sprintf("validating label %q: %s", l, m))
				}
				break
			}
		}
		return len(parts)
	}
	if labels(domain, validation.IsDNS1123Label) < 2 {
		e.Invalid(p, domain, "should be a domain with at least two segments separated by dots")
	}
	labels(path, validation.IsDNS1123Subdomain)
	if most := 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2; len(name) > most {
		e.TooLong(p, most)
	}
}

// KubernetesSigner says that a signer is upstream's: its domain is kubernetes.io or below.
func KubernetesSigner(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io")
}
