package cert

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	csrclient "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"podo.dev/podo/internal/pki"
)

// patience is how long a request is waited for before its keeper begins anew, with the same one if that is still there.
const patience = 15 * time.Minute

// kind says which of the node's certificates it is.
type kind struct {
	name   string
	signer string
	usage  certificatesv1.KeyUsage
}

var (
	clientKind  = kind{"client", certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth}
	servingKind = kind{"serving", certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth}
)

func (k *keeper) pending() string { return k.path + "-next.key" }

// request asks for a certificate and waits for it. The key is stored before the request is made, and the request is named after
// the key and its content, so that it is found again after a crash or a wait that took too long.
func (k *keeper) request(ctx context.Context, want subject) (*tls.Certificate, error) {
	key, err := k.pendingKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: want.name, Organization: want.groups}, DNSNames: want.dns, IPAddresses: want.addresses,
	}, key)
	if err != nil {
		return nil, err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: requestName(k.kind, &key.PublicKey, want)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: k.kind.signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, k.kind.usage},
		},
	}
	var chain []byte
	err = k.m.as(func(api csrclient.CertificateSigningRequestInterface) (err error) {
		chain, err = ask(ctx, api, csr, &key.PublicKey)
		return err
	})
	if errors.Is(err, errTurnedDown) {
		os.Remove(k.pending()) //nolint:errcheck // the next attempt is a new request with a new key
	}
	if err != nil {
		return nil, err
	}
	private, err := pki.KeyPEM(key)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("the certificate that was signed cannot be used: %w", err)
	}
	if !want.coveredBy(c.Leaf) {
		return nil, fmt.Errorf("the certificate that was signed is for %s, and %s was asked for", c.Leaf.Subject, want.name)
	}
	return &c, nil
}

// pendingKey is the key of the request on its way, or a new one, stored.
func (k *keeper) pendingKey() (*ecdsa.PrivateKey, error) {
	if data, err := os.ReadFile(k.pending()); err == nil {
		if key, err := pki.ParseKey(data); err == nil {
			return key, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := pki.KeyPEM(key)
	if err != nil {
		return nil, err
	}
	if err := pki.WriteFile(k.pending(), data, 0o600); err != nil {
		return nil, fmt.Errorf("storing the key of the certificate: %w", err)
	}
	return key, nil
}

func requestName(k kind, key *ecdsa.PublicKey, want subject) string {
	h := sha256.New()
	public, _ := x509.MarshalPKIXPublicKey(key) // of a key on a known curve
	h.Write(public)
	fmt.Fprintf(h, "%s %q %q %q %q", k.signer, want.name, want.groups, want.dns, want.addresses)
	return "node-csr-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// errTurnedDown says that a request will never be signed.
var errTurnedDown = errors.New("the request was turned down")

// ask creates the request, or finds it, and waits for its certificate.
func ask(ctx context.Context, api csrclient.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest, key *ecdsa.PublicKey) ([]byte, error) {
	now, err := api.Create(ctx, csr, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		now, err = api.Get(ctx, csr.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	for {
		chain, err := answer(now, key)
		if chain != nil || err != nil {
			return chain, err
		}
		if now, err = next(ctx, api, now); err != nil {
			return nil, err
		}
	}
}

// next waits until the request is another than seen.
func next(ctx context.Context, api csrclient.CertificateSigningRequestInterface, seen *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	w, err := api.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", seen.Name).String(), ResourceVersion: seen.ResourceVersion,
	})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if csr, ok := e.Object.(*certificatesv1.CertificateSigningRequest); ok && e.Type != "DELETED" && csr.ResourceVersion != seen.ResourceVersion {
			return csr, nil
		}
		if e.Type == "DELETED" {
			return nil, fmt.Errorf("the request %s was deleted before it was signed", seen.Name)
		}
		if e.Type == "ERROR" {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the request %s is not signed yet (%w): `kubectl get csr %s` shows what it waits for", seen.Name, ctx.Err(), seen.Name)
	}
	return api.Get(ctx, seen.Name, metav1.GetOptions{}) // the watch ended; a fresh GET has whatever it missed
}

// answer is the certificate of a request, nil while there is none, or why there will be none.
func answer(csr *certificatesv1.CertificateSigningRequest, key *ecdsa.PublicKey) ([]byte, error) {
	if block, _ := pem.Decode(csr.Spec.Request); block != nil {
		if r, err := x509.ParseCertificateRequest(block.Bytes); err != nil || !key.Equal(r.PublicKey) {
			return nil, fmt.Errorf("%w: %s is somebody else's", errTurnedDown, csr.Name)
		}
	}
	for _, c := range csr.Status.Conditions {
		if c.Status == v1.ConditionFalse {
			continue
		}
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return nil, fmt.Errorf("%w: %s is %s, reason: %s, message: %s", errTurnedDown, csr.Name, c.Type, c.Reason, c.Message)
		}
	}
	if len(csr.Status.Certificate) == 0 {
		return nil, nil
	}
	return csr.Status.Certificate, nil
}
