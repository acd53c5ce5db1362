// Package certificates has the rules of the kinds of certificates.k8s.io.
package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

var (
	specPath      = field.NewPath("spec")
	statusPath    = field.NewPath("status")
	conditionPath = statusPath.Child("conditions")
)

// ParseRequest reads a PKCS#10 request in PEM.
func ParseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// legacySigner is that of the beta API, which objects of it may still have.
const legacySigner = "kubernetes.io/legacy-unknown"

// usages are all that there are, in the order in which a message lists them.
var usages = []v1.KeyUsage{
	v1.UsageAny, v1.UsageCertSign, v1.UsageClientAuth, v1.UsageCodeSigning, v1.UsageContentCommitment, v1.UsageCRLSign, v1.UsageDataEncipherment,
	v1.UsageDecipherOnly, v1.UsageDigitalSignature, v1.UsageEmailProtection, v1.UsageEncipherOnly, v1.UsageIPsecEndSystem, v1.UsageIPsecTunnel,
	v1.UsageIPsecUser, v1.UsageKeyAgreement, v1.UsageKeyEncipherment, v1.UsageMicrosoftSGC, v1.UsageNetscapeSGC, v1.UsageOCSPSigning,
	v1.UsageSMIME, v1.UsageServerAuth, v1.UsageSigning, v1.UsageTimestamping,
}

func init() { slices.Sort(usages) }

// allowance is what the old object does already, so that a change of something else may leave it; and what the endpoint may set.
type allowance struct {
	approval, certificate bool // the endpoint's

	bothVerdicts, legacySigner, twiceACondition, namelessCondition, anyCertificate, twiceAUsage, anyUsage bool
}

func allowed(r, old *v1.CertificateSigningRequest) allowance {
	if old == nil {
		return allowance{}
	}
	var types []v1.RequestConditionType
	for _, c := range old.Status.Conditions {
		types = append(types, c.Type)
	}
	return allowance{
		bothVerdicts:      slices.Contains(types, v1.CertificateApproved) && slices.Contains(types, v1.CertificateDenied),
		legacySigner:      old.Spec.SignerName == legacySigner,
		twiceACondition:   repeats(types),
		namelessCondition: slices.Contains(types, ""),
		anyCertificate:    bytes.Equal(r.Status.Certificate, old.Status.Certificate) || badCertificate(old.Status.Certificate) != nil,
		twiceAUsage:       repeats(old.Spec.Usages),
		anyUsage:          slices.ContainsFunc(old.Spec.Usages, func(u v1.KeyUsage) bool { return !slices.Contains(usages, u) }),
	}
}

func repeats[T comparable](list []T) bool {
	for i, x := range list {
		if slices.Contains(list[:i], x) {
			return true
		}
	}
	return false
}

// PrepareRequest clears what the server says of a new request: who asks for it is noted by NoteCreator.
func PrepareRequest(r *v1.CertificateSigningRequest) {
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "", "", nil, nil
	r.Status = v1.CertificateSigningRequestStatus{}
}

// NoteCreator says who asks.
func NoteCreator(r *v1.CertificateSigningRequest, who authenticationv1.UserInfo) {
	r.Spec.Username, r.Spec.UID, r.Spec.Groups = who.Username, who.UID, who.Groups
	for k, v := range who.Extra {
		if r.Spec.Extra == nil {
			r.Spec.Extra = map[string]v1.ExtraValue{}
		}
		r.Spec.Extra[k] = v1.ExtraValue(v)
	}
}

// ValidateRequest judges a whole request.
func ValidateRequest(r *v1.CertificateSigningRequest) field.ErrorList {
	return validateRequest(r, allowance{})
}

// ValidateRequestUpdate judges a change of the object, ValidateRequestStatus one of its status, ValidateApproval one of its conditions.
func ValidateRequestUpdate(r, old *v1.CertificateSigningRequest) field.ErrorList {
	return validateChange(r, old, allowed(r, old))
}

