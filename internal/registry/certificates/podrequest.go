package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"

	v1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

const (
	shortest           = 60 * 60
	longestKubernetes  = 24 * 60 * 60
	longest            = 91 * 24 * 60 * 60
	maxUID             = 128
	maxStub            = 10 << 10
	maxChain           = 100 << 10
	defaultMaxLifetime = 86400
)

var stubPath = specPath.Child("stubPKCS10Request")

// DefaultPodRequest fills what was left out.
func DefaultPodRequest(r *v1.PodCertificateRequest) {
	if r.Spec.MaxExpirationSeconds == nil {
		r.Spec.MaxExpirationSeconds = new(int32(defaultMaxLifetime))
	}
}

// ValidatePodRequest judges a whole request.
func ValidatePodRequest(r *v1.PodCertificateRequest) field.ErrorList {
	var e check.Errors
	s := &r.Spec
	e.SignerName(specPath.Child("signerName"), s.SignerName)
	p := specPath.Child("unverifiedUserAnnotations")
	for _, k := range check.Sorted(s.UnverifiedUserAnnotations) {
		e.Add(validation.IsDomainPrefixedKey(p, strings.ToLower(k)))
	}
	if apivalidation.ValidateAnnotationsSize(s.UnverifiedUserAnnotations) != nil {
		e.TooLong(p, apivalidation.TotalAnnotationSizeLimitB)
	}
	named := func(what string, name any, uid string) {
		e.Each(specPath.Child(what+"Name"), name, validation.IsDNS1123Subdomain(fmt.Sprint(name)))
		p := specPath.Child(what + "UID")
		if uid == "" {
			e.Invalid(p, uid, "must not be empty")
		}
		if len(uid) > maxUID {
			e.TooLong(p, maxUID)
		}
	}
	named("pod", s.PodName, string(s.PodUID))
	named("serviceAccount", s.ServiceAccountName, string(s.ServiceAccountUID))
	named("node", s.NodeName, string(s.NodeUID))
	p = specPath.Child("maxExpirationSeconds")
	if s.MaxExpirationSeconds == nil {
		e.Required(p, "must be set")
		return e.List()
	}
	most := int32(longest)
	if check.KubernetesSigner(s.SignerName) {
		most = longestKubernetes
	}
	if x := *s.MaxExpirationSeconds; x < shortest || x > most {
		e.Invalid(p, x, fmt.Sprintf("must be in the range [%d, %d]", shortest, most))
	}
	if len(s.StubPKCS10Request) == 0 {
		// The other two are those of older versions of the API.
		e.Put(field.Invalid(specPath, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
		return e.List()
	}
	validateStub(&e, s)
	return e.List()
}

func goodCurve(k *ecdsa.PublicKey) bool {
	return k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521()
}

func goodModulus(k *rsa.PublicKey) bool { return k.Size() == 3072/8 || k.Size() == 4096/8 }

// validateStub tells the first thing that is wrong with the key, and no more.
func validateStub(e *check.Errors, s *v1.PodCertificateRequestSpec) {
	if len(s.StubPKCS10Request) > maxStub {
		e.TooLong(stubPath, maxStub)
		return
	}
	refuse := func(value any, why string) { e.Put(field.Invalid(stubPath, value, why)) }
	r, err := x509.ParseCertificateRequest(s.StubPKCS10Request)
	if err != nil {
		refuse(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return
	}
	switch key := r.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if !goodCurve(key) {
			refuse("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
			return
		}
	case *rsa.PublicKey:
		if !goodModulus(key) {
			refuse(fmt.Sprintf("%d-bit modulus", key.Size()*8), "RSA keys must have modulus size 3072 or 4096")
			return
		}
	default:
		refuse(field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
		return
	}
	if r.CheckSignature() != nil {
		refuse(field.OmitValueType{}, "invalid signature")
	}
}

// ValidatePodRequestUpdate judges a change of the object: nothing but its metadata may change.
func ValidatePodRequestUpdate(r, old *v1.PodCertificateRequest) field.ErrorList {
	if equality.Semantic.DeepEqual(r.Spec, old.Spec) {
		return nil
	}
	var e check.Errors
	s := &r.Spec
	// As upstream shows it, which still knows the fields of older versions of the API.
	e.Invalid(specPath, struct {
		SignerName, PodName, PodUID, ServiceAccountName, ServiceAccountUID, NodeName, NodeUID string
		MaxExpirationSeconds                                                                  *int32
		PKIXPublicKey, ProofOfPossession, StubPKCS10Request                                   []byte
		UnverifiedUserAnnotations                                                             map[string]string
	}{
		s.SignerName, s.PodName, string(s.PodUID), s.ServiceAccountName, string(s.ServiceAccountUID), string(s.NodeName), string(s.NodeUID),
		s.MaxExpirationSeconds, nil, nil, s.StubPKCS10Request, s.UnverifiedUserAnnotations,
	}, apivalidation.FieldImmutableErrorMsg)
	return e.List()
}

// PodRequestColumns and PodRequestRow make `kubectl get podcertificaterequests`.
func PodRequestColumns(name metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	doc := v1.PodCertificateRequestSpec{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		name,
		{Name: "PodName", Type: "string", Description: doc["podName"]},
		{Name: "ServiceAccountName", Type: "string", Description: doc["serviceAccountName"]},
		{Name: "NodeName", Type: "string", Description: doc["nodeName"]},
		{Name: "SignerName", Type: "string", Description: doc["signerName"]},
		{Name: "State", Type: "string", Description: "Is the request Pending, Issued, Denied, or Failed?"},
		{Name: "UnverifiedUserAnnotations", Type: "string", Description: doc["unverifiedUserAnnotations"]},
	}
}

// PodRequestRow is described at PodRequestColumns.
func PodRequestRow(r *v1.PodCertificateRequest) []any {
	state := "Pending"
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case v1.PodCertificateRequestConditionTypeIssued, v1.PodCertificateRequestConditionTypeDenied, v1.PodCertificateRequestConditionTypeFailed:
			state = c.Type
		}
	}
	return []any{r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state, labels.FormatLabels(r.Spec.UnverifiedUserAnnotations)}
}
