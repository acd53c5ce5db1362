package podobject

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podspec"
)

// asPod is a template as the pod that the rules of both know; it shares everything.
func asPod(t *v1.PodTemplateSpec) *v1.Pod { return &v1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec} }

// DefaultTemplate fills what a template's author left out; what is for pods alone comes when they are made.
func DefaultTemplate(t *v1.PodTemplateSpec) { podfill.Default(&t.Spec) }

// DropTemplate removes what a switched-off gate guards and old, nil on create, does not use.
func DropTemplate(t, old *v1.PodTemplateSpec) {
	if t == nil {
		return
	}
	for _, k := range oldInitAnnotations {
		delete(t.Annotations, k)
	}
	if old == nil {
		podfill.Drop(&t.Spec, nil)
		return
	}
	podfill.Drop(&t.Spec, &old.Spec)
}

// ValidateTemplate judges a template, which stands at p; old is nil on create.
func ValidateTemplate(t, old *v1.PodTemplateSpec, p *field.Path) field.ErrorList {
	o := podspec.OptionsFor(nil)
	if old != nil {
		o = podspec.OptionsFor(&old.Spec)
	}
	var e check.Errors
	pod, spec := asPod(t), p.Child("spec")
	e.Add(metav1validation.ValidateLabels(t.Labels, p.Child("labels")))
	e.Add(apivalidation.ValidateAnnotations(t.Annotations, p.Child("annotations")))
	annotations(&e, p.Child("annotations"), pod, o)
	e.Add(podspec.Validate(&t.Spec, spec, o))
	profilesMatch(&e, spec, pod)
	if len(t.Spec.EphemeralContainers) > 0 {
		e.Forbidden(spec.Child("ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
	return e.List()
}

// ValidateTemplateMeta judges of a template only its labels and annotations: those of one whose spec is from an older time.
func ValidateTemplateMeta(t, old *v1.PodTemplateSpec, p *field.Path) field.ErrorList {
	var e check.Errors
	e.Add(metav1validation.ValidateLabels(t.Labels, p.Child("labels")))
	e.Add(apivalidation.ValidateAnnotations(t.Annotations, p.Child("annotations")))
	annotations(&e, p.Child("annotations"), asPod(t), podspec.OptionsFor(&old.Spec))
	return e.List()
}

// TemplateWarnings tells what is accepted of a template, which stands at p, but unwise.
func TemplateWarnings(t *v1.PodTemplateSpec, p *field.Path) []string {
	if t == nil {
		return nil
	}
	w := &warner{spec: p.Child("spec"), notes: p.Child("metadata", "annotations"), template: true}
	w.pod(asPod(t))
	return w.out
}

// Containers are the names and the images of a spec's containers, as columns show them.
func Containers(spec *v1.PodSpec) (names, images string) {
	for i := range spec.Containers {
		if i > 0 {
			names, images = names+",", images+","
		}
		names, images = names+spec.Containers[i].Name, images+spec.Containers[i].Image
	}
	return names, images
}
