package podcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// newKey makes a key of one of the kinds of PodCertificateProjection.keyType, in PEM, and the proof of possession: a certificate
// request with no content, signed by the key.
func newKey(kind string) (key, proof []byte, err error) {
	var k crypto.Signer
	switch kind {
	case "RSA3072":
		k, err = rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		k, err = rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		k, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		k, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, k, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, nil, fmt.Errorf("unknown key type %q", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("while generating a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("while encoding a key: %w", err)
	}
	if proof, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k); err != nil {
		return nil, nil, fmt.Errorf("while generating stub PKCS#10 request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), proof, nil
}

// plain is a chain without what may stand between its certificates.
func plain(chain string) []byte {
	var out bytes.Buffer
	for rest := []byte(chain); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return out.Bytes()
		}
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Bytes}))
	}
}
