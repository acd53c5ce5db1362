package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
)

// TokenKeys are the keys of ServiceAccount tokens. Tokens outlive a key's time as the signing one, so that the public halves of
// earlier keys go on verifying.
type TokenKeys struct {
	Signer crypto.Signer      // the newest
	Verify []crypto.PublicKey // of all, the newest first
}

// tokenKeysFile holds the keys in PEM, the newest first. The first private key signs, every key verifies. Only the public half of an
// earlier key is kept, but private ones that an operator put there (EC, RSA or PKCS#8) do as well.
const tokenKeysFile = "service-account.pem"

// TokenKeys reads the keys, or makes the first one.
func (b *Bundle) TokenKeys() (TokenKeys, error) {
	path := filepath.Join(b.cfg.Dir, tokenKeysFile)
	data, err := readOptional(path)
	if err != nil {
		return TokenKeys{}, err
	}
	if data == nil {
		return b.RotateTokenKey()
	}
	keys, err := parseTokenKeys(data)
	if err != nil {
		return TokenKeys{}, fmt.Errorf("%s is damaged (%w): restore it from a backup, or remove it (every ServiceAccount token then ends)", path, err)
	}
	return keys, nil
}

// RotateTokenKey makes a new key that signs from now on, and keeps the others for verification. Who has keys already goes on with these
// until it reads them anew.
func (b *Bundle) RotateTokenKey() (TokenKeys, error) {
	path := filepath.Join(b.cfg.Dir, tokenKeysFile)
	old, err := readOptional(path)
	if err != nil {
		return TokenKeys{}, err
	}
	var earlier TokenKeys
	if old != nil {
		if earlier, err = parseTokenKeys(old); err != nil {
			return TokenKeys{}, fmt.Errorf("%s is damaged: %w", path, err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return TokenKeys{}, err
	}
	data, err := KeyPEM(key)
	if err != nil {
		return TokenKeys{}, err
	}
	for _, public := range earlier.Verify {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return TokenKeys{}, err
		}
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	if err := WriteFile(path, data, 0o600); err != nil {
		return TokenKeys{}, fmt.Errorf("writing the key of ServiceAccount tokens: %w", err)
	}
	return TokenKeys{Signer: key, Verify: append([]crypto.PublicKey{key.Public()}, earlier.Verify...)}, nil
}

func parseTokenKeys(data []byte) (keys TokenKeys, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		default:
			continue // parameters, certificates
		}
		if err != nil {
			return keys, err
		}
		if signer, ok := key.(crypto.Signer); ok {
			if keys.Signer == nil {
				keys.Signer = signer
			}
			key = signer.Public()
		}
		keys.Verify = append(keys.Verify, key)
	}
	if keys.Signer == nil {
		return keys, errors.New("no private key")
	}
	return keys, nil
}
