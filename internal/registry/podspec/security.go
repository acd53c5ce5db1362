package podspec

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	"podo.dev/podo/internal/registry/check"
)

func (v *validator) groupID(p *field.Path, group *int64) {
	if group != nil {
		v.Each(p, *group, validation.IsValidGroupID(*group))
	}
}

func (v *validator) podSecurity(p *field.Path) {
	sc := v.spec.SecurityContext
	if sc == nil {
		return
	}
	v.groupID(child(p, "fsGroup"), sc.FSGroup)
	v.userID(child(p, "runAsUser"), sc.RunAsUser)
	v.groupID(child(p, "runAsGroup"), sc.RunAsGroup)
	for i := range sc.SupplementalGroups {
		v.groupID(item(child(p, "supplementalGroups"), i), &sc.SupplementalGroups[i])
	}
	v.sysctls(child(p, "sysctls"), sc.Sysctls)
	if sc.FSGroupChangePolicy != nil {
		check.OneOf(&v.Errors, child(p, "fsGroupChangePolicy"), *sc.FSGroupChangePolicy,
			v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch)
	}
	v.Add(SeccompProfile(child(p, "seccompProfile"), sc.SeccompProfile))
	v.windowsOptions(child(p, "windowsOptions"), sc.WindowsOptions)
	v.Add(AppArmorProfile(child(p, "appArmorProfile"), sc.AppArmorProfile))
	if sc.SupplementalGroupsPolicy != nil {
		check.OneOf(&v.Errors, child(p, "supplementalGroupsPolicy"), *sc.SupplementalGroupsPolicy,
			v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict)
	}
	if sc.SELinuxChangePolicy != nil {
		check.OneOf(&v.Errors, child(p, "seLinuxChangePolicy"), *sc.SELinuxChangePolicy,
			v1.SELinuxChangePolicyMountOption, v1.SELinuxChangePolicyRecursive)
	}
}

// sysctlForm allows dots and slashes between segments.
const sysctlForm = `^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`

var sysctlName = regexp.MustCompile(sysctlForm)

func (v *validator) sysctls(p *field.Path, list []v1.Sysctl) {
	seen := sets.New[string]()
	for i, s := range list {
		at := child(item(p, i), "name")
		switch {
		case s.Name == "":
			v.Required(at, "")
		case len(s.Name) > 253 || !sysctlName.MatchString(s.Name):
			v.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", 253, sysctlForm))
		case seen.Has(s.Name):
			v.Duplicate(at, s.Name)
		}
		if why := hostSysctl(v.spec, s.Name); why != "" && !v.o.HostNamespaceSysctls {
			v.Invalid(at, s.Name, why)
		}
		seen.Insert(s.Name)
	}
}

// hostSysctl says why a sysctl of a namespace cannot be set: the pod shares that namespace with the host. "" is no reason.
func hostSysctl(spec *v1.PodSpec, name string) string {
	ns, _, _ := sysctl.GetNamespace(name)
	switch {
	case spec.HostNetwork && ns == sysctl.NetNamespace:
		return "may not be specified when 'hostNetwork' is true"
	case spec.HostIPC && ns == sysctl.IPCNamespace:
		return "may not be specified when 'hostIPC' is true"
	}
	return ""
}

func (v *validator) containerSecurity(p *field.Path, sc *v1.SecurityContext) {
	if sc == nil {
		return
	}
	v.userID(child(p, "runAsUser"), sc.RunAsUser)
	v.groupID(child(p, "runAsGroup"), sc.RunAsGroup)
	if sc.ProcMount != nil {
		check.OneOf(&v.Errors, child(p, "procMount"), *sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)
		if *sc.ProcMount == v1.UnmaskedProcMount && !isFalse(v.spec.HostUsers) {
			v.Invalid(child(p, "procMount"), sc.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	v.Add(SeccompProfile(child(p, "seccompProfile"), sc.SeccompProfile))
	if isFalse(sc.AllowPrivilegeEscalation) && isTrue(sc.Privileged) {
		v.Invalid(p, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if addsSysAdmin(sc) && !v.o.SysAdminUnescalated {
		v.Invalid(p, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
	v.windowsOptions(child(p, "windowsOptions"), sc.WindowsOptions)
	v.Add(AppArmorProfile(child(p, "appArmorProfile"), sc.AppArmorProfile))
}

// addsSysAdmin: CAP_SYS_ADMIN is escalation by itself.
func addsSysAdmin(sc *v1.SecurityContext) bool {
	if sc == nil || !isFalse(sc.AllowPrivilegeEscalation) || sc.Capabilities == nil {
		return false
	}
	for _, c := range sc.Capabilities.Add {
		if c == "CAP_SYS_ADMIN" {
			return true
		}
	}
	return false
}

// SeccompProfile checks a profile; nil passes.
func SeccompProfile(p *field.Path, s *v1.SeccompProfile) field.ErrorList {
	var e check.Errors
	if s == nil {
		return nil
	}
	if s.Type == "" {
		e.Required(child(p, "type"), "type is required when seccompProfile is set")
	} else {
		check.OneOf(&e, child(p, "type"), s.Type,
			v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	}
	local := child(p, "localhostProfile")
	switch {
	case s.Type != v1.SeccompProfileTypeLocalhost:
		if s.LocalhostProfile != nil {
			e.Invalid(local, s, "can only be set when seccomp type is Localhost")
		}
	case s.LocalhostProfile == nil:
		e.Required(local, "must be set when seccomp type is Localhost")
	default:
		e.RelativePath(local, *s.LocalhostProfile)
	}
	return e.List()
}

// AppArmorProfile checks a profile; nil passes.
func AppArmorProfile(p *field.Path, a *v1.AppArmorProfile) field.ErrorList {
	var e check.Errors
	if a == nil {
		return nil
	}
	local := child(p, "localhostProfile")
	const mustBeSet = "must be set when AppArmor type is Localhost"
	switch a.Type {
	case v1.AppArmorProfileTypeLocalhost:
		if a.LocalhostProfile == nil {
			e.Required(local, mustBeSet)
			break
		}
		name := *a.LocalhostProfile
		if strings.TrimSpace(name) != name {
			e.Invalid(local, name, "must not be padded with whitespace")
		} else if name == "" {
			e.Required(local, mustBeSet)
		}
		if len(name) > 4095 { // the kernel's longest path
			e.TooLong(local, 4095)
		}
	case v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			e.Invalid(local, a.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		e.Required(child(p, "type"), "type is required when appArmorProfile is set")
	default:
		check.OneOf(&e, child(p, "type"), a.Type,
			v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	}
	return e.List()
}
