package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"path/filepath"
	"time"
)

const (
	caLife = 10 * 365 * 24 * time.Hour
	// backdate forgives a peer whose clock is somewhat behind.
	backdate = 5 * time.Minute
)

// sane is a time that any clock has passed which is right. An authority holds from then on at the latest, and for its whole life after it,
// whatever the clock said when it was made: it outlives a clock that is set later, as those of machines without a battery are.
var sane = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// authority signs the cluster's certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// loadOrMakeCA reads ca.key and ca.crt from dir, or makes them. The key is written first: a crash between the two leaves a
// key from which the same authority is made again. A certificate without its key cannot sign and is refused.
func loadOrMakeCA(dir string, now time.Time) (*authority, error) {
	keyPath, certPath := filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca.crt")
	keyData, err := readOptional(keyPath)
	if err != nil {
		return nil, err
	}
	certData, err := readOptional(certPath)
	if err != nil {
		return nil, err
	}
	if keyData == nil && certData != nil {
		return nil, fmt.Errorf("%s exists but %s is missing: restore the key from a backup, or remove the folder %s to "+
			"start a new certificate authority (every client then needs a new kubeconfig)", certPath, keyPath, dir)
	}
	a := &authority{pem: certData}
	if keyData == nil {
		if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
		if keyData, err = KeyPEM(a.key); err != nil {
			return nil, err
		}
		if err := WriteFile(keyPath, keyData, 0o600); err != nil {
			return nil, fmt.Errorf("writing the certificate authority's key: %w", err)
		}
	} else if a.key, err = ParseKey(keyData); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): restore it from a backup", keyPath, err)
	}
	if certData == nil {
		if a.pem, err = selfSign(a.key, now); err != nil {
			return nil, err
		}
		if err := WriteFile(certPath, a.pem, 0o644); err != nil {
			return nil, fmt.Errorf("writing the certificate authority's certificate: %w", err)
		}
	}
	if a.cert, err = parseCert(a.pem); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, it is made again from %s", certPath, err, keyPath)
	}
	if pub, ok := a.cert.PublicKey.(*ecdsa.PublicKey); !ok || !pub.Equal(&a.key.PublicKey) {
		return nil, fmt.Errorf("%s does not belong to %s: restore both from one backup", certPath, keyPath)
	}
	if now.After(a.cert.NotAfter) {
		return nil, fmt.Errorf("%s expired on %s: remove it, it is made again from %s, then hand out the new kubeconfig",
			certPath, a.cert.NotAfter.Format(time.DateOnly), keyPath)
	}
	return a, nil
}

func selfSign(key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	begin, end := now.Add(-backdate), now.Add(caLife)
	if begin.After(sane) {
		begin = sane
	} else {
		end = sane.Add(caLife)
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "podo-ca"},
		NotBefore:             begin,
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return certPEM(der), nil
}

// issue makes a new key and a certificate for it, as one PEM text: certificate first, then the key. One file for both means
// that a crash can never leave a pair that does not match.
func (a *authority) issue(p profile, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	end := now.Add(leafLife)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: p.commonName, Organization: p.groups},
		NotBefore:    now.Add(-backdate),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{p.usage},
		DNSNames:     p.names,
		IPAddresses:  p.addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	k, err := KeyPEM(key)
	if err != nil {
		return nil, err
	}
	return append(certPEM(der), k...), nil
}

// Sign makes a certificate of the template, for its PublicKey, in PEM. Only the serial number is chosen here.
func (b *Bundle) Sign(template *x509.Certificate) ([]byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	t := *template
	t.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, &t, b.ca.cert, t.PublicKey, b.ca.key)
	if err != nil {
		return nil, err
	}
	return certPEM(der), nil
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}
