// Package jointoken is the text with which a machine joins a cluster: a bootstrap token, and the hash of the cluster's authority so that
// the machine trusts nobody else.
//
//	abcdef.0123456789abcdef@sha256:5f1c…
//	  id        secret         of the public key of the authority's certificate, as kubeadm's --discovery-token-ca-cert-hash
//
// The hash is of the key, not of the certificate: the same authority with a new certificate is still the one that was meant.
package jointoken

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"regexp"
)

// Token is the text's parts.
type Token struct {
	ID, Secret string
	// CAHash is "sha256:" and 64 hexadecimal digits, or "" when the text has none.
	CAHash string
}

var form = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})(?:@(sha256:[0-9a-f]{64}))?\z`)

// Parse reads a token. Its errors do not tell the text, which is a secret.
func Parse(text string) (Token, error) {
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return Token{}, errors.New("the token is none: it has the form id.secret@sha256:hash, as `podo token create` prints it on the server " +
			"(6 and 16 characters of a-z and 0-9, and 64 hexadecimal digits)")
	}
	return Token{ID: parts[1], Secret: parts[2], CAHash: parts[3]}, nil
}

// Bearer is what a request shows: the token without the hash.
func (t Token) Bearer() string { return t.ID + "." + t.Secret }

// Text is the whole.
func (t Token) Text() string {
	if t.CAHash == "" {
		return t.Bearer()
	}
	return t.Bearer() + "@" + t.CAHash
}

// Hash is the CAHash of an authority.
func Hash(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// HashDER is the hash of an authority's certificate as it is stored.
func HashDER(der []byte) (string, error) {
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return "", err
	}
	return Hash(ca), nil
}

// Means tells whether the token names this authority.
func (t Token) Means(ca *x509.Certificate) bool {
	return t.CAHash != "" && subtle.ConstantTimeCompare([]byte(t.CAHash), []byte(Hash(ca))) == 1
}
