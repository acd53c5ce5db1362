package storageobject

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podspec"
)

// DefaultClaim fills what a claim's author left out.
func DefaultClaim(c *v1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = v1.ClaimPending
	}
	if c.Spec.VolumeMode == nil {
		c.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	}
	for _, list := range []v1.ResourceList{c.Spec.Resources.Limits, c.Spec.Resources.Requests, c.Status.Capacity, c.Status.AllocatedResources} {
		check.RoundUp(list)
	}
}

// PrepareClaim settles what a claim is filled from; old is the stored spec, nil on create.
//
// The older field dataSource takes claims and snapshots only: what else a client puts there is dropped, as it always was, unless the
// stored claim has a source. Then the two fields are made to say the same.
func PrepareClaim(spec, old *v1.PersistentVolumeClaimSpec) {
	var none v1.PersistentVolumeClaimSpec
	if old == nil {
		old = &none
	}
	if r := spec.DataSourceRef; !gate.CrossNamespaceVolumeDataSource && r != nil && r.Namespace != nil && *r.Namespace != "" && old.DataSourceRef == nil {
		spec.DataSourceRef = nil
	}
	if old.DataSource == nil && old.DataSourceRef == nil && spec.DataSourceRef == nil && !plainSource(spec.DataSource) {
		spec.DataSource = nil
	}
	alignSources(spec)
}

