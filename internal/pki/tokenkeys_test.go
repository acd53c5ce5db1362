package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTokenKeysAreKeptAndRotated(t *testing.T) {
	c := config(t, time.Now())
	b := ensure(t, c)
	read := func() TokenKeys {
		t.Helper()
		keys, err := b.TokenKeys()
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	same := func(a, b any) bool { return a.(*ecdsa.PublicKey).Equal(b) }
	first := read()
	if again := read(); !same(again.Signer.Public(), first.Signer.Public()) || len(again.Verify) != 1 {
		t.Fatal("the key was made again without need")
	}
	if _, err := b.RotateTokenKey(); err != nil {
		t.Fatal(err)
	}
	second := read()
	if same(second.Signer.Public(), first.Signer.Public()) {
		t.Error("after a rotation the old key still signs")
	}
	if len(second.Verify) != 2 || !same(second.Verify[0], second.Signer.Public()) || !same(second.Verify[1], first.Signer.Public()) {
		t.Error("after a rotation both keys verify, the newest first")
	}
	path := filepath.Join(c.Dir, tokenKeysFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "PRIVATE KEY-----"); n != 2 { // one BEGIN, one END
		t.Errorf("the file has %d lines of private keys: that of an earlier key must be gone", n)
	}
	// An operator's RSA key in front signs.
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	front := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(own)})
	if err := os.WriteFile(path, append(front, data...), 0o600); err != nil {
		t.Fatal(err)
	}
	if third := read(); !own.PublicKey.Equal(third.Signer.Public()) || len(third.Verify) != 3 {
		t.Error("the key in front must sign, and the others verify")
	}
	if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TokenKeys(); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("a damaged file must be told with advice, got %v", err)
	}
}

func TestAnEarlierTokenKeyIsForgotten(t *testing.T) {
	f := TokenKeyFile{Dir: t.TempDir()}
	first, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	is := func(key any) func(crypto.PublicKey) bool {
		return func(public crypto.PublicKey) bool { return public.(*ecdsa.PublicKey).Equal(key) }
	}
	if _, err := f.Forget(is(first.Signer.Public())); err == nil {
		t.Error("the key that signs was forgotten")
	}
	second, err := f.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Forget(is(first.Signer.Public())); err != nil {
		t.Fatal(err)
	}
	left, err := f.Read()
	if err != nil || len(left.Verify) != 1 || !second.Signer.Public().(*ecdsa.PublicKey).Equal(left.Signer.Public()) {
		t.Errorf("left are %v: %v", left, err)
	}
	if _, err := f.Forget(is(first.Signer.Public())); err == nil {
		t.Error("a key was forgotten twice")
	}
}
