package pki

import (
	"path/filepath"
	"testing"
	"time"
)

// FuzzTokenKeys: a file of keys is refused, or has one that signs and is the first of those that verify.
func FuzzTokenKeys(f *testing.F) {
	c := config(f, time.Now())
	b := ensure(f, c)
	keys, err := b.TokenKeys()
	if err != nil {
		f.Fatal(err)
	}
	if keys, err = b.RotateTokenKey(); err != nil || len(keys.Verify) != 2 {
		f.Fatal(keys, err)
	}
	good, err := readOptional(filepath.Join(c.Dir, tokenKeysFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseTokenKeys(data)
		if err == nil && (keys.Signer == nil || len(keys.Verify) == 0) {
			t.Errorf("%q has no key and no error", data)
		}
	})
}
