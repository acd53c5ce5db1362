package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sign: be the signer of pods' certificates for the next request that comes, by an authority of this moment; the certificate's name is the
// pod's.
func cmdSign(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: sign")
	}
	c := of(ts)
	r, err := c.nextRequest()
	ts.Check(err)
	now := time.Now().Truncate(time.Second)
	chain, err := issue(r, now)
	ts.Check(err)
	at := func(d time.Duration) *metav1.Time { t := metav1.NewTime(now.Add(d)); return &t }
	r.Status = certificatesv1.PodCertificateRequestStatus{
		CertificateChain: chain, NotBefore: at(0), BeginRefreshAt: at(40 * time.Minute), NotAfter: at(time.Hour),
		Conditions: []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Signed", LastTransitionTime: *at(0),
		}},
	}
	answer, err := json.Marshal(r)
	ts.Check(err)
	file := filepath.Join(ts.Getenv("WORK"), "signed.json")
	ts.Check(os.WriteFile(file, answer, 0o600))
	path := fmt.Sprintf("/apis/certificates.k8s.io/v1/namespaces/%s/podcertificaterequests/%s/status", r.Namespace, r.Name)
	if out, err := exec.Command(c.podo, "kubectl", "--data-dir", c.dir, "replace", "--raw", path, "-f", file).CombinedOutput(); err != nil {
		ts.Fatalf("signing %s: %v\n%s", r.Name, err, out)
	}
}

// nextRequest waits for a request that nobody has answered; a minute at most.
func (c *cluster) nextRequest() (*certificatesv1.PodCertificateRequest, error) {
	cmd := exec.Command(c.podo, "kubectl", "--data-dir", c.dir, "get", "podcertificaterequests", "-w", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Wait()         //nolint:errcheck // it was killed
	defer cmd.Process.Kill() //nolint:errcheck // it may have ended
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	for d := json.NewDecoder(out); ; {
		r := &certificatesv1.PodCertificateRequest{}
		if err := d.Decode(r); err != nil {
			return nil, fmt.Errorf("no request came: %w", err)
		}
		if len(r.Status.Conditions) == 0 {
			return r, nil
		}
	}
}

// issue makes the chain, PEM, that a request asks for.
func issue(r *certificatesv1.PodCertificateRequest, now time.Time) (string, error) {
	asked, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now, NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: r.Spec.PodName}, NotBefore: now, NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, asked.PublicKey, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
