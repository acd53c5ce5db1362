package podspec

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func join(names []string) string { return strings.Join(names, ", ") }

func (v *validator) mainContainers(p *field.Path) {
	if len(v.spec.Containers) == 0 {
		v.Required(p, "")
		return
	}
	names := sets.New[string]()
	for i := range v.spec.Containers {
		c, at := &v.spec.Containers[i], item(p, i)
		v.container(at, c)
		// Clashes with init and ephemeral containers are found with those, once.
		if names.Has(c.Name) {
			v.Duplicate(child(at, "name"), c.Name)
		}
		names.Insert(c.Name)
		v.lifecycle(child(at, "lifecycle"), c.Lifecycle)
		v.probes(at, c)
		if v.o.ContainerRestartRules {
			v.containerRestartPolicy(at, c)
		} else if c.RestartPolicy != nil {
			v.Forbidden(child(at, "restartPolicy"), "may not be set for non-init containers")
		}
	}
	v.hostPortConflicts(p, v.spec.Containers)
}

func (v *validator) initContainers(p *field.Path) {
	names := sets.New[string]()
	for i := range v.spec.Containers {
		names.Insert(v.spec.Containers[i].Name)
	}
	for i := range v.spec.InitContainers {
		c, at := &v.spec.InitContainers[i], item(p, i)
		v.container(at, c)
		v.initRestartPolicy(at, c)
		if names.Has(c.Name) {
			v.Duplicate(child(at, "name"), c.Name)
		} else if c.Name != "" {
			names.Insert(c.Name)
		}
		// Init containers run one by one: each is its own neighbourhood.
		v.hostPortConflicts(p, v.spec.InitContainers[i:i+1])
		if IsSidecar(c) {
			v.lifecycle(child(at, "lifecycle"), c.Lifecycle)
			v.probes(at, c)
			continue
		}
		v.noHooksNorProbes(at, c)
		if !v.o.RestartingInitResize {
			for j, r := range c.ResizePolicy {
				if r.RestartPolicy == v1.RestartContainer {
					v.Invalid(child(item(child(at, "resizePolicy"), j), "restartPolicy"), r.RestartPolicy,
						"must not be set to 'RestartContainer' for non-sidecar initContainers")
				}
			}
		}
	}
}

// noHooksNorProbes: an init container that is expected to end has nobody to be ready for.
func (v *validator) noHooksNorProbes(p *field.Path, c *v1.Container) {
	const why = "may not be set for init containers without restartPolicy=Always"
	if c.Lifecycle != nil {
		v.Forbidden(child(p, "lifecycle"), why)
	}
	if c.LivenessProbe != nil {
		v.Forbidden(child(p, "livenessProbe"), why)
	}
	if c.ReadinessProbe != nil {
		v.Forbidden(child(p, "readinessProbe"), why)
	}
	if c.StartupProbe != nil {
		v.Forbidden(child(p, "startupProbe"), why)
	}
}

func (v *validator) initRestartPolicy(p *field.Path, c *v1.Container) {
	switch {
	case c.RestartPolicy == nil:
		if len(c.RestartPolicyRules) > 0 {
			v.Required(child(p, "restartPolicy"), "must specify restartPolicy when restart rules are used")
		}
	case v.o.ContainerRestartRules && IsSidecar(c) && !v.o.RestartAllContainers:
		if len(c.RestartPolicyRules) > 0 {
			v.Forbidden(child(p, "restartPolicyRules"), "restartPolicyRules are not allowed for init containers with restart policy Always")
		}
	case v.o.ContainerRestartRules:
		v.containerRestartPolicy(p, c)
	default:
		check.OneOf(&v.Errors, child(p, "restartPolicy"), *c.RestartPolicy, v1.ContainerRestartPolicyAlways)
	}
}

