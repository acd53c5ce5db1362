package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// countable resources are whole numbers and known without a domain in their name.
var countable = []v1.ResourceName{
	"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
	"persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
}

// measured resources are known without a domain and have any quantity.
var measured = []v1.ResourceName{
	"cpu", "memory", "ephemeral-storage", "storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
	"requests.storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}

// IsHugePages says whether the resource is huge pages of some size.
func IsHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// IsNative says whether the resource belongs to Kubernetes: no domain, or kubernetes.io.
func IsNative(name v1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// IsExtended says whether the resource is one that a device plug-in or an administrator advertises.
func IsExtended(name v1.ResourceName) bool {
	if IsNative(name) || strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) {
		return false
	}
	// It must still be a qualified name when a quota prefixes it.
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// IsQuotaName says whether a quota knows the resource without a domain.
func IsQuotaName(name v1.ResourceName) bool {
	return slices.Contains(measured, name) && name != "storage" || slices.Contains(countable, name) || IsHugePages(name) ||
		strings.HasPrefix(string(name), v1.ResourceRequestsHugePagesPrefix)
}

// CanOvercommit says whether a limit may differ from the request.
func CanOvercommit(name v1.ResourceName) bool { return IsNative(name) && !IsHugePages(name) }

// ResourceName checks the name of any compute resource.
func (e *Errors) ResourceName(p *field.Path, name v1.ResourceName) bool {
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		e.Each(p, name, msgs)
		return false
	}
	if !strings.Contains(string(name), "/") && !slices.Contains(measured, name) && !slices.Contains(countable, name) &&
		!IsHugePages(name) && !strings.HasPrefix(string(name), v1.ResourceRequestsHugePagesPrefix) {
		e.Invalid(p, name, "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

// ContainerResourceName checks a name under a container's resources.
func (e *Errors) ContainerResourceName(p *field.Path, name v1.ResourceName) {
	e.ResourceName(p, name)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != "cpu" && name != "memory" && name != "ephemeral-storage" && !IsHugePages(name) {
			e.Invalid(p, name, "must be a standard resource for containers")
		}
	case !IsNative(name) && !IsExtended(name):
		e.Invalid(p, name, "doesn't follow extended resource name standard")
	}
}

// Quantity checks that the amount is not negative, and whole where only whole ones make sense.
func (e *Errors) Quantity(p *field.Path, name v1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		e.Invalid(p, q.String(), NotNegative)
	}
	if (slices.Contains(countable, name) || IsExtended(name)) && q.MilliValue()%1000 != 0 {
		e.Invalid(p, q, MustBeInteger)
	}
}

// HugePages checks that an amount of huge pages is a multiple of the page's size.
func (e *Errors) HugePages(p *field.Path, name v1.ResourceName, q resource.Quantity) {
	if !Divisible(name, q) {
		e.Invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
	}
}

// Divisible says whether an amount of huge pages is a multiple of the page's size, which is in the name.
func Divisible(name v1.ResourceName, q resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return false
	}
	return q.Value()%size.Value() == 0
}

// RoundUp brings amounts to thousandths, the finest that the API keeps.
func RoundUp(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}
