package podobject

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podspec"
)

// Annotations that mean something to the API server.
const (
	tolerationsKey  = "scheduler.alpha.kubernetes.io/tolerations"
	deletionCostKey = "controller.kubernetes.io/pod-deletion-cost"
	appArmorPrefix  = v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompPodKey   = v1.SeccompPodAnnotationKey
	seccompPrefix   = v1.SeccompContainerAnnotationKeyPrefix
)

// annotations checks those that mean something; p is where they stand.
func annotations(e *check.Errors, p *field.Path, pod *v1.Pod, o podspec.Options) {
	if value, ok := pod.Annotations[v1.MirrorPodAnnotationKey]; ok && pod.Spec.NodeName == "" {
		e.Invalid(p.Key(v1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := pod.Annotations[tolerationsKey]; text != "" {
		var list []v1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			e.Invalid(p, tolerationsKey, err.Error())
		} else {
			e.Add(podspec.Tolerations(p.Child(tolerationsKey), list, o))
		}
	}
	if cost, ok := pod.Annotations[deletionCostKey]; ok && !validCost(cost) {
		e.Invalid(p.Key(deletionCostKey), cost, "must be a 32bit integer")
	}
	if profile, ok := pod.Annotations[seccompPodKey]; ok {
		seccompName(e, p.Child(seccompPodKey), profile)
	}
	for _, k := range check.Sorted(pod.Annotations) {
		if strings.HasPrefix(k, seccompPrefix) {
			seccompName(e, p.Child(k), pod.Annotations[k])
		}
	}
	for _, k := range check.Sorted(pod.Annotations) {
		name, ok := strings.CutPrefix(k, appArmorPrefix)
		if !ok {
			continue
		}
		if !hasContainer(&pod.Spec, name) {
			e.Invalid(p.Key(k), name, "container not found")
		}
		switch profile := pod.Annotations[k]; {
		case profile == "", profile == v1.DeprecatedAppArmorBetaProfileRuntimeDefault, profile == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		case !strings.HasPrefix(profile, v1.DeprecatedAppArmorBetaProfileNamePrefix):
			e.Invalid(p.Key(k), profile, fmt.Sprintf("invalid AppArmor profile name: %q", profile))
		}
	}
}

// validCost wants a plain 32-bit number: no plus sign, no leading zeros.
func validCost(s string) bool {
	if s == "" || s[0] == '+' || (len(s) > 1 && s[0] == '0') {
		return false
	}
	_, err := strconv.ParseInt(s, 10, 32)
	return err == nil
}

func hasContainer(spec *v1.PodSpec, name string) bool {
	return podspec.AnyContainer(func(c *v1.Container) bool { return c.Name == name })(spec)
}

func seccompName(e *check.Errors, p *field.Path, profile string) {
	switch profile {
	case v1.SeccompProfileRuntimeDefault, v1.DeprecatedSeccompProfileDockerDefault, v1.SeccompProfileNameUnconfined:
		return
	}
	if path, ok := strings.CutPrefix(profile, v1.SeccompLocalhostProfileNamePrefix); ok {
		e.RelativePath(p, path)
		return
	}
	e.Invalid(p, profile, "must be a valid seccomp profile")
}

// annotationChanges: what the kubelet and the runtime were told cannot be untold.
func annotationChanges(e *check.Errors, pod, old *v1.Pod) {
	for _, k := range check.Sorted(old.Annotations) {
		if value, ok := pod.Annotations[k]; ok && value == old.Annotations[k] {
			continue
		}
		if strings.HasPrefix(k, appArmorPrefix) {
			e.Forbidden(annotationsPath.Key(k), "may not remove or update AppArmor annotations")
		}
		if k == v1.MirrorPodAnnotationKey {
			e.Forbidden(annotationsPath.Key(k), "may not remove or update mirror pod annotation")
		}
	}
	for _, k := range check.Sorted(pod.Annotations) {
		if _, ok := old.Annotations[k]; ok {
			continue
		}
		if strings.HasPrefix(k, appArmorPrefix) {
			e.Forbidden(annotationsPath.Key(k), "may not add AppArmor annotations")
		}
		if k == v1.MirrorPodAnnotationKey {
			e.Forbidden(annotationsPath.Key(k), "may not add mirror pod annotation")
		}
	}
	annotations(e, annotationsPath, pod, options(pod, old))
}

// appArmorFields copies AppArmor annotations of earlier times into the fields that replaced them.
func appArmorFields(pod *v1.Pod) {
	for c, profile := range onlyAnnotated(pod) {
		if profile == nil {
			continue
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &v1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	}
}

// Outdated tells what a new pod says in a way of earlier times; PrepareCreate turns it into today's.
func Outdated(pod *v1.Pod) []string {
	w := &warner{notes: annotationsPath}
	for c := range onlyAnnotated(pod) {
		w.oldAppArmor(c.Name)
	}
	return w.out
}

// onlyAnnotated are the containers whose AppArmor profile stands in an annotation alone, with the profile, which is nil where the annotation
// is of no use.
func onlyAnnotated(pod *v1.Pod) iter.Seq2[*v1.Container, *v1.AppArmorProfile] {
	return func(yield func(*v1.Container, *v1.AppArmorProfile) bool) {
		if isWindows(pod) {
			return
		}
		var whole *v1.AppArmorProfile
		if sc := pod.Spec.SecurityContext; sc != nil {
			whole = sc.AppArmorProfile
		}
		for c := range podspec.Containers(&pod.Spec) {
			text, ok := pod.Annotations[appArmorPrefix+c.Name]
			if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
				continue
			}
			profile := appArmorFromAnnotation(text)
			if profile != nil && len(podspec.AppArmorProfile(field.NewPath(""), profile)) > 0 {
				profile = nil
			}
			if profile != nil && sameProfile(profile, whole) {
				continue
			}
			if !yield(c, profile) {
				return
			}
		}
	}
}

func isWindows(pod *v1.Pod) bool { return pod.Spec.OS != nil && pod.Spec.OS.Name == v1.Windows }

func sameProfile(a, b *v1.AppArmorProfile) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && (a.LocalhostProfile == nil) == (b.LocalhostProfile == nil) &&
		(a.LocalhostProfile == nil || *a.LocalhostProfile == *b.LocalhostProfile)
}

// appArmorFromAnnotation is the field's value for an annotation; nil when there is none.
func appArmorFromAnnotation(text string) *v1.AppArmorProfile {
	switch text {
	case v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	case v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	}
	if name, ok := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix); ok && name != "" {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// profilesMatch: whoever gives a security profile twice, as an annotation and as a field, must give the same one. p is where
// the spec stands.
func profilesMatch(e *check.Errors, p *field.Path, pod *v1.Pod) {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		sc = &v1.PodSecurityContext{}
	}
	if text, ok := pod.Annotations[seccompPodKey]; ok {
		seccompMatches(e, p.Child("securityContext", "seccompProfile"), text, sc.SeccompProfile)
	}
	for at, c := range podspec.WithPaths(&pod.Spec, p) {
		if text, ok := pod.Annotations[seccompPrefix+c.Name]; ok && c.SecurityContext != nil {
			seccompMatches(e, at.Child("securityContext", "seccompProfile"), text, c.SecurityContext.SeccompProfile)
		}
	}
	if isWindows(pod) {
		return
	}
	for at, c := range podspec.WithPaths(&pod.Spec, p) {
		profile := sc.AppArmorProfile
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		if text, ok := pod.Annotations[appArmorPrefix+c.Name]; ok && profile != nil {
			appArmorMatches(e, at.Child("securityContext", "appArmorProfile"), text, profile)
		}
	}
}

func seccompMatches(e *check.Errors, p *field.Path, text string, profile *v1.SeccompProfile) {
	if profile == nil {
		return
	}
	name, local := strings.CutPrefix(text, v1.SeccompLocalhostProfileNamePrefix)
	var same bool
	switch profile.Type {
	case v1.SeccompProfileTypeUnconfined:
		same = text == v1.SeccompProfileNameUnconfined
	case v1.SeccompProfileTypeRuntimeDefault:
		same = text == v1.SeccompProfileRuntimeDefault || text == v1.DeprecatedSeccompProfileDockerDefault
	case v1.SeccompProfileTypeLocalhost:
		same = local
	default:
		return
	}
	if !same {
		e.Forbidden(p.Child("type"), "seccomp type in annotation and field must match")
	} else if local && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != name) {
		e.Forbidden(p.Child("localhostProfile"), "seccomp profile in annotation and field must match")
	}
}

func appArmorMatches(e *check.Errors, p *field.Path, text string, profile *v1.AppArmorProfile) {
	name, local := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix)
	var same bool
	switch profile.Type {
	case v1.AppArmorProfileTypeUnconfined:
		same = text == v1.DeprecatedAppArmorBetaProfileNameUnconfined
	case v1.AppArmorProfileTypeRuntimeDefault:
		same = text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case v1.AppArmorProfileTypeLocalhost:
		same = local
	default:
		return
	}
	if !same {
		e.Forbidden(p.Child("type"), "apparmor type in annotation and field must match")
	} else if local && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != name) {
		e.Forbidden(p.Child("localhostProfile"), "apparmor profile in annotation and field must match")
	}
}
