package admit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
)

// may allows a verb on a signer, and nothing else.
type may struct{ verb, signer string }

func (m may) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	return a.Group == "certificates.k8s.io" && a.Resource == "signers" && a.Verb == m.verb && a.Name == m.signer, ""
}

func pemRequest(t *testing.T, groups ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann", Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestWhoSpeaksForASigner(t *testing.T) {
	const signer = "example.com/foo"
	request := func(change func(*certificatesv1.CertificateSigningRequest)) runtime.Object {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
		if change != nil {
			change(r)
		}
		return r
	}
	failed := request(func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed, Status: v1.ConditionTrue}}
	})
	renamed := request(func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.com/bar" })
	bundle := func(signer, text string) runtime.Object {
		return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
	}
	pod := func(reason string) runtime.Object {
		r := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: certificatesv1.PodCertificateRequestSpec{SignerName: signer}}
		if reason != "" {
			r.Status.Conditions = []metav1.Condition{{Type: "Denied", Reason: reason}}
		}
		return r
	}
	for _, c := range []struct {
		name            string
		may             may
		resource, sub   string
		op              admit.Operation
		obj, old        runtime.Object
		refused, detail string
	}{
		{"approved by name", may{"approve", signer}, "certificatesigningrequests", "approval", admit.Update, request(nil), request(nil), "", ""},
		{"approved by domain", may{"approve", "example.com/*"}, "certificatesigningrequests", "approval", admit.Update, request(nil), request(nil), "", ""},
		{"approved by a signer", may{"sign", signer}, "certificatesigningrequests", "approval", admit.Update, request(nil), request(nil), "Forbidden", `user not permitted to approve requests with signerName "example.com/foo"`},
		{"approved under another name", may{"approve", "example.com/bar"}, "certificatesigningrequests", "approval", admit.Update, renamed, request(nil), "Forbidden", "example.com/foo"},
		{"signed", may{"sign", signer}, "certificatesigningrequests", "status", admit.Update, failed, request(nil), "", ""},
		{"signed by another", may{"sign", "example.org/*"}, "certificatesigningrequests", "status", admit.Update, failed, request(nil), "Forbidden", `user not permitted to sign requests with signerName "example.com/foo"`},
		{"nothing signed", may{}, "certificatesigningrequests", "status", admit.Update, failed, failed, "", ""},
		{"the object", may{}, "certificatesigningrequests", "", admit.Update, failed, request(nil), "", ""},
		{"attested", may{"attest", signer}, "clustertrustbundles", "", admit.Create, bundle(signer, "x"), nil, "", ""},
		{"attested by another", may{"sign", signer}, "clustertrustbundles", "", admit.Create, bundle(signer, "x"), nil, "Forbidden", `user not permitted to attest for signerName "example.com/foo"`},
		{"changed by another", may{}, "clustertrustbundles", "", admit.Update, bundle(signer, "y"), bundle(signer, "x"), "Forbidden", "attest"},
		{"stored anew by another", may{}, "clustertrustbundles", "", admit.Update, bundle(signer, "x"), bundle(signer, "x"), "", ""},
		{"of no signer", may{}, "clustertrustbundles", "", admit.Create, bundle("", "x"), nil, "", ""},
		{"a pod's answered", may{"sign", signer}, "podcertificaterequests", "status", admit.Update, pod("x"), pod(""), "", ""},
		{"a pod's answered by another", may{"approve", signer}, "podcertificaterequests", "status", admit.Update, pod("x"), pod(""), "Invalid", `spec.signerName: Forbidden: User "ann" is not permitted to "sign" for signer "example.com/foo"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := client.Resource{Group: "certificates.k8s.io", Resource: c.resource}.At("", "r").Sub(c.sub)
			a := &admit.Attributes{Op: c.op, User: &user.DefaultInfo{Name: "ann"}, Kind: registry.Lookup(ref.Resource), Ref: ref, Object: c.obj, Old: c.old}
			chain := admit.Ordered(&admit.CertificateApproval{Authorizer: c.may}, &admit.CertificateSigning{Authorizer: c.may},
				&admit.ClusterTrustBundleAttest{Authorizer: c.may}, admit.CertificateSubjectRestriction{}, &admit.PodCertificateSigning{Authorizer: c.may})
			err := chain.Validate(t.Context(), a)
			if string(apierrors.ReasonForError(err)) != c.refused || err != nil && !strings.Contains(err.Error(), c.detail) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNobodyAsksToBeEverything(t *testing.T) {
	for _, c := range []struct {
		signer string
		groups []string
		ok     bool
	}{
		{"kubernetes.io/kube-apiserver-client", nil, true},
		{"kubernetes.io/kube-apiserver-client", []string{"a", "system:masters"}, false},
		{"example.com/foo", []string{"system:masters"}, true},
	} {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: c.signer, Request: pemRequest(t, c.groups...)}}
		ref := client.Resource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}.At("", "r")
		err := admit.CertificateSubjectRestriction{}.Validate(t.Context(), &admit.Attributes{Op: admit.Create, Kind: registry.Lookup(ref.Resource), Ref: ref, Object: r})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed") {
			t.Errorf("%s for %v: %v", c.signer, c.groups, err)
		}
	}
}