// ValidateRequestStatus is described at ValidateRequestUpdate.
func ValidateRequestStatus(r, old *v1.CertificateSigningRequest) field.ErrorList {
	may := allowed(r, old)
	may.certificate = true
	return validateChange(r, old, may)
}

// ValidateApproval is described at ValidateRequestUpdate.
func ValidateApproval(r, old *v1.CertificateSigningRequest) field.ErrorList {
	may := allowed(r, old)
	may.approval = true
	return validateChange(r, old, may)
}

func validateRequest(r *v1.CertificateSigningRequest, may allowance) field.ErrorList {
	var e check.Errors
	s := &r.Spec
	p := specPath.Child("request")
	if parsed, err := ParseRequest(s.Request); err != nil {
		e.Invalid(p, s.Request, err.Error())
	} else if err := parsed.CheckSignature(); err != nil {
		e.Invalid(p, s.Request, err.Error())
	}
	validateUsages(&e, specPath.Child("usages"), s.Usages, may)
	if p := specPath.Child("signerName"); s.SignerName == legacySigner && !may.legacySigner {
		e.Invalid(p, s.SignerName, "the legacy signerName is not allowed via this API version")
	} else {
		e.SignerName(p, s.SignerName)
	}
	if x := s.ExpirationSeconds; x != nil && *x < 600 {
		e.Invalid(specPath.Child("expirationSeconds"), *x, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	validateConditions(&e, r.Status.Conditions, may)
	if !may.anyCertificate {
		if err := badCertificate(r.Status.Certificate); err != nil {
			e.Invalid(statusPath.Child("certificate"), "<certificate data>", err.Error())
		}
	}
	return e.List()
}

func validateUsages(e *check.Errors, p *field.Path, list []v1.KeyUsage, may allowance) {
	if len(list) == 0 {
		e.Required(p, "")
	}
	if !may.anyUsage {
		for i, u := range list {
			check.OneOf(e, p.Index(i), u, usages...)
		}
	}
	if !may.twiceAUsage {
		for i, u := range list {
			if slices.Contains(list[:i], u) {
				e.Duplicate(p.Index(i), u)
			}
		}
	}
}

// verdicts are the conditions that hold when they are there, and that stay.
var verdicts = []v1.RequestConditionType{v1.CertificateApproved, v1.CertificateDenied, v1.CertificateFailed}

func validateConditions(e *check.Errors, list []v1.CertificateSigningRequestCondition, may allowance) {
	var seen []v1.RequestConditionType
	for i, c := range list {
		p := conditionPath.Index(i)
		if c.Type == "" && !may.namelessCondition {
			e.Required(p.Child("type"), "")
		}
		statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(verdicts, c.Type) {
			statuses = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		check.RequiredOneOf(e, p.Child("status"), c.Status, statuses...)
		if !may.twiceACondition && slices.Contains(seen, c.Type) {
			e.Duplicate(p.Child("type"), c.Type)
		}
		seen = append(seen, c.Type)
	}
}

func validateChange(r, old *v1.CertificateSigningRequest, may allowance) field.ErrorList {
	var e check.Errors
	e.Add(validateRequest(r, may))
	for _, t := range verdicts {
		if len(ofType(r, t)) < len(ofType(old, t)) {
			e.Forbidden(conditionPath, fmt.Sprintf("updates may not remove a condition of type %q", t))
		}
	}
	if !may.approval {
		for _, t := range []v1.RequestConditionType{v1.CertificateApproved, v1.CertificateDenied} {
			before, after := ofType(old, t), ofType(r, t)
			switch {
			case len(after) > len(before):
				e.Forbidden(conditionPath, fmt.Sprintf("updates may not add a condition of type %q", t))
			case len(after) == len(before) && !equality.Semantic.DeepEqual(before, after):
				e.Forbidden(conditionPath, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, diff.Diff(before, after)))
			}
		}
	}
	if p := statusPath.Child("certificate"); !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		if !may.certificate {
			e.Forbidden(p, "updates may not set certificate content")
		} else if len(old.Status.Certificate) > 0 {
			e.Forbidden(p, "updates may not modify existing certificate content")
		}
	}
	if !may.bothVerdicts && len(ofType(r, v1.CertificateApproved)) > 0 && len(ofType(r, v1.CertificateDenied)) > 0 {
		e.Invalid(conditionPath, `{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}`,
			"must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`")
	}
	return e.List()
}

func ofType(r *v1.CertificateSigningRequest, t v1.RequestConditionType) (out []v1.CertificateSigningRequestCondition) {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			out = append(out, c)
		}
	}
	return out
}