func plainSource(s *v1.TypedLocalObjectReference) bool {
	if s == nil {
		return false
	}
	group := ""
	if s.APIGroup != nil {
		group = *s.APIGroup
	}
	return s.Kind == "PersistentVolumeClaim" && group == "" || s.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

func alignSources(spec *v1.PersistentVolumeClaimSpec) {
	group := func(g *string) *string {
		if g == nil {
			return nil
		}
		return new(*g)
	}
	switch s, r := spec.DataSource, spec.DataSourceRef; {
	case s != nil && r == nil:
		spec.DataSourceRef = &v1.TypedObjectReference{Kind: s.Kind, Name: s.Name, APIGroup: group(s.APIGroup)}
	case r != nil && s == nil && (r.Namespace == nil || *r.Namespace == ""):
		spec.DataSource = &v1.TypedLocalObjectReference{Kind: r.Kind, Name: r.Name, APIGroup: group(r.APIGroup)}
	}
}

// ValidateClaim judges a new claim.
func ValidateClaim(c *v1.PersistentVolumeClaim) field.ErrorList {
	return podspec.ClaimSpec(&c.Spec, nil, specPath)
}

// ValidateClaimUpdate judges a change: a claim says for good what it wants, except for more room and another class of service once it is
// bound, and the volume that it is bound to.
func ValidateClaimUpdate(c, stored *v1.PersistentVolumeClaim) field.ErrorList {
	var e check.Errors
	old := stored.DeepCopy()
	alignSources(&old.Spec)
	e.Add(podspec.ClaimSpec(&c.Spec, &old.Spec, specPath))
	rest := c.Spec.DeepCopy() // whatever may change is set back to what it was
	was := old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = rest.VolumeName
	}
	classMoved(&e, c, old, rest)
	if c.Status.Phase == v1.ClaimBound {
		if rest.Resources.Requests != nil {
			rest.Resources.Requests[v1.ResourceStorage] = old.Spec.Resources.Requests[v1.ResourceStorage]
		}
		rest.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(rest, was) {
		e.Forbidden(specPath, fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(check.Shown(*was), check.Shown(*rest))))
	}
	size, before, has := c.Spec.Resources.Requests[v1.ResourceStorage], old.Spec.Resources.Requests[v1.ResourceStorage], old.Status.Capacity[v1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(has) <= 0 {
		// Less may be asked for as long as the volume has not grown: growing it may have failed.
		e.Forbidden(specPath.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
	}
	e.Add(apivalidation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if old.Status.CurrentVolumeAttributesClassName != nil && !equality.Semantic.DeepEqual(c.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName) {
		at := specPath.Child("volumeAttributesClassName")
		if class := c.Spec.VolumeAttributesClassName; class == nil {
			e.Forbidden(at, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")
		} else if *class == "" {
			e.Forbidden(at, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil")
		}
	}
	return e.List()
}

// classMoved lets a storage class that was said nowhere, or in an annotation, be said in the field.
func classMoved(e *check.Errors, c, old *v1.PersistentVolumeClaim, rest *v1.PersistentVolumeClaimSpec) {
	class, had := c.Spec.StorageClassName, old.Spec.StorageClassName
	noted, wasNoted := old.Annotations[classAnnotation]
	note, isNoted := c.Annotations[classAnnotation]
	if wasNoted && had == nil && class != nil && *class == noted && (!isNoted || note == noted) {
		rest.StorageClassName = nil
		return
	}
	if note != noted {
		e.Invalid(metaPath.Child("annotations", classAnnotation), note, apivalidation.FieldImmutableErrorMsg)
	}
	if class != nil && had == nil && (!wasNoted || *class == noted) {
		rest.StorageClassName = had
	}
}

// PrepareClaimStatus drops what a switched-off gate guards.
func PrepareClaimStatus(c, old *v1.PersistentVolumeClaim) {
	c.Spec = *old.Spec.DeepCopy()
	if !gate.CSIVolumeHealth && old.Status.HealthStatus == nil {
		c.Status.HealthStatus = nil
	}
}

// ValidateClaimStatus judges a report on a claim.
func ValidateClaimStatus(c *v1.PersistentVolumeClaim) field.ErrorList {
	var e check.Errors
	if len(c.Spec.AccessModes) == 0 {
		e.Required(field.NewPath("Spec", "accessModes"), "")
	}
	basic := func(p *field.Path, name v1.ResourceName, list v1.ResourceList) bool {
		q := list[name]
		if q.Value() < 0 {
			e.Invalid(p.Key(string(name)), q.Value(), "must be a valid resource quantity")
			return false
		}
		return true
	}
	for _, name := range check.Sorted(c.Status.Capacity) {
		basic(statusPath.Child("capacity"), name, c.Status.Capacity)
	}
	if h := c.Status.HealthStatus; h != nil {
		for i, cond := range h.HealthConditions {
			if cond.Reason != "" {
				e.Each(statusPath.Child("healthStatus", "healthConditions").Index(i).Child("reason"), cond.Reason, metav1validation.IsValidConditionReason(cond.Reason))
			}
		}
	}
	p := statusPath.Child("allocatedResourceStatuses")
	for _, name := range check.Sorted(c.Status.AllocatedResourceStatuses) {
		storageName(&e, p, name)
		switch c.Status.AllocatedResourceStatuses[name] {
		case v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimControllerResizeInfeasible,
			v1.PersistentVolumeClaimNodeResizeInProgress, v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimNodeResizePending:
		default:
			e.Put(field.NotSupported(p, name, []v1.ClaimResourceStatus{
				v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimControllerResizeInfeasible,
				v1.PersistentVolumeClaimNodeResizeInProgress, v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimNodeResizePending,
			}))
		}
	}
	p = statusPath.Child("allocatedResources")
	for _, name := range check.Sorted(c.Status.AllocatedResources) {
		if storageName(&e, p, name) && basic(p, name, c.Status.AllocatedResources) {
			e.Quantity(p.Key(string(name)), v1.ResourceStorage, c.Status.AllocatedResources[name])
		}
	}
	return e.List()
}

// storageName: of Kubernetes' own resources a claim has only storage.
func storageName(e *check.Errors, p *field.Path, name v1.ResourceName) bool {
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		e.Each(p, string(name), msgs)
		return false
	}
	if check.IsNative(name) && name != v1.ResourceStorage {
		e.Put(field.NotSupported(p, string(name), []v1.ResourceName{v1.ResourceStorage}))
		return false
	}
	return true
}

// ClaimWarnings tells what is accepted of a claim but unwise.
func ClaimWarnings(c *v1.PersistentVolumeClaim) []string {
	var out []string
	if _, ok := c.Annotations[classAnnotation]; ok {
		out = append(out, metaPath.Child("annotations").Key(classAnnotation).String()+`: deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	return append(out, SizeWarnings(&c.Spec, specPath)...)
}

// SizeWarnings tells which sizes of a claim's spec, which stands at p, are accepted but unwise.
func SizeWarnings(spec *v1.PersistentVolumeClaimSpec, p *field.Path) []string {
	var out []string
	for _, l := range []struct {
		name string
		list v1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		if q := l.list[v1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				p.Child("resources", l.name).Key("storage"), q.String()))
		}
	}
	return out
}

// ClaimColumns describe a claim's row, its name and age excepted.
func ClaimColumns(name, age metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	spec, status := v1.PersistentVolumeClaimSpec{}.SwaggerDoc(), v1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	column := func(name, doc string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: doc}
	}
	mode := column("VolumeMode", spec["volumeMode"])
	mode.Priority = 1
	return []metav1.TableColumnDefinition{
		name, column("Status", status["phase"]), column("Volume", spec["volumeName"]), column("Capacity", status["capacity"]),
		column("Access Modes", status["accessModes"]), column("StorageClass", "StorageClass of the pvc"),
		column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), age, mode,
	}
}

// ClaimRow is a claim as `kubectl get` shows it.
func ClaimRow(c *v1.PersistentVolumeClaim, age string) []any {
	phase, capacity, access := string(c.Status.Phase), "", ""
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	if c.Spec.VolumeName != "" {
		size := c.Status.Capacity[v1.ResourceStorage]
		capacity, access = size.String(), modes(c.Status.AccessModes)
	}
	class, ok := c.Annotations[classAnnotation]
	if !ok && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, access, class, shown(c.Spec.VolumeAttributesClassName), age, shown(c.Spec.VolumeMode),
	}
}
