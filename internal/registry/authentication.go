package registry

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func tokenReviewKind() *Kind {
	return authenticationReview("TokenReview", "tokenreviews", func() runtime.Object { return &authenticationv1.TokenReview{} })
}

func selfSubjectReviewKind() *Kind {
	return authenticationReview("SelfSubjectReview", "selfsubjectreviews", func() runtime.Object { return &authenticationv1.SelfSubjectReview{} })
}

// authenticationReview is a kind of authentication.k8s.io that is answered and not stored.
func authenticationReview(kind, resource string, empty func() runtime.Object) *Kind {
	return &Kind{
		GVK:      authenticationv1.SchemeGroupVersion.WithKind(kind),
		Resource: resource, Singular: resource[:len(resource)-1],
		Verbs: []string{"create"}, Unstored: true,
		New: empty, NewList: func() runtime.Object { return nil },
	}
}

// tokenRequestGVK is the kind that the subresource "token" of ServiceAccounts takes and answers with.
var tokenRequestGVK = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// TokenRequest is that kind. It is no resource of its own.
var TokenRequest = &Kind{
	GVK: tokenRequestGVK, Unstored: true,
	New: func() runtime.Object { return &authenticationv1.TokenRequest{} }, NewList: func() runtime.Object { return nil },
}

// DefaultTokenRequest gives a token an hour.
func DefaultTokenRequest(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		hour := int64(60 * 60)
		r.Spec.ExpirationSeconds = &hour
	}
}

const minTokenSeconds = 10 * 60

// ValidateTokenRequest checks a defaulted request by itself.
func ValidateTokenRequest(r *authenticationv1.TokenRequest) field.ErrorList {
	var e check.Errors
	p := specPath.Child("expirationSeconds")
	if n := *r.Spec.ExpirationSeconds; n < minTokenSeconds {
		e.Invalid(p, n, "may not specify a duration less than 10 minutes")
	} else if n > 1<<32 {
		e.Invalid(p, n, "may not specify a duration larger than 2^32 seconds")
	}
	p = specPath.Child("attestations")
	if !bindsWebhook(r.Spec.BoundObjectRef) {
		if len(r.Spec.Attestations) > 0 {
			return field.ErrorList{field.Invalid(p, r.Spec.Attestations, "attestations may only be specified with a webhook bound object reference")}
		}
		return e.List()
	}
	if len(r.Spec.Audiences) != 1 {
		e.Invalid(specPath.Child("audiences"), r.Spec.Audiences, "must be length 1 when bound to a webhook config")
	}
	if len(r.Spec.Attestations) != 1 {
		e.Invalid(p, r.Spec.Attestations, "webhook bound requests require exactly one admissionReviewAPIGroups attestation")
		return e.List()
	}
	for key, values := range r.Spec.Attestations {
		attestation(&e, p.Key(key), key, values)
	}
	return e.List()
}

func attestation(e *check.Errors, p *field.Path, key string, values []string) {
	switch {
	case key != authenticationv1.AttestationAdmissionReviewAPIGroups:
		e.Add(field.ErrorList{field.NotSupported(p, key, []string{authenticationv1.AttestationAdmissionReviewAPIGroups})})
	case len(values) != 1:
		e.Invalid(p, values, "must specify a single value")
	case values[0] == "":
		e.Invalid(p.Index(0), "", "may not be an empty string")
	case values[0] != "*":
		for _, text := range validation.IsDNS1123Subdomain(values[0]) {
			e.Invalid(p.Index(0), values[0], "must specify a valid API Group: "+text)
		}
	}
}

func bindsWebhook(to *authenticationv1.BoundObjectReference) bool {
	return to != nil && (to.Kind == "ValidatingWebhookConfiguration" || to.Kind == "MutatingWebhookConfiguration") &&
		to.APIVersion == (schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}).String()
}
