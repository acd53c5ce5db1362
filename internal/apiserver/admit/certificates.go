package admit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/registry/certificates"
)

// Speaking for a signer takes the verbs approve, sign and attest on the signer's name, or on all names of its domain.

// forSigner checks whether the writer may do verb for a signer.
func forSigner(ctx context.Context, z authz.Authorizer, a *Attributes, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		ok, _ := z.Authorize(ctx, &authz.Attributes{User: a.User, Verb: verb, Group: certificatesv1.GroupName, Resource: "signers", Name: name})
		if ok {
			return true
		}
	}
	return false
}

// CertificateApproval lets only those approve and deny a signer's requests who may.
type CertificateApproval struct{ Authorizer authz.Authorizer }

// Name implements Named.
func (*CertificateApproval) Name() string { return "CertificateApproval" }

// Validate implements Validator. The stored signer counts, not the one that was sent.
func (c *CertificateApproval) Validate(ctx context.Context, a *Attributes) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Op != Update || a.Ref.Subresource != "approval" || forSigner(ctx, c.Authorizer, a, "approve", old.Spec.SignerName) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("user not permitted to approve requests with signerName %q", old.Spec.SignerName))
}

// CertificateSigning lets only those issue certificates for a signer's requests, or say why not, who may sign for it.
type CertificateSigning struct{ Authorizer authz.Authorizer }

// Name implements Named.
func (*CertificateSigning) Name() string { return "CertificateSigning" }

// Validate implements Validator.
func (c *CertificateSigning) Validate(ctx context.Context, a *Attributes) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Op != Update || a.Ref.Subresource != "status" {
		return nil
	}
	r := a.Object.(*certificatesv1.CertificateSigningRequest)
	if bytes.Equal(old.Status.Certificate, r.Status.Certificate) && apiequality.Semantic.DeepEqual(old.Status.Conditions, r.Status.Conditions) ||
		forSigner(ctx, c.Authorizer, a, "sign", old.Spec.SignerName) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
}

// CertificateSubjectRestriction refuses to ask for a client certificate that may do everything.
type CertificateSubjectRestriction struct{}

// Name implements Named.
func (CertificateSubjectRestriction) Name() string { return "CertificateSubjectRestriction" }

// Validate implements Validator.
func (CertificateSubjectRestriction) Validate(_ context.Context, a *Attributes) error {
	r, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Op != Create || a.Ref.Subresource != "" || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	parsed, err := certificates.ParseRequest(r.Spec.Request)
	if err != nil {
		return forbidden(a, fmt.Sprintf("failed to parse CSR: %v", err))
	}
	if slices.Contains(parsed.Subject.Organization, user.SystemPrivilegedGroup) {
		return forbidden(a, fmt.Sprintf("use of %s signer with system:masters group is not allowed", r.Spec.SignerName))
	}
	return nil
}

// ClusterTrustBundleAttest lets only those publish a signer's trust anchors who may attest for it.
type ClusterTrustBundleAttest struct{ Authorizer authz.Authorizer }

// Name implements Named.
func (*ClusterTrustBundleAttest) Name() string { return "ClusterTrustBundleAttest" }

// Validate implements Validator.
func (c *ClusterTrustBundleAttest) Validate(ctx context.Context, a *Attributes) error {
	b, ok := a.Object.(*certificatesv1.ClusterTrustBundle)
	if !ok || a.Op != Create && a.Op != Update || b.Spec.SignerName == "" || a.Op == Update && bookkeeping(b, a.Old) ||
		forSigner(ctx, c.Authorizer, a, "attest", b.Spec.SignerName) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("user not permitted to attest for signerName %q", b.Spec.SignerName))
}

// PodCertificateSigning lets only those answer pods' requests to a signer who may sign for it. Upstream checks this in
// validation, so the error is one of a field.
type PodCertificateSigning struct{ Authorizer authz.Authorizer }

// Validate implements Validator.
func (c *PodCertificateSigning) Validate(ctx context.Context, a *Attributes) error {
	old, ok := a.Old.(*certificatesv1.PodCertificateRequest)
	if !ok || a.Op != Update || a.Ref.Subresource != "status" {
		return nil
	}
	r := a.Object.(*certificatesv1.PodCertificateRequest)
	if apiequality.Semantic.DeepEqual(old.Status, r.Status) || forSigner(ctx, c.Authorizer, a, "sign", old.Spec.SignerName) {
		return nil
	}
	return apierrors.NewInvalid(a.Kind.GVK.GroupKind(), r.Name, field.ErrorList{field.Forbidden(field.NewPath("spec", "signerName"),
		fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", a.User.GetName(), old.Spec.SignerName))})
}