// containerRestartPolicy checks a container's own restart policy and the rules that refine it.
func (v *validator) containerRestartPolicy(p *field.Path, c *v1.Container) {
	switch {
	case c.RestartPolicy != nil:
		check.OneOf(&v.Errors, child(p, "restartPolicy"), *c.RestartPolicy,
			v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure)
	case len(c.RestartPolicyRules) > 0:
		v.Required(child(p, "restartPolicy"), "must specify restartPolicy when restart rules are used")
	default:
		return
	}
	p = child(p, "restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > 20 {
		v.Put(field.TooMany(p, n, 20))
	}
	actions := []v1.ContainerRestartRuleAction{v1.ContainerRestartRuleActionRestart}
	if v.o.RestartAllContainers {
		actions = append(actions, v1.ContainerRestartRuleActionRestartAllContainers)
	}
	for i, r := range c.RestartPolicyRules {
		check.OneOf(&v.Errors, child(item(p, i), "action"), r.Action, actions...)
		codes := child(item(p, i), "exitCodes")
		if r.ExitCodes == nil {
			v.Required(codes, "must be specified")
			continue
		}
		check.OneOf(&v.Errors, child(codes, "operator"), r.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > 255 {
			v.Put(field.TooMany(child(codes, "values"), n, 255))
		}
	}
}

// ephemeralFields are what an ephemeral container may set; a field that upstream adds is refused until it is listed.
var ephemeralFields = sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")

func (v *validator) ephemeralContainers(p *field.Path) {
	if len(v.spec.EphemeralContainers) == 0 {
		return
	}
	others := sets.New[string]()
	for c, kind := range Containers(v.spec) {
		if kind != Ephemeral {
			others.Insert(c.Name)
		}
	}
	names := others.Clone()
	for i := range v.spec.EphemeralContainers {
		ec, at := &v.spec.EphemeralContainers[i], item(p, i)
		c := (*v1.Container)(&ec.EphemeralContainerCommon)
		v.container(at, c)
		v.imageWhitespace(child(at, "image"), c.Image)
		if names.Has(ec.Name) {
			v.Duplicate(child(at, "name"), ec.Name)
		}
		names.Insert(ec.Name)
		if t := ec.TargetContainerName; t != "" && !others.Has(t) {
			v.NotFound(child(at, "targetContainerName"), t)
		}
		v.onlyFields(at, ec.EphemeralContainerCommon, ephemeralFields, "cannot be set for an Ephemeral Container")
		for j, m := range ec.VolumeMounts {
			if m.SubPath != "" {
				v.Forbidden(child(item(child(at, "volumeMounts"), j), "subPath"), "cannot be set for an Ephemeral Container")
			}
			if m.SubPathExpr != "" {
				v.Forbidden(child(item(child(at, "volumeMounts"), j), "subPathExpr"), "cannot be set for an Ephemeral Container")
			}
		}
	}
}

// onlyFields refuses fields of a struct that are set and not allowed.
func (v *validator) onlyFields(p *field.Path, value any, allowed sets.Set[string], detail string) {
	rv := reflect.ValueOf(value)
	for i := range rv.NumField() {
		name := rv.Type().Field(i).Name
		if allowed.Has(name) || isZero(rv.Field(i)) {
			continue
		}
		runes := []rune(name)
		runes[0] = unicode.ToLower(runes[0])
		v.Forbidden(child(p, string(runes)), detail)
	}
}

// isZero counts an empty list or map as set, as long as it is not nil.
func isZero(v reflect.Value) bool {
	return reflect.DeepEqual(v.Interface(), reflect.Zero(v.Type()).Interface())
}

// container checks what all kinds of containers have in common.
func (v *validator) container(p *field.Path, c *v1.Container) {
	if c.Name == "" {
		v.Required(child(p, "name"), "")
	} else {
		v.DNSLabel(child(p, "name"), c.Name)
	}
	if c.Image == "" {
		v.Required(child(p, "image"), "")
	}
	check.RequiredOneOf(&v.Errors, child(p, "terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	v.ports(child(p, "ports"), c.Ports)
	v.env(child(p, "env"), c.Env)
	v.envFrom(child(p, "envFrom"), c.EnvFrom)
	v.volumeMounts(child(p, "volumeMounts"), c)
	v.volumeDevices(child(p, "volumeDevices"), c)
	check.RequiredOneOf(&v.Errors, child(p, "imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	v.resources(child(p, "resources"), &c.Resources, v.ContainerResourceName)
	v.claimNames(child(child(p, "resources"), "claims"), c.Resources.Claims)
	v.resizePolicy(child(p, "resizePolicy"), c.ResizePolicy)
	v.containerSecurity(child(p, "securityContext"), c.SecurityContext)
}

func (v *validator) imageWhitespace(p *field.Path, image string) {
	if strings.TrimSpace(image) != image {
		v.Invalid(p, image, "must not have leading or trailing whitespace")
	}
}

func (v *validator) ports(p *field.Path, ports []v1.ContainerPort) {
	names := sets.New[string]()
	for i, port := range ports {
		at := item(p, i)
		if port.Name != "" {
			if msgs := validation.IsValidPortName(port.Name); len(msgs) > 0 {
				v.Each(child(at, "name"), port.Name, msgs)
			} else if names.Has(port.Name) {
				v.Duplicate(child(at, "name"), port.Name)
			}
			names.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			v.Required(child(at, "containerPort"), "")
		} else {
			v.Each(child(at, "containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))
		}
		if port.HostPort != 0 {
			v.Each(child(at, "hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))
		}
		check.RequiredOneOf(&v.Errors, child(at, "protocol"), port.Protocol, v1.ProtocolSCTP, v1.ProtocolTCP, v1.ProtocolUDP)
	}
}

// hostPortConflicts: one port of the host per address and protocol.
func (v *validator) hostPortConflicts(p *field.Path, containers []v1.Container) {
	seen := sets.New[string]()
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if seen.Has(key) {
				v.Duplicate(child(item(child(item(p, i), "ports"), j), "hostPort"), key)
			}
			seen.Insert(key)
		}
	}
}

func (v *validator) resizePolicy(p *field.Path, policies []v1.ContainerResizePolicy) {
	seen := sets.New[v1.ResourceName]()
	for i, r := range policies {
		if seen.Has(r.ResourceName) {
			v.Duplicate(item(p, i), r.ResourceName)
		}
		seen.Insert(r.ResourceName)
		check.RequiredOneOf(&v.Errors, p, r.ResourceName, v1.ResourceCPU, v1.ResourceMemory)
		check.RequiredOneOf(&v.Errors, p, r.RestartPolicy, v1.NotRequired, v1.RestartContainer)
		if v.spec.RestartPolicy == v1.RestartPolicyNever && r.RestartPolicy != v1.NotRequired {
			v.Invalid(p, r.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}
