package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	v1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzRequest: whatever is sent as a request, or as a pod's, is read or refused, and judged without harm.
func FuzzRequest(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, DNSNames: []string{"n"},
	}, key)
	if err != nil {
		f.Fatal(err)
	}
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	f.Add(good, der)
	f.Add(good[:len(good)/2], der[:len(der)/2])
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), []byte(nil))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n"), []byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte(nil), []byte("\x30\x03\x02\x01\x00"))
	usages := []v1.KeyUsage{v1.UsageDigitalSignature, v1.UsageServerAuth}
	f.Fuzz(func(t *testing.T, text, stub []byte) {
		parsed, err := ParseRequest(text)
		if (parsed == nil) == (err == nil) {
			t.Fatalf("%v and %v", parsed, err)
		}
		if err == nil && KubeletServing(parsed, usages) == nil && KubeletClient(parsed, usages) == nil {
			t.Error("one certificate for both")
		}
		r := &v1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: v1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "u", ServiceAccountName: "s", ServiceAccountUID: "u", NodeName: "n", NodeUID: "u", StubPKCS10Request: stub,
		}}
		DefaultPodRequest(r)
		_, err = x509.ParseCertificateRequest(stub)
		if errs := ValidatePodRequest(r); err != nil && len(errs) == 0 {
			t.Errorf("accepted, and is none: %v", err)
		}
	})
}
