package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// PodRequestEnds are the conditions that a request ends with, one of them and for good.
var PodRequestEnds = []string{
	v1.PodCertificateRequestConditionTypeIssued, v1.PodCertificateRequestConditionTypeDenied, v1.PodCertificateRequestConditionTypeFailed,
}

// ValidatePodRequestStatus judges what a signer says, once the metadata is found good. The first finding of a certificate is the last
// that is told.
func ValidatePodRequestStatus(r, old *v1.PodCertificateRequest, now time.Time) field.ErrorList {
	if len(apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))) > 0 {
		return nil
	}
	var e check.Errors
	podConditions(&e, r.Status.Conditions)
	if len(e.List()) > 0 {
		return e.List()
	}
	same := func(a, b v1.PodCertificateRequestStatus, why string) field.ErrorList {
		if !equality.Semantic.DeepEqual(a, b) {
			e.Put(field.Invalid(statusPath, field.OmitValueType{}, why))
		}
		return e.List()
	}
	switch {
	case has(old.Status.Conditions, PodRequestEnds...):
		return same(r.Status, old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	case has(r.Status.Conditions, v1.PodCertificateRequestConditionTypeDenied, v1.PodCertificateRequestConditionTypeFailed):
		return same(r.Status, v1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	case has(r.Status.Conditions, v1.PodCertificateRequestConditionTypeIssued):
		return validateIssued(r, old, now)
	}
	return same(r.Status, old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

func podConditions(e *check.Errors, list []metav1.Condition) {
	known := 0
	for i, c := range list {
		p := statusPath.Child("conditions", "["+strconv.Itoa(i)+"]")
		if !slices.Contains(PodRequestEnds, c.Type) {
			e.Put(field.NotSupported(p.Child("type"), c.Type, PodRequestEnds))
			continue
		}
		if known++; known > 1 {
			e.Invalid(p.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`)
		}
		if c.Status != metav1.ConditionTrue {
			e.Put(field.NotSupported(p.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	e.Add(metav1validation.ValidateConditions(list, conditionPath))
}

var (
	chainPath   = statusPath.Child("certificateChain")
	beforePath  = statusPath.Child("notBefore")
	afterPath   = statusPath.Child("notAfter")
	refreshPath = statusPath.Child("beginRefreshAt")
)

func validateIssued(r, old *v1.PodCertificateRequest, now time.Time) field.ErrorList {
	var e check.Errors
	s := &r.Status
	if len(s.CertificateChain) > maxChain {
		e.TooLong(chainPath, maxChain)
		return e.List()
	}
	leaf, rest, why := readLeaf(s.CertificateChain)
	if why != "" {
		e.Invalid(chainPath, s.CertificateChain, why)
		return e.List()
	}
	leafNames(&e, leaf)
	if !keyMatches(&e, leaf, s.CertificateChain, &old.Spec) {
		return e.List()
	}
	if s.NotBefore == nil {
		e.Required(beforePath, "must be present and consistent with the issued certificate")
	}
	if s.NotAfter == nil {
		e.Required(afterPath, "must be present and consistent with the issued certificate")
	}
	if s.BeginRefreshAt == nil {
		e.Required(refreshPath, "must be present and in the range [notbefore+10min, notafter-10min]")
	}
	if len(e.List()) > 0 {
		return e.List()
	}
	if p, value, why := wrongTimes(r, leaf, now); why != "" {
		e.Invalid(p, value, why)
		return e.List()
	}
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			e.Invalid(chainPath, s.CertificateChain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")
			return e.List()
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			e.Invalid(chainPath, s.CertificateChain, "intermediate certificate does not parse as valid X.509")
			return e.List()
		}
	}
	return e.List()
}

func readLeaf(chain string) (leaf *x509.Certificate, rest []byte, why string) {
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return nil, nil, "issued certificate chain must contain at least one certificate"
	}
	if block.Type != "CERTIFICATE" {
		return nil, nil, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, "leaf certificate does not parse as valid X.509"
	}
	return leaf, rest, ""
}

func leafNames(e *check.Errors, leaf *x509.Certificate) {
	for _, n := range leaf.DNSNames {
		if n == "" {
			e.Invalid(chainPath, n, "leaf certificate should not contain empty DNSName")
		}
		if strings.Contains(n, "..") {
			e.Invalid(chainPath, n, "leaf certificate's DNSName should not contain '..'")
		}
		if strings.HasPrefix(n, ".") || strings.HasSuffix(n, ".") {
			e.Invalid(chainPath, n, "leaf certificate's DNSName should not start or end with '.'")
		}
	}
	for _, a := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(a); err != nil {
			e.Invalid(chainPath, a, "leaf certificate should not contain invalid EmailAddress")
		}
	}
}

// keyMatches says that the certificate is for the key that it was asked for.
func keyMatches(e *check.Errors, leaf *x509.Certificate, chain string, spec *v1.PodCertificateRequestSpec) bool {
	stub, err := x509.ParseCertificateRequest(spec.StubPKCS10Request)
	if err != nil {
		e.Put(field.Invalid(stubPath, field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
		return false
	}
	if key, ok := stub.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		e.Invalid(chainPath, chain, "leaf certificate was not issued to the requested public key")
		return false
	}
	return true
}

// wrongTimes is the first that is wrong with the times of a certificate, and with those that its request tells of it.
func wrongTimes(r *v1.PodCertificateRequest, leaf *x509.Certificate, now time.Time) (p *field.Path, value any, why string) {
	const near, margin = 5 * time.Minute, 10 * time.Minute
	before, after, refresh := r.Status.NotBefore.Time, r.Status.NotAfter.Time, r.Status.BeginRefreshAt.Time
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case !before.Equal(leaf.NotBefore):
		return beforePath, before, "must be set to the NotBefore time encoded in the leaf certificate"
	case !before.After(now.Add(-near)) || !before.Before(now.Add(near)):
		return beforePath, before, "must be set to within 5 minutes of kube-apiserver's current time"
	case !after.Equal(leaf.NotAfter):
		return afterPath, after, "must be set to the NotAfter time encoded in the leaf certificate"
	case life < time.Hour:
		return chainPath, life, "leaf certificate lifetime must be >= 1 hour"
	case life > time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second:
		return chainPath, life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", *r.Spec.MaxExpirationSeconds)
	case refresh.Before(before.Add(margin)):
		return refreshPath, refresh, "must be at least 10 minutes after status.notBefore"
	case refresh.After(after.Add(-margin)):
		return refreshPath, refresh, "must be at least 10 minutes before status.notAfter"
	}
	return nil, nil, ""
}