// badCertificate says what of a chain in PEM is wrong; none is good.
func badCertificate(chain []byte) error {
	if len(chain) == 0 {
		return nil
	}
	blocks := 0
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		blocks++
		list, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// PrepareRequestStatus keeps what a signer may not change: the request, and the verdict as long as as many of its conditions are
// there. If not, they are left for validation to find.
func PrepareRequestStatus(r, old *v1.CertificateSigningRequest) {
	r.Spec = *old.Spec.DeepCopy()
	for _, t := range []v1.RequestConditionType{v1.CertificateApproved, v1.CertificateDenied} {
		before := ofType(old, t)
		if len(before) != len(ofType(r, t)) {
			continue
		}
		for i := range r.Status.Conditions {
			if r.Status.Conditions[i].Type == t {
				r.Status.Conditions[i], before = before[0], before[1:]
			}
		}
	}
}

// PrepareApproval keeps everything but the conditions.
func PrepareApproval(r, old *v1.CertificateSigningRequest) {
	r.Spec = *old.Spec.DeepCopy()
	r.Status.Certificate = old.Status.Certificate
}

// StampConditions gives conditions the times that they lack.
func StampConditions(r, old *v1.CertificateSigningRequest, at time.Time) {
	now := metav1.NewTime(at)
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, o := range old.Status.Conditions {
			if o.Type == c.Type && o.Status == c.Status && !o.LastTransitionTime.IsZero() {
				c.LastTransitionTime = o.LastTransitionTime
				break
			}
		}
	}
}

// RequestColumns and RequestRow make `kubectl get csr`.
func RequestColumns(name, age metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	// The texts are still those of the beta version.
	spec, status := v1beta1.CertificateSigningRequestSpec{}.SwaggerDoc(), v1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		name, age,
		{Name: "SignerName", Type: "string", Description: spec["signerName"]},
		{Name: "Requestor", Type: "string", Description: spec["request"]},
		{Name: "RequestedDuration", Type: "string", Description: spec["expirationSeconds"]},
		{Name: "Condition", Type: "string", Description: status["conditions"]},
	}
}

// RequestRow is described at RequestColumns.
func RequestRow(r *v1.CertificateSigningRequest, age string) []any {
	signer, requested := "<none>", "<none>"
	if r.Spec.SignerName != "" {
		signer = r.Spec.SignerName
	}
	if x := r.Spec.ExpirationSeconds; x != nil {
		requested = duration.HumanDuration(time.Duration(*x) * time.Second)
	}
	return []any{r.Name, age, signer, r.Spec.Username, requested, state(r)}
}

func state(r *v1.CertificateSigningRequest) string {
	has := func(t v1.RequestConditionType) bool { return len(ofType(r, t)) > 0 }
	words := []string{"Pending"}
	switch {
	case has(v1.CertificateDenied):
		words[0] = "Denied"
	case has(v1.CertificateApproved):
		words[0] = "Approved"
	}
	if has(v1.CertificateFailed) {
		words = append(words, "Failed")
	}
	if len(r.Status.Certificate) > 0 {
		words = append(words, "Issued")
	}
	return strings.Join(words, ",")
}
