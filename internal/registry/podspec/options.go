package podspec

import (
	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
)

// Options say what is tolerated because the stored object already has it: a rule that came later must not make old objects
// uneditable. OptionsFor computes them; the zero value is the strictest, for templates being created.
type Options struct {
	// IsPod says that the spec is a Pod's own, not a template's.
	IsPod bool
	// PodName, when known, is what generic ephemeral volumes name their claims after.
	PodName string
	// Mirror says that the pod reports a static one.
	Mirror bool

	IndivisibleHugePages      bool // amounts that are no multiple of the page's size
	BadLabelValueInSelector   bool // selectors of pod affinity
	BadLabelValueInNodeTerm   bool // required node affinity
	BadSpreadSelector         bool // label selectors of spread constraints
	LegacySpreadKeys          bool // matchLabelKeys stored before they were merged into selectors
	NonLocalTokenPath         bool // service account token paths that leave the volume
	HostNamespaceSysctls      bool // namespaced sysctls together with the host's namespaces
	ContainerRestartRules     bool
	RestartAllContainers      bool
	ComparisonTolerations     bool // operators Lt and Gt
	UserNamespaceHostNetwork  bool // hostUsers false with hostNetwork
	UserNamespaceBlockDevices bool // hostUsers false with volumeDevices
	RestartingInitResize      bool // resize policy RestartContainer of an init container that is no sidecar
	BadClaimSelector          bool // label values in the selector of a PersistentVolumeClaim that are none
	BadDataSourceGroup        bool // API groups of a claim's data source that are none
	EmptyImageReference       bool // image volumes without a reference
	SysAdminUnescalated       bool // capability CAP_SYS_ADMIN with allowPrivilegeEscalation false
}

// OptionsFor are the options for a change from old, nil on create.
func OptionsFor(old *v1.PodSpec) Options {
	o := Options{
		ContainerRestartRules:    gate.ContainerRestartRules,
		RestartAllContainers:     gate.RestartAllContainersOnContainerExits,
		ComparisonTolerations:    gate.TaintTolerationComparisonOperators,
		UserNamespaceHostNetwork: gate.UserNamespacesHostNetworkSupport,
	}
	if old == nil {
		return o
	}
	o.IndivisibleHugePages = hasIndivisibleHugePages(old)
	o.BadLabelValueInSelector, o.BadLabelValueInNodeTerm = hasBadLabelValues(old)
	for i := range old.TopologySpreadConstraints {
		c := &old.TopologySpreadConstraints[i]
		if len(metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			o.BadSpreadSelector = true
		}
		var keys validator
		keys.matchLabelKeys(field.NewPath(""), c.MatchLabelKeys, nil, c.LabelSelector)
		o.LegacySpreadKeys = o.LegacySpreadKeys || len(keys.List()) > 0
	}
	o.NonLocalTokenPath = AnySource(func(s *v1.VolumeProjection) bool {
		if s.ServiceAccountToken == nil {
			return false
		}
		var e check.Errors
		e.ProjectedPath(nil, s.ServiceAccountToken.Path)
		return len(e.List()) > 0
	})(old)
	if sc := old.SecurityContext; sc != nil {
		for _, s := range sc.Sysctls {
			o.HostNamespaceSysctls = o.HostNamespaceSysctls || hostSysctl(old, s.Name) != ""
		}
	}
	anyRule := AnyContainer(func(c *v1.Container) bool { return len(c.RestartPolicyRules) > 0 })
	o.ContainerRestartRules = o.ContainerRestartRules || anyRule(old)
	o.RestartAllContainers = o.RestartAllContainers || MayRestartAll(old)
	for _, t := range old.Tolerations {
		o.ComparisonTolerations = o.ComparisonTolerations || t.Operator == v1.TolerationOpLt || t.Operator == v1.TolerationOpGt
	}
	if isFalse(old.HostUsers) {
		o.UserNamespaceHostNetwork = o.UserNamespaceHostNetwork || old.HostNetwork
		o.UserNamespaceBlockDevices = AnyContainer(func(c *v1.Container) bool { return len(c.VolumeDevices) > 0 })(old)
	}
	for i := range old.InitContainers {
		c := &old.InitContainers[i]
		for _, p := range c.ResizePolicy {
			o.RestartingInitResize = o.RestartingInitResize || !IsSidecar(c) && p.RestartPolicy == v1.RestartContainer
		}
	}
	o.SysAdminUnescalated = AnyContainer(func(c *v1.Container) bool { return addsSysAdmin(c.SecurityContext) })(old)
	o.EmptyImageReference = AnyVolume(func(v *v1.Volume) bool { return v.Image != nil && v.Image.Reference == "" })(old)
	return o
}

// MayRestartAll says whether a rule of some container can restart all of them.
func MayRestartAll(spec *v1.PodSpec) bool {
	return AnyContainer(func(c *v1.Container) bool {
		for _, r := range c.RestartPolicyRules {
			if r.Action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
		return false
	})(spec)
}

func hasIndivisibleHugePages(spec *v1.PodSpec) bool {
	bad := func(list v1.ResourceList) bool {
		for name, q := range list {
			if check.IsHugePages(name) && !check.Divisible(name, q) {
				return true
			}
		}
		return false
	}
	return bad(spec.Overhead) || AnyContainer(func(c *v1.Container) bool {
		return bad(c.Resources.Limits) || bad(c.Resources.Requests)
	})(spec)
}

// hasBadLabelValues looks for label values that are none, in the selectors of pod affinity and in required node affinity.
func hasBadLabelValues(spec *v1.PodSpec) (selector, nodeTerm bool) {
	a := spec.Affinity
	if a == nil {
		return false, false
	}
	for _, term := range podAffinityTerms(a) {
		var v validator
		v.affinitySelectors(field.NewPath(""), term)
		selector = selector || len(v.List()) > 0
	}
	if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		var v validator
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, r := range t.MatchExpressions {
				v.labelValues(nil, r.Values)
			}
		}
		nodeTerm = len(v.List()) > 0
	}
	return selector, nodeTerm
}
