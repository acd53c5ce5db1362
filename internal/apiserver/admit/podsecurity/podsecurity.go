// Package podsecurity enforces the pod security standards as namespaces' labels demand: it rejects, warns, and annotates the
// audit log. The standards themselves are upstream's library.
package podsecurity

import (
	"context"
	"errors"
	"io"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/view"
)

// Rule is the admission rule.
type Rule struct{ library *admission.Admission }

var recorder = sync.OnceValue(func() metrics.Recorder {
	r := metrics.NewPrometheusRecorder(api.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

// New makes the rule. config is a PodSecurityConfiguration with the defaults for namespaces without labels, and the exemptions;
// nil is upstream's default: privileged everywhere, no exemptions.
func New(v *view.View, config io.Reader) (*Rule, error) {
	configuration, err := load.LoadFromReader(config)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	content := reader{v}
	a := &admission.Admission{
		Configuration: configuration, Evaluator: evaluator, Metrics: recorder(),
		PodSpecExtractor: admission.DefaultPodSpecExtractor{}, NamespaceGetter: content, PodLister: content,
	}
	if err := a.CompleteConfiguration(); err != nil {
		return nil, err
	}
	return &Rule{a}, a.ValidateConfiguration()
}

// Name implements admit.Named.
func (*Rule) Name() string { return "PodSecurity" }

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Validate implements admit.Validator. It ignores bindings, statuses and other subresources.
func (r *Rule) Validate(ctx context.Context, a *admit.Attributes) error {
	if a.Op != admit.Create && a.Op != admit.Update || a.Ref.Resource != namespaces && !r.library.PodSpecExtractor.HasPodSpec(a.Ref.Resource) {
		return nil
	}
	namespace := a.Ref.Namespace
	if a.Ref.Resource == namespaces {
		namespace = a.Ref.Name
	}
	answer := r.library.Validate(ctx, &api.AttributesRecord{
		Name: a.KnownName(), Namespace: namespace, Kind: a.Kind.GVK, Resource: a.Ref.Resource.WithVersion(a.Kind.GVK.Version),
		Subresource: a.Ref.Subresource, Operation: admissionv1.Operation(a.Op), Object: a.Object, OldObject: a.Old, Username: a.User.GetName(),
	})
	for _, text := range answer.Warnings {
		a.Warn(text)
	}
	for key, value := range answer.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	if answer.Allowed {
		return nil
	}
	//lint:ignore ST1005 upstream's text
	e := apierrors.NewForbidden(a.Ref.Resource, a.Ref.Name, errors.New("Not allowed by PodSecurity"))
	if s := answer.Result; s != nil {
		if s.Message != "" {
			e.ErrStatus.Message = s.Message
		}
		if s.Reason != "" {
			e.ErrStatus.Reason = s.Reason
		}
		if s.Details != nil {
			e.ErrStatus.Details = s.Details
		}
		if s.Code != 0 {
			e.ErrStatus.Code = s.Code
		}
	}
	return e
}

// reader is the library's access to the cluster.
type reader struct{ view *view.View }

func (r reader) GetNamespace(ctx context.Context, name string) (*v1.Namespace, error) {
	e := r.view.Snapshot().Get(namespaces, "", name)
	if e == nil { // the view may be behind
		s, err := r.view.Fresh(ctx)
		if err != nil {
			return nil, err
		}
		if e = s.Get(namespaces, "", name); e == nil {
			return nil, apierrors.NewNotFound(namespaces, name)
		}
	}
	return e.Object.(*v1.Namespace), nil
}

// ListPods is called when a namespace's level changes.
func (r reader) ListPods(ctx context.Context, namespace string) ([]*v1.Pod, error) {
	s, err := r.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	var out []*v1.Pod
	for e := range s.All(schema.GroupResource{Resource: "pods"}, namespace, view.Key{}) {
		out = append(out, e.Object.(*v1.Pod))
	}
	return out, nil
}
