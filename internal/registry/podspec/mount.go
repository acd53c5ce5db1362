package podspec

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// volumeMounts checks where a container mounts volumes as files. Some paths are upstream's odd ones: without the index.
func (v *validator) volumeMounts(p *field.Path, c *v1.Container) {
	devices := make(map[string]string, len(c.VolumeDevices)) // name -> path; of equal names the last one counts
	for _, d := range c.VolumeDevices {
		devices[d.Name] = d.DevicePath
	}
	devicePaths := sets.New(slices.Collect(maps.Values(devices))...)
	paths := sets.New[string]()
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], item(p, i)
		if m.Name == "" {
			v.Required(child(at, "name"), "")
		}
		if _, ok := v.volumes[m.Name]; !ok {
			v.NotFound(child(at, "name"), m.Name)
		}
		if m.MountPath == "" {
			v.Required(child(at, "mountPath"), "")
		}
		if paths.Has(m.MountPath) {
			v.Invalid(child(at, "mountPath"), m.MountPath, "must be unique")
		}
		paths.Insert(m.MountPath)
		if _, ok := devices[m.Name]; ok {
			v.Invalid(child(at, "name"), m.Name, "must not already exist in volumeDevices")
		}
		if devicePaths.Has(m.MountPath) {
			v.Invalid(child(at, "mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
		}
		v.subPaths(p, at, m)
		if m.MountPropagation != nil {
			v.propagation(child(p, "mountPropagation"), *m.MountPropagation, c)
		}
		v.recursiveReadOnly(child(p, "recursiveReadOnly"), m)
		v.bindOptions(child(at, "bindMountOptions"), m)
	}
}

func (v *validator) subPaths(p, at *field.Path, m *v1.VolumeMount) {
	if m.SubPath != "" {
		v.RelativePath(child(p, "subPath"), m.SubPath)
	}
	if m.SubPathExpr == "" {
		return
	}
	if m.SubPath != "" {
		v.Invalid(child(at, "subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
	}
	v.RelativePath(child(p, "subPathExpr"), m.SubPathExpr)
}

func (v *validator) propagation(p *field.Path, mode v1.MountPropagationMode, c *v1.Container) {
	check.OneOf(&v.Errors, p, mode, v1.MountPropagationBidirectional, v1.MountPropagationHostToContainer, v1.MountPropagationNone)
	privileged := c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
	if mode == v1.MountPropagationBidirectional && !privileged {
		v.Forbidden(p, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func (v *validator) recursiveReadOnly(p *field.Path, m *v1.VolumeMount) {
	if m.RecursiveReadOnly == nil {
		return
	}
	switch *m.RecursiveReadOnly {
	case v1.RecursiveReadOnlyDisabled:
	case v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			v.Forbidden(p, "may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone {
			v.Forbidden(p, "may only be specified when mountPropagation is None or not specified")
		}
	default:
		check.OneOf(&v.Errors, p, *m.RecursiveReadOnly,
			v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible)
	}
}

// bindOptions checks additional mount options, which reach here only while their gate is on or a stored pod has them.
func (v *validator) bindOptions(p *field.Path, m *v1.VolumeMount) {
	seen := sets.New[string]()
	for i, o := range m.BindMountOptions {
		check.OneOf(&v.Errors, item(p, i), o, "nodev", "noexec", "nosuid")
		if seen.Has(o) {
			v.Duplicate(item(p, i), o)
		}
		seen.Insert(o)
	}
	if s := v.volumes[m.Name]; s != nil && s.Image != nil && len(m.BindMountOptions) > 0 {
		v.Invalid(p, m.BindMountOptions, "bindMountOptions may not be used with image volumes")
	}
}

// volumeDevices checks where a container sees volumes as raw block devices.
func (v *validator) volumeDevices(p *field.Path, c *v1.Container) {
	mounts := make(map[string]string, len(c.VolumeMounts)) // name -> path; of equal names the last one counts
	for i := range c.VolumeMounts {
		mounts[c.VolumeMounts[i].Name] = c.VolumeMounts[i].MountPath
	}
	mountPaths := sets.New(slices.Collect(maps.Values(mounts))...)
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range c.VolumeDevices {
		name, path := child(item(p, i), "name"), child(item(p, i), "devicePath")
		if d.Name == "" {
			v.Required(name, "")
		}
		if names.Has(d.Name) {
			v.Invalid(name, d.Name, "must be unique")
		}
		if s := v.volumes[d.Name]; s == nil {
			v.NotFound(name, d.Name)
		} else if s.PersistentVolumeClaim == nil && s.Ephemeral == nil {
			v.Invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if d.DevicePath == "" {
			v.Required(path, "")
		}
		if paths.Has(d.DevicePath) {
			v.Invalid(path, d.DevicePath, "must be unique")
		}
		if check.HasBackstep(d.DevicePath) {
			v.Invalid(path, d.DevicePath, "can not contain backsteps ('..')")
		} else {
			paths.Insert(d.DevicePath)
		}
		if _, ok := mounts[d.Name]; ok {
			v.Invalid(name, d.Name, "must not already exist in volumeMounts")
		}
		if mountPaths.Has(d.DevicePath) {
			v.Invalid(path, d.DevicePath, "must not already exist as a path in volumeMounts")
		}
		if d.Name != "" {
			names.Insert(d.Name)
		}
	}
}
