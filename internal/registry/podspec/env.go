package podspec

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/gate"
)

// The fields and resources that a container may learn about itself, sorted as messages list them.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields    = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	resourceFields  = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"}
	memoryDivisors  = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	convertibleOnly = []string{"spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)

func (v *validator) env(p *field.Path, vars []v1.EnvVar) {
	for i, e := range vars {
		at := item(p, i)
		if e.Name == "" {
			v.Required(child(at, "name"), "")
		} else {
			v.Each(child(at, "name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))
		}
		if e.ValueFrom != nil {
			v.envSource(child(at, "valueFrom"), e)
		}
	}
}

func (v *validator) envSource(p *field.Path, e v1.EnvVar) {
	sources, from := 0, e.ValueFrom
	if from.FieldRef != nil {
		sources++
		v.fieldRef(child(p, "fieldRef"), from.FieldRef, envFields)
	}
	if from.ResourceFieldRef != nil {
		sources++
		v.resourceFieldRef(child(p, "resourceFieldRef"), from.ResourceFieldRef, false)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		v.keyRef(child(p, "configMapKeyRef"), r.Name, r.Key)
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		v.keyRef(child(p, "secretKeyRef"), r.Name, r.Key)
	}
	if from.FileKeyRef != nil {
		sources++
		v.fileKeyRef(child(p, "fileKeyRef"), from.FileKeyRef)
	}
	switch {
	case sources == 0 && gate.EnvFiles:
		v.Invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case sources == 0:
		v.Invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")
	case e.Value != "":
		v.Invalid(p, "", "may not be specified when `value` is not empty")
	case sources > 1:
		v.Invalid(p, "", "may not have more than one field specified at a time")
	}
}

// keyRef checks a key of a ConfigMap or Secret.
func (v *validator) keyRef(p *field.Path, name, key string) {
	v.ObjectName(child(p, "name"), name, false)
	if key == "" {
		v.Required(child(p, "key"), "")
		return
	}
	v.Each(child(p, "key"), key, validation.IsConfigMapKey(key))
}

func (v *validator) fileKeyRef(p *field.Path, r *v1.FileKeySelector) {
	if r.Key == "" {
		v.Required(child(p, "key"), "")
	} else {
		v.Each(child(p, "key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	if r.VolumeName == "" {
		v.Required(child(p, "volumeName"), "")
	} else {
		v.DNSLabel(child(p, "volumeName"), r.VolumeName)
	}
	if r.Path == "" {
		v.Required(child(p, "path"), "")
	} else {
		v.NoBacksteps(child(p, "path"), r.Path)
	}
}

// fileKeyVolumes: environment files are read from volumes that only the pod writes.
func (v *validator) fileKeyVolumes(p *field.Path) {
	sources := make(map[string]*v1.VolumeSource, len(v.spec.Volumes))
	for i := range v.spec.Volumes {
		sources[v.spec.Volumes[i].Name] = &v.spec.Volumes[i].VolumeSource
	}
	for at, c := range WithPaths(v.spec, p) {
		for j := range c.Env {
			from := c.Env[j].ValueFrom
			if from == nil || from.FileKeyRef == nil {
				continue
			}
			name := from.FileKeyRef.VolumeName
			where := child(child(child(item(child(at, "env"), j), "valueFrom"), "fileKeyRef"), "volumeName")
			if s, ok := sources[name]; !ok {
				v.NotFound(where, name)
			} else if s.EmptyDir == nil {
				v.Invalid(where, name, "referenced volume must be of type emptyDir")
			}
		}
	}
}

func (v *validator) envFrom(p *field.Path, sources []v1.EnvFromSource) {
	for i, s := range sources {
		at, n := item(p, i), 0
		if s.Prefix != "" {
			v.Each(child(at, "prefix"), s.Prefix, validation.IsRelaxedEnvVarName(s.Prefix))
		}
		ref := func(name, object string) {
			n++
			if object == "" {
				v.Required(child(child(at, name), "name"), "")
			} else {
				v.ObjectName(child(child(at, name), "name"), object, true)
			}
		}
		if s.ConfigMapRef != nil {
			ref("configMapRef", s.ConfigMapRef.Name)
		}
		if s.SecretRef != nil {
			ref("secretRef", s.SecretRef.Name)
		}
		if n == 0 {
			v.Invalid(p, "", "must specify one of: `configMapRef` or `secretRef`")
		} else if n > 1 {
			v.Invalid(p, "", "may not have more than one field specified at a time")
		}
	}
}

// fieldRef checks a reference to a field of the pod: metadata.annotations['key'], metadata.labels['key'] or one of supported.
func (v *validator) fieldRef(p *field.Path, r *v1.ObjectFieldSelector, supported []string) {
	if r.APIVersion == "" {
		v.Required(child(p, "apiVersion"), "")
		return
	}
	if r.FieldPath == "" {
		v.Required(child(p, "fieldPath"), "")
		return
	}
	if r.APIVersion != "v1" {
		v.Invalid(child(p, "fieldPath"), r.FieldPath, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", r.APIVersion))
		return
	}
	path, key, subscripted := SplitSubscript(r.FieldPath)
	if path == "spec.host" {
		path = "spec.nodeName" // as it was called before v1
	}
	// Some fields have older names, or are known and offered nowhere.
	switch {
	case subscripted && path == "metadata.annotations":
		v.Qualified(p, strings.ToLower(key))
	case subscripted && path == "metadata.labels":
		v.Qualified(p, key)
	case subscripted:
		v.Invalid(child(p, "fieldPath"), r.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", r.FieldPath))
	case !convertible(path):
		v.Invalid(child(p, "fieldPath"), r.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label not supported: %s", path))
	case !slices.Contains(supported, path):
		v.Put(field.NotSupported(child(p, "fieldPath"), path, supported))
	}
}

// convertible says whether a path names a field that some reference may use.
func convertible(path string) bool {
	return slices.Contains(envFields, path) || slices.Contains(volumeFields, path) || slices.Contains(convertibleOnly, path)
}

// SplitSubscript takes the key out of a path like metadata.labels['key'].
func SplitSubscript(path string) (base, key string, ok bool) {
	if !strings.HasSuffix(path, "']") {
		return path, "", false
	}
	base, key, ok = strings.Cut(strings.TrimSuffix(path, "']"), "['")
	if !ok || base == "" {
		return path, "", false
	}
	return base, key, true
}

// resourceFieldRef checks a reference to a request or limit; in a volume it must say of which container.
func (v *validator) resourceFieldRef(p *field.Path, r *v1.ResourceFieldSelector, volume bool) {
	hugePages := strings.HasPrefix(r.Resource, "requests.hugepages-") || strings.HasPrefix(r.Resource, "limits.hugepages-")
	switch {
	case volume && r.ContainerName == "":
		v.Required(child(p, "containerName"), "")
	case r.Resource == "":
		v.Required(child(p, "resource"), "")
	case !slices.Contains(resourceFields, r.Resource) && !hugePages:
		v.Put(field.NotSupported(child(p, "resource"), r.Resource, resourceFields))
	}
	if r.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	const memory = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the %s resource"
	divisors, text := memoryDivisors, ""
	switch {
	case strings.HasSuffix(r.Resource, "s.cpu"):
		divisors, text = []string{"1m", "1"}, "only divisor's values 1m and 1 are supported with the cpu resource"
	case strings.HasSuffix(r.Resource, "s.memory"):
		text = fmt.Sprintf(memory, "memory")
	case strings.HasSuffix(r.Resource, "s.ephemeral-storage"):
		text = fmt.Sprintf(memory, "local ephemeral storage")
	case hugePages:
		text = fmt.Sprintf(memory, "hugepages")
	default:
		return
	}
	if !slices.Contains(divisors, r.Divisor.String()) {
		v.Invalid(child(p, "divisor"), r.Resource, text)
	}
}
