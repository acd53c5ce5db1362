package spec

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What of the kernel's files a container must not see, or not change.
var (
	defaultMasked = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	defaultReadOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// effective is a container's security context with what it inherits from the pod; never nil.
func effective(pod *v1.Pod, c *v1.Container) *v1.SecurityContext {
	out := &v1.SecurityContext{}
	if c.SecurityContext != nil {
		out = c.SecurityContext.DeepCopy()
	}
	p := pod.Spec.SecurityContext
	if p == nil {
		return out
	}
	inherit(&out.RunAsUser, p.RunAsUser)
	inherit(&out.RunAsGroup, p.RunAsGroup)
	inherit(&out.RunAsNonRoot, p.RunAsNonRoot)
	inherit(&out.SELinuxOptions, p.SELinuxOptions)
	inherit(&out.SeccompProfile, p.SeccompProfile)
	inherit(&out.AppArmorProfile, p.AppArmorProfile)
	return out
}

func inherit[T any](own **T, from *T) {
	if *own == nil {
		*own = from
	}
}

// security translates a container's security context and refuses one that would run as root against the pod's will.
func (b *Builder) security(ctx context.Context, pod *v1.Pod, c *v1.Container, imageRef string) (*runtimev1.LinuxContainerSecurityContext, error) {
	sc := effective(pod, c)
	spaces, err := b.namespaces(pod)
	if err != nil {
		return nil, err
	}
	out := &runtimev1.LinuxContainerSecurityContext{
		NamespaceOptions: spaces,
		SelinuxOptions:   selinux(sc.SELinuxOptions),
		Privileged:       isTrue(sc.Privileged),
		ReadonlyRootfs:   isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		Capabilities:     capabilities(sc.Capabilities),
		Seccomp:          b.seccomp(sc.SeccompProfile),
		Apparmor:         appArmor(sc.AppArmorProfile),
		MaskedPaths:      b.masked,
		ReadonlyPaths:    defaultReadOnly,
	}
	if sc.ProcMount != nil && *sc.ProcMount == v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = nil, nil
	}
	if p := pod.Spec.SecurityContext; p != nil {
		out.SupplementalGroups = groups(p)
		out.SupplementalGroupsPolicy = groupsPolicy(p)
	}
	return out, b.user(ctx, pod, c, sc, imageRef, out)
}

// user sets the user that the container runs as. The image is asked only when it decides: for the check against root, because the
// runtime takes no group without a user, and because it leaves out the user's own group where the groups are strictly those of the
// spec and no user is named.
func (b *Builder) user(ctx context.Context, pod *v1.Pod, c *v1.Container, sc *v1.SecurityContext, imageRef string, out *runtimev1.LinuxContainerSecurityContext) error {
	if sc.RunAsGroup != nil {
		out.RunAsGroup = &runtimev1.Int64Value{Value: *sc.RunAsGroup}
	}
	if sc.RunAsUser != nil {
		if isTrue(sc.RunAsNonRoot) && *sc.RunAsUser == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", full(pod), c.Name)
		}
		out.RunAsUser = &runtimev1.Int64Value{Value: *sc.RunAsUser}
		return nil
	}
	if !isTrue(sc.RunAsNonRoot) && sc.RunAsGroup == nil && out.SupplementalGroupsPolicy != runtimev1.SupplementalGroupsPolicy_Strict {
		return nil
	}
	image, err := b.c.Images.ImageStatus(ctx, &runtimev1.ImageSpec{Image: imageRef, UserSpecifiedImage: c.Image})
	if err != nil {
		return err
	}
	if image == nil {
		return fmt.Errorf("image %q not found", c.Image)
	}
	if image.Uid == nil && image.Username != "" {
		if isTrue(sc.RunAsNonRoot) {
			return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)",
				image.Username, full(pod), c.Name)
		}
		out.RunAsUsername = image.Username
		return nil
	}
	uid := image.Uid.GetValue() // an image that names no user runs as root
	out.RunAsUser = &runtimev1.Int64Value{Value: uid}
	if !isTrue(sc.RunAsNonRoot) {
		return nil
	}
	if uid == 0 {
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", full(pod), c.Name)
	}
	if errs := validation.IsValidUserID(uid); len(errs) > 0 {
		return fmt.Errorf("container has runAsNonRoot and image has an invalid user id (%d). (Must be 1-(%d)): %s (pod: %q, container: %s)",
			uid, math.MaxInt32, strings.Join(errs, "; "), full(pod), c.Name)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// groups are the further groups of all processes of a pod.
func groups(sc *v1.PodSecurityContext) []int64 {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

func groupsPolicy(sc *v1.PodSecurityContext) runtimev1.SupplementalGroupsPolicy {
	if p := sc.SupplementalGroupsPolicy; p != nil && *p == v1.SupplementalGroupsPolicyStrict {
		return runtimev1.SupplementalGroupsPolicy_Strict
	}
	return runtimev1.SupplementalGroupsPolicy_Merge
}

func selinux(o *v1.SELinuxOptions) *runtimev1.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimev1.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func capabilities(c *v1.Capabilities) *runtimev1.Capability {
	if c == nil {
		return nil
	}
	names := func(list []v1.Capability) []string {
		out := make([]string, len(list))
		for i, c := range list {
			out[i] = string(c)
		}
		return out
	}
	return &runtimev1.Capability{AddCapabilities: names(c.Add), DropCapabilities: names(c.Drop)}
}

func (b *Builder) seccomp(p *v1.SeccompProfile) *runtimev1.SecurityProfile {
	kind := v1.SeccompProfileTypeUnconfined
	switch {
	case p != nil:
		kind = p.Type
	case b.c.SeccompDefault:
		kind = v1.SeccompProfileTypeRuntimeDefault
	}
	switch {
	case kind == v1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimev1.SecurityProfile{
			ProfileType: runtimev1.SecurityProfile_Localhost, LocalhostRef: filepath.Join(b.c.SeccompDir, *p.LocalhostProfile),
		}
	case kind == v1.SeccompProfileTypeRuntimeDefault:
		return &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_RuntimeDefault}
	}
	return &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_Unconfined}
}

// appArmor is nil where nothing is asked for: the runtime's default, on a kernel that has it.
func appArmor(p *v1.AppArmorProfile) *runtimev1.SecurityProfile {
	if p == nil {
		return nil
	}
	switch {
	case p.Type == v1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile}
	case p.Type == v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_RuntimeDefault}
	}
	return &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_Unconfined}
}

// signalNames writes SIGRTMIN+1 as the runtime's interface names it.
var signalNames = strings.NewReplacer("+", "PLUS", "-", "MINUS")

// stopSignal is the signal that ends the container instead of its image's own.
func stopSignal(c *v1.Container) runtimev1.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimev1.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	return runtimev1.Signal(runtimev1.Signal_value["SIGNAL_"+signalNames.Replace(string(*c.Lifecycle.StopSignal))])
}
