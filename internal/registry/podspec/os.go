package podspec

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// os checks the operating system that the pod is for, and that nothing of the other one is set.
func (v *validator) os(p *field.Path) {
	if v.spec.OS == nil {
		return
	}
	switch v.spec.OS.Name {
	case "":
		v.Required(child(child(p, "os"), "name"), "")
	case v1.Linux:
		v.linux(p)
	case v1.Windows:
		v.windows(p)
	default:
		check.OneOf(&v.Errors, child(p, "os"), v.spec.OS.Name, v1.Linux, v1.Windows)
	}
}

func (v *validator) linux(p *field.Path) {
	const why = "windows options cannot be set for a linux pod"
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		v.Forbidden(child(child(p, "securityContext"), "windowsOptions"), why)
	}
	for at, c := range WithPaths(v.spec, p) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			v.Forbidden(child(child(at, "securityContext"), "windowsOptions"), why)
		}
	}
}

// unset refuses fields that are set.
func (v *validator) unset(why string, fields ...struct {
	at  *field.Path
	set bool
},
) {
	for _, f := range fields {
		if f.set {
			v.Forbidden(f.at, why)
		}
	}
}

func (v *validator) windows(p *field.Path) {
	type f = struct {
		at  *field.Path
		set bool
	}
	const why = "cannot be set for a windows pod"
	s := v.spec
	sc, at := s.SecurityContext, child(p, "securityContext")
	if sc == nil {
		sc = &v1.PodSecurityContext{}
	}
	v.unset(why,
		f{child(at, "appArmorProfile"), sc.AppArmorProfile != nil},
		f{child(at, "seLinuxOptions"), sc.SELinuxOptions != nil},
		f{child(at, "seccompProfile"), sc.SeccompProfile != nil},
		f{child(at, "fsGroup"), sc.FSGroup != nil},
		f{child(at, "fsGroupChangePolicy"), sc.FSGroupChangePolicy != nil},
		f{child(at, "sysctls"), len(sc.Sysctls) > 0},
		f{child(at, "runAsUser"), sc.RunAsUser != nil},
		f{child(at, "runAsGroup"), sc.RunAsGroup != nil},
		f{child(at, "supplementalGroups"), sc.SupplementalGroups != nil},
		f{child(at, "supplementalGroupsPolicy"), sc.SupplementalGroupsPolicy != nil},
		f{child(at, "seLinuxChangePolicy"), sc.SELinuxChangePolicy != nil},
		f{child(p, "hostUsers"), s.HostUsers != nil},
		f{child(p, "hostPID"), s.HostPID},
		f{child(p, "hostIPC"), s.HostIPC},
		f{child(p, "shareProcessNamespace"), s.ShareProcessNamespace != nil},
	)
	for at, c := range WithPaths(s, p) {
		sc, at := c.SecurityContext, child(at, "securityContext")
		if sc == nil {
			continue
		}
		v.unset(why,
			f{child(at, "appArmorProfile"), sc.AppArmorProfile != nil},
			f{child(at, "seLinuxOptions"), sc.SELinuxOptions != nil},
			f{child(at, "seccompProfile"), sc.SeccompProfile != nil},
			f{child(at, "capabilities"), sc.Capabilities != nil},
			f{child(at, "readOnlyRootFilesystem"), sc.ReadOnlyRootFilesystem != nil},
			f{child(at, "privileged"), sc.Privileged != nil},
			f{child(at, "allowPrivilegeEscalation"), sc.AllowPrivilegeEscalation != nil},
			f{child(at, "procMount"), sc.ProcMount != nil},
			f{child(at, "runAsUser"), sc.RunAsUser != nil},
			f{child(at, "runAsGroup"), sc.RunAsGroup != nil},
		)
	}
}

// windowsHostProcess: if one container runs in the host's own session, all do, and on the host's network.
func (v *validator) windowsHostProcess(p *field.Path) {
	var pod *bool
	if sc := v.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		pod = sc.WindowsOptions.HostProcess
	}
	all, host := 0, 0
	for at, c := range WithPaths(v.spec, p) {
		all++
		var own *bool
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			own = sc.WindowsOptions.HostProcess
		}
		if pod != nil && own != nil && *pod != *own {
			v.Invalid(child(child(child(at, "securityContext"), "windowsOptions"), "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod))
		}
		if own == nil {
			own = pod
		}
		if isTrue(own) {
			host++
		}
	}
	if host == 0 {
		return
	}
	if host != all {
		v.Invalid(p, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !v.spec.HostNetwork {
		v.Invalid(child(p, "hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// The forms of a Windows user's domain and name.
var (
	controlChars = regexp.MustCompile(`[[:cntrl:]]+`)
	netBIOSName  = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	windowsDNS   = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	dotsOrSpaces = regexp.MustCompile(`^[\. ]+$`)
)

func (v *validator) windowsOptions(p *field.Path, o *v1.WindowsSecurityContextOptions) {
	if o == nil {
		return
	}
	if n := o.GMSACredentialSpecName; n != nil {
		v.Each(child(p, "gmsaCredentialSpecName"), n, validation.IsDNS1123Subdomain(*n))
	}
	if s := o.GMSACredentialSpec; s != nil {
		at := child(p, "gmsaCredentialSpec")
		if *s == "" {
			v.Invalid(at, s, "gmsaCredentialSpec cannot be an empty string")
		} else if len(*s) > 64*1024 {
			v.Invalid(at, s, "gmsaCredentialSpec size must be under 64 KiB")
		}
	}
	if n := o.RunAsUserName; n != nil {
		v.windowsUser(child(p, "runAsUserName"), n)
	}
}

// windowsUser checks "user" or "DOMAIN\user".
func (v *validator) windowsUser(p *field.Path, value *string) {
	name := *value
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	switch {
	case name == "":
		v.Invalid(p, value, "runAsUserName cannot be an empty string")
		return
	case controlChars.MatchString(name):
		v.Invalid(p, value, "runAsUserName cannot contain control characters")
		return
	case strings.Contains(user, `\`):
		v.Invalid(p, value, "runAsUserName cannot contain more than one backslash")
		return
	}
	if len(domain) >= 256 {
		v.Invalid(p, value, "runAsUserName's Domain length must be under 256 characters")
	}
	if hasDomain && !netBIOSName.MatchString(domain) && !windowsDNS.MatchString(domain) {
		v.Invalid(p, value, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		v.Invalid(p, value, "runAsUserName's User cannot be empty")
	} else if len(user) > 104 {
		v.Invalid(p, value, "runAsUserName's User length must not be longer than 104 characters")
	}
	if dotsOrSpaces.MatchString(user) {
		v.Invalid(p, value, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, `"/\:;|=,+*?<>@[]`) {
		v.Invalid(p, value, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
}
