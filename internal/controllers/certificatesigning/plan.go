// Package certificatesigning signs approved requests with the cluster's authority, for the four signers that every cluster has. A request
// that is none of its signer's fails, with the reason in its conditions.
package certificatesigning

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/certificates"
)

// legacyUnknown signs whatever is approved. New requests cannot name it any more.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// signers judge a request: nil for one that is theirs.
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientKubeletSignerName: certificates.KubeletClient,
	certificatesv1.KubeletServingSignerName:             certificates.KubeletServing,
	certificatesv1.KubeAPIServerClientSignerName: func(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
		return clientUsages(usages)
	},
	legacyUnknown: func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func clientUsages(usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		if u != certificatesv1.UsageClientAuth && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// Due says that a request waits for us.
func Due(r *certificatesv1.CertificateSigningRequest) bool {
	if signers[r.Spec.SignerName] == nil || len(r.Status.Certificate) > 0 {
		return false
	}
	approved := false
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied:
			return false
		case certificatesv1.CertificateFailed:
			if c.Status == "" || c.Status == v1.ConditionTrue {
				return false
			}
		}
	}
	return approved
}

// Fail says why a request will not be signed.
func Fail(r *certificatesv1.CertificateSigningRequest, why error) {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: v1.ConditionTrue, Reason: "SignerValidationFailure", Message: why.Error(),
	})
}

const (
	longest  = 365 * 24 * time.Hour
	shortest = 10 * time.Minute
	// backdate forgives a peer whose clock is somewhat behind; what lives less than short is not shortened by it.
	backdate = 5 * time.Minute
	short    = 8 * time.Hour
)

// Template is the certificate that a request becomes, signed by an authority that ends at end: what the request says of its holder, the
// usages that were approved, and none of its extensions. invalid is why the request fails for good, err why it cannot be signed now.
func Template(r *certificatesv1.CertificateSigningRequest, now, end time.Time) (t *x509.Certificate, invalid, err error) {
	parsed, err := certificates.ParseRequest(r.Spec.Request)
	if err == nil {
		err = parsed.CheckSignature()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the request %s cannot be read: %w", r.Name, err)
	}
	if invalid := signers[r.Spec.SignerName](parsed, r.Spec.Usages); invalid != nil {
		return nil, invalid, nil
	}
	t = &x509.Certificate{
		Subject: parsed.Subject, DNSNames: parsed.DNSNames, IPAddresses: parsed.IPAddresses, EmailAddresses: parsed.EmailAddresses, URIs: parsed.URIs,
		PublicKey: parsed.PublicKey, BasicConstraintsValid: true,
	}
	if err := use(t, r.Spec.Usages); err != nil {
		return nil, nil, err
	}
	life := lifetime(r.Spec.ExpirationSeconds)
	t.NotBefore, t.NotAfter = now.Add(-backdate), now.Add(life)
	if life >= short {
		t.NotAfter = t.NotAfter.Add(-backdate)
	}
	if !now.Before(end) {
		return nil, nil, fmt.Errorf("the signer has expired: NotAfter=%v", end)
	}
	if t.NotAfter.After(end) {
		t.NotAfter = end
	}
	return t, nil, nil
}

func lifetime(seconds *int32) time.Duration {
	if seconds == nil {
		return longest
	}
	return min(max(time.Duration(*seconds)*time.Second, shortest), longest)
}

var keyUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var purposes = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

func use(t *x509.Certificate, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		usage, isUsage := keyUsages[u]
		purpose, isPurpose := purposes[u]
		switch {
		case isUsage:
			t.KeyUsage |= usage
		case !isPurpose:
			return fmt.Errorf("unrecognized usage values: %q", u)
		case !slices.Contains(t.ExtKeyUsage, purpose):
			t.ExtKeyUsage = append(t.ExtKeyUsage, purpose)
		}
	}
	slices.Sort(t.ExtKeyUsage)
	return nil
}
