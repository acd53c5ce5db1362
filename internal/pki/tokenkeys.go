package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// TokenKeyFile is the folder with the keys.
type TokenKeyFile struct{ Dir string }

// TokenKeys reads the keys, or makes the first one.
func (b *Bundle) TokenKeys() (TokenKeys, error) { return TokenKeyFile{b.cfg.Dir}.Read() }

// RotateTokenKey makes a new key that signs from now on.
func (b *Bundle) RotateTokenKey() (TokenKeys, error) { return TokenKeyFile{b.cfg.Dir}.Rotate() }

func (f TokenKeyFile) path() string { return filepath.Join(f.Dir, tokenKeysFile) }

// Read reads the keys, or makes the first one.
func (f TokenKeyFile) Read() (TokenKeys, error) {
	data, err := readOptional(f.path())
	if err != nil {
		return TokenKeys{}, err
	}
	if data == nil {
		return f.Rotate()
	}
	return f.parse(data)
}

func (f TokenKeyFile) parse(data []byte) (TokenKeys, error) {
	keys, err := parseTokenKeys(data)
	if err != nil {
		return TokenKeys{}, fmt.Errorf("%s is damaged (%w): restore it from a backup, or remove it (every ServiceAccount token then ends)", f.path(), err)
	}
	return keys, nil
}

// Rotate makes a new key that signs from now on, and keeps the others for verification. Who has keys already goes on with these until it
// reads them anew.
func (f TokenKeyFile) Rotate() (TokenKeys, error) {
	var earlier TokenKeys
	old, err := readOptional(f.path())
	if err == nil && old != nil {
		earlier, err = f.parse(old)
	}
	if err != nil {
		return TokenKeys{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return TokenKeys{}, err
	}
	keys := TokenKeys{Signer: key, Verify: append([]crypto.PublicKey{key.Public()}, earlier.Verify...)}
	return keys, f.write(keys)
}

// Forget takes away the keys that is names; the signing one stays.
func (f TokenKeyFile) Forget(is func(crypto.PublicKey) bool) (TokenKeys, error) {
	keys, err := f.Read()
	if err != nil {
		return keys, err
	}
	if is(keys.Signer.Public()) {
		return keys, errors.New("this key signs tokens: rotate first")
	}
	left := slices.DeleteFunc(slices.Clone(keys.Verify), is)
	if len(left) == len(keys.Verify) {
		return keys, errors.New("there is no such key")
	}
	keys.Verify = left
	return keys, f.write(keys)
}

// write writes the signing key and the public halves of the others.
func (f TokenKeyFile) write(keys TokenKeys) error {
	der, err := x509.MarshalPKCS8PrivateKey(keys.Signer)
	if err != nil {
		return err
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	own, err := x509.MarshalPKIXPublicKey(keys.Signer.Public())
	if err != nil {
		return err
	}
	for _, public := range keys.Verify {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return err
		}
		if !bytes.Equal(der, own) {
			data = append(data, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
		}
	}
	if err := WriteFile(f.path(), data, 0o600); err != nil {
		return fmt.Errorf("writing the key of ServiceAccount tokens: %w", err)
	}
	return nil
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
