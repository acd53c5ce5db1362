package certificatesigning

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

func request(t *testing.T, signer string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: signer, Usages: usages, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}}
}

func TestTemplate(t *testing.T) {
	const (
		client  = certificatesv1.KubeAPIServerClientSignerName
		kubelet = certificatesv1.KubeAPIServerClientKubeletSignerName
		day     = 24 * time.Hour
	)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	far := now.AddDate(9, 0, 0)
	for _, c := range []struct {
		name    string
		signer  string
		usages  []certificatesv1.KeyUsage
		seconds int32
		end     time.Time
		life    time.Duration // from now on
		why     string
	}{
		{"a year", client, []certificatesv1.KeyUsage{"client auth"}, 0, far, 365*day - 5*time.Minute, ""},
		{"more than a year", client, []certificatesv1.KeyUsage{"client auth"}, int32(400 * day / time.Second), far, 365*day - 5*time.Minute, ""},
		{"an hour", client, []certificatesv1.KeyUsage{"client auth"}, 3600, far, time.Hour, ""},
		{"eight hours", client, []certificatesv1.KeyUsage{"client auth"}, 8 * 3600, far, 8*time.Hour - 5*time.Minute, ""},
		{"a minute", client, []certificatesv1.KeyUsage{"client auth"}, 60, far, 10 * time.Minute, ""},
		{"not beyond the authority", client, []certificatesv1.KeyUsage{"client auth"}, 0, now.Add(day), day, ""},
		{"an authority at its end", client, []certificatesv1.KeyUsage{"client auth"}, 0, now, 0, "the signer has expired"},
		{"a client that serves", client, []certificatesv1.KeyUsage{"client auth", "server auth"}, 0, far, 0, "invalid usage for client certificate: server auth"},
		{"a client that is none", client, []certificatesv1.KeyUsage{"digital signature"}, 0, far, 0, "missing required usage for client certificate: client auth"},
		{"a kubelet", kubelet, []certificatesv1.KeyUsage{"client auth", "digital signature"}, 0, far, 365*day - 5*time.Minute, ""},
		{"a kubelet that serves", kubelet, []certificatesv1.KeyUsage{"server auth", "digital signature"}, 0, far, 0, "usages did not match [client auth digital signature key encipherment]"},
		{"a server without an address", certificatesv1.KubeletServingSignerName, []certificatesv1.KeyUsage{"server auth", "digital signature"}, 0, far, 0, "DNS or IP subjectAltName is required"},
	} {
		r := request(t, c.signer, c.usages...)
		if c.seconds != 0 {
			r.Spec.ExpirationSeconds = &c.seconds
		}
		got, invalid, err := Template(r, now, c.end)
		switch {
		case c.why != "":
			if got != nil || invalid == nil && err == nil || invalid != nil && !strings.Contains(invalid.Error(), c.why) || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, %v, %v", c.name, got, invalid, err)
			}
		case invalid != nil || err != nil:
			t.Errorf("%s: %v, %v", c.name, invalid, err)
		case got.NotAfter.Sub(now) != c.life || now.Sub(got.NotBefore) != 5*time.Minute:
			t.Errorf("%s: from %v to %v", c.name, got.NotBefore, got.NotAfter)
		case got.IsCA || len(got.ExtraExtensions) > 0 || !slices.Equal(got.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}):
			t.Errorf("%s: it may more than was approved: %+v", c.name, got)
		}
	}
}

func TestDue(t *testing.T) {
	is := func(types ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName}}
		for _, t := range types {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: t, Status: v1.ConditionTrue})
		}
		return r
	}
	other := is("Approved")
	other.Spec.SignerName = "example.com/foo"
	issued := is("Approved")
	issued.Status.Certificate = []byte("x")
	for name, c := range map[string]struct {
		r    *certificatesv1.CertificateSigningRequest
		want bool
	}{
		"approved": {is("Approved"), true}, "pending": {is(), false}, "denied": {is("Denied"), false}, "both": {is("Approved", "Denied"), false},
		"failed": {is("Approved", "Failed"), false}, "another signer's": {other, false}, "issued": {issued, false},
	} {
		if Due(c.r) != c.want {
			t.Error(name)
		}
	}
}
