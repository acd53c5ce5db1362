// Package podspec is what the API accepts as a pod's spec, wherever it stands: in a Pod or in a workload's template; one file
// a theme. Package podfill fills what was left out and drops what a feature gate switches off. Both are pure. Field paths and
// message texts are upstream's; where upstream's path is odd (a "mountPropagation" without the mount's index), so is this one,
// because clients match on it.
//
// Order of a create: podfill.Default, podfill.Drop, Validate. Validate expects defaulted objects.
package podspec

import (
	"fmt"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
)

// validator checks one spec. The pod-wide facts that containers are checked against are set before the first container.
type validator struct {
	check.Errors
	o       Options
	spec    *v1.PodSpec
	volumes map[string]*v1.VolumeSource // the valid ones by name
	claims  sets.Set[string]            // names of spec.resourceClaims
}

// Validate checks a whole, defaulted spec; p is where it stands ("spec", "spec.template.spec").
func Validate(spec *v1.PodSpec, p *field.Path, o Options) field.ErrorList {
	if len(validate(spec, nil, o)) == 0 {
		return nil
	}
	return validate(spec, p, o)
}

func validate(spec *v1.PodSpec, p *field.Path, o Options) field.ErrorList {
	v := &validator{o: o, spec: spec, claims: sets.New[string]()}
	if spec.TerminationGracePeriodSeconds == nil {
		v.Required(child(p, "terminationGracePeriodSeconds"), "")
	}
	v.checkVolumes(child(p, "volumes"))
	v.resourceClaims(child(p, "resourceClaims"))
	v.mainContainers(child(p, "containers"))
	v.initContainers(child(p, "initContainers"))
	v.ephemeralContainers(child(p, "ephemeralContainers"))
	if gate.PodLevelResources {
		v.podResources(p)
	}
	v.hostNetworkPorts(child(p, "containers"))
	check.RequiredOneOf(&v.Errors, child(p, "restartPolicy"), spec.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	check.RequiredOneOf(&v.Errors, child(p, "dnsPolicy"), spec.DNSPolicy,
		v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	v.Add(metav1validation.ValidateLabels(spec.NodeSelector, child(p, "nodeSelector")))
	v.podSecurity(child(p, "securityContext"))
	if isTrue(spec.ShareProcessNamespace) && spec.HostPID {
		v.Invalid(child(p, "shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	v.affinity(child(p, "affinity"))
	v.dnsConfig(child(p, "dnsConfig"))
	for i, g := range spec.ReadinessGates {
		v.Qualified(child(item(child(p, "readinessGates"), i), "conditionType"), string(g.ConditionType))
	}
	v.schedulingGates(child(p, "schedulingGates"))
	v.spreadConstraints(child(p, "topologySpreadConstraints"))
	v.windowsHostProcess(p)
	v.userNamespace(p)
	v.hostnameOverride(child(p, "hostnameOverride"))
	v.names(p)
	v.tolerations(child(p, "tolerations"), spec.Tolerations)
	v.hostAliases(child(p, "hostAliases"))
	v.classes(p)
	v.os(p)
	if g := spec.SchedulingGroup; g != nil {
		v.schedulingGroup(child(p, "schedulingGroup"), g)
		if len(spec.EvictionResponders) > 0 {
			v.Forbidden(child(p, "schedulingGroup"), "may not be set when evictionResponders is set")
		}
	}
	v.evictionResponders(child(p, "evictionResponders"))
	v.fileKeyVolumes(p)
	return v.List()
}

// names checks the scalar fields that name something, and the deadline.
func (v *validator) names(p *field.Path) {
	s := v.spec
	if s.ServiceAccountName != "" {
		v.ObjectName(child(p, "serviceAccountName"), s.ServiceAccountName, false)
	}
	if s.DeprecatedServiceAccount != s.ServiceAccountName {
		v.Invalid(child(p, "deprecatedServiceAccount"), s.DeprecatedServiceAccount,
			fmt.Sprintf("must be the same as serviceAccountName: %q", s.ServiceAccountName))
	}
	if s.NodeName != "" {
		v.ObjectName(child(p, "nodeName"), s.NodeName, false)
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		v.Invalid(child(p, "activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if s.Hostname != "" {
		v.DNSLabel(child(p, "hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		v.DNSLabel(child(p, "subdomain"), s.Subdomain)
	}
}

// classes checks what refers to cluster-wide policy: priority, runtime, preemption, overhead.
func (v *validator) classes(p *field.Path) {
	s := v.spec
	if s.PriorityClassName != "" {
		v.ObjectName(child(p, "priorityClassName"), s.PriorityClassName, false)
	}
	if s.RuntimeClassName != nil {
		v.ObjectName(child(p, "runtimeClassName"), *s.RuntimeClassName, false)
	}
	if s.PreemptionPolicy != nil {
		check.RequiredOneOf(&v.Errors, child(p, "preemptionPolicy"), *s.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)
	}
	if s.Overhead != nil {
		v.resources(child(p, "overhead"), &v1.ResourceRequirements{Limits: s.Overhead}, v.ContainerResourceName)
	}
}

func (v *validator) schedulingGroup(p *field.Path, g *v1.PodSchedulingGroup) {
	if g.PodGroupName == nil {
		v.Invalid(child(p, "podGroupName"), g.PodGroupName, "must specify one of: `podGroupName`")
		return
	}
	v.ObjectName(child(p, "podGroupName"), *g.PodGroupName, false)
}

func (v *validator) evictionResponders(p *field.Path) {
	seen := sets.New[string]()
	if n := len(v.spec.EvictionResponders); n > 10 {
		v.Put(field.TooMany(p, n, 10))
	}
	for i, r := range v.spec.EvictionResponders {
		if r.Name == "" {
			v.Required(child(item(p, i), "name"), "")
		} else {
			v.Add(validation.IsDomainPrefixedKey(child(item(p, i), "name"), r.Name))
		}
		if seen.Has(r.Name) {
			v.Duplicate(item(p, i), r.Name)
		}
		seen.Insert(r.Name)
		switch {
		case r.Priority == nil:
			v.Required(child(item(p, i), "priority"), "")
		case *r.Priority < 0 || *r.Priority > 100000:
			v.Invalid(child(item(p, i), "priority"), *r.Priority, validation.InclusiveRangeError(0, 100000))
		}
	}
}

// resourceClaims checks the claims and remembers their names for containers to refer to.
func (v *validator) resourceClaims(p *field.Path) {
	seen := sets.New[string]()
	for i, c := range v.spec.ResourceClaims {
		at := item(p, i)
		if c.Name != "" {
			v.claims.Insert(c.Name)
		}
		if v.o.Mirror {
			v.Forbidden(field.NewPath(""), "static pods do not support resource claims")
			continue
		}
		switch {
		case c.Name == "":
			v.Required(child(at, "name"), "")
		case seen.Has(c.Name):
			v.Duplicate(child(at, "name"), c.Name)
		default:
			v.DNSLabel(child(at, "name"), c.Name)
			seen.Insert(c.Name)
		}
		if c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil {
			v.Invalid(at, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		}
		if c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil {
			v.Invalid(at, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if c.ResourceClaimName != nil {
			v.ObjectName(child(at, "resourceClaimName"), *c.ResourceClaimName, false)
		}
		if c.ResourceClaimTemplateName != nil {
			v.ObjectName(child(at, "resourceClaimTemplateName"), *c.ResourceClaimTemplateName, false)
		}
	}
}

// hostNetworkPorts: with the host's network, a port of the host is the container's.
func (v *validator) hostNetworkPorts(p *field.Path) {
	if !v.spec.HostNetwork {
		return
	}
	for i := range v.spec.Containers {
		for j, port := range v.spec.Containers[i].Ports {
			// A template's ports are defaulted only when its pods are created, so 0 passes there.
			if (v.o.IsPod || port.HostPort != 0) && port.HostPort != port.ContainerPort {
				v.Invalid(child(item(child(item(p, i), "ports"), j), "hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

func (v *validator) userNamespace(p *field.Path) {
	s := v.spec
	if !isFalse(s.HostUsers) {
		return
	}
	const why = "when `hostUsers` is false"
	if s.HostNetwork && !v.o.UserNamespaceHostNetwork {
		v.Forbidden(child(p, "hostNetwork"), why)
	}
	if s.HostPID {
		v.Forbidden(child(p, "HostPID"), why)
	}
	if s.HostIPC {
		v.Forbidden(child(p, "HostIPC"), why)
	}
	if v.o.UserNamespaceBlockDevices {
		return
	}
	for at, c := range WithPaths(s, p) {
		if len(c.VolumeDevices) > 0 {
			v.Forbidden(child(at, "volumeDevices"), why)
		}
	}
}

func (v *validator) hostnameOverride(p *field.Path) {
	h := v.spec.HostnameOverride
	if h == nil {
		return
	}
	if isTrue(v.spec.SetHostnameAsFQDN) {
		v.Forbidden(p, "may not be specified when setHostnameAsFQDN is true")
	}
	if v.spec.HostNetwork {
		v.Forbidden(p, "may not be specified when hostNetwork is true")
	}
	if len(*h) > 64 {
		v.TooLong(p, 64)
	}
	v.Subdomain(p, *h)
}

// claimNames checks the claims that a container refers to.
func (v *validator) claimNames(p *field.Path, claims []v1.ResourceClaim) {
	seen := sets.New[string]() // a claim's name, or name/request
	for i, c := range claims {
		at := item(p, i)
		if c.Name == "" {
			v.Required(at, "")
			continue
		}
		if seen.Has(c.Name) {
			v.Duplicate(at, c.Name)
		} else {
			v.claimRequest(at, c, seen)
		}
		if !v.claims.Has(c.Name) {
			err := field.NotFound(at, c.Name)
			err.Detail = "must be one of the names in pod.spec.resourceClaims"
			if v.claims.Len() == 0 {
				err.Detail += " which is empty"
			} else {
				err.Detail += fmt.Sprintf(": %s", join(sets.List(v.claims)))
			}
			v.Put(err)
		}
	}
}

func (v *validator) claimRequest(at *field.Path, c v1.ResourceClaim, seen sets.Set[string]) {
	key := c.Name
	if c.Request != "" {
		v.DNSLabel(child(at, "request"), c.Request)
		key += "/" + c.Request
	}
	if seen.Has(key) {
		v.Duplicate(at, key)
	} else if c.Request == "" {
		// The whole claim after one of its requests counts twice.
		for _, other := range sets.List(seen) {
			if name, _, ok := strings.Cut(other, "/"); ok && name == c.Name {
				v.Duplicate(at, c.Name)
			}
		}
	}
	seen.Insert(key)
}
