package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/utils/lru"
)

// Keys sign tokens and verify them. A rotation replaces all of them at once; calls under way go on with the keys that they have.
type Keys struct{ now atomic.Pointer[keySet] }

// keySet never changes.
type keySet struct {
	signer crypto.Signer
	signs  Key
	verify []Key // the newest first
	parser *jwt.Parser
	// good has the claims of tokens with a valid signature, by the token's hash: a signature stays valid, and checking it costs
	// more than the request. Everything that can change is checked at each request (see Authenticator).
	good *lru.Cache
}

// Key is a public key with its name in tokens.
type Key struct {
	ID     string
	Public crypto.PublicKey
	method jwt.SigningMethod
}

// remembered bounds the tokens whose signature is cached: about 1 kB each.
const remembered = 4096

// NewKeys makes Keys that sign with signer and verify with all of verify; signer's own key is among these or added in front.
func NewKeys(signer crypto.Signer, verify ...crypto.PublicKey) (*Keys, error) {
	k := &Keys{}
	return k, k.Replace(signer, verify...)
}

// Replace makes k those keys from now on. Tokens of other keys become invalid.
func (k *Keys) Replace(signer crypto.Signer, verify ...crypto.PublicKey) error {
	set, err := newKeySet(signer, verify)
	if err == nil {
		k.now.Store(set)
	}
	return err
}

// KeyID is what tokens call a key by.
func KeyID(public crypto.PublicKey) (string, error) {
	key, err := newKey(public)
	return key.ID, err
}

func newKeySet(signer crypto.Signer, verify []crypto.PublicKey) (*keySet, error) {
	k := &keySet{signer: signer, good: lru.New(remembered)}
	var err error
	if k.signs, err = newKey(signer.Public()); err != nil {
		return nil, err
	}
	own := false
	methods := map[string]bool{}
	for _, public := range verify {
		key, err := newKey(public)
		if err != nil {
			return nil, err
		}
		own = own || key.ID == k.signs.ID
		k.verify = append(k.verify, key)
	}
	if !own {
		k.verify = append([]Key{k.signs}, k.verify...)
	}
	var names []string
	for _, key := range k.verify {
		if name := key.method.Alg(); !methods[name] {
			methods[name] = true
			names = append(names, name)
		}
	}
	k.parser = jwt.NewParser(jwt.WithValidMethods(names), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	return k, nil
}

// newKey names a key by the hash of its standard form, as upstream does, so that everybody who has the key finds the same name.
func newKey(public crypto.PublicKey) (Key, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Key{}, fmt.Errorf("a key of ServiceAccount tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	key := Key{ID: base64.RawURLEncoding.EncodeToString(sum[:]), Public: public}
	switch p := public.(type) {
	case *rsa.PublicKey:
		key.method = jwt.SigningMethodRS256
	case *ecdsa.PublicKey:
		switch p.Curve {
		case elliptic.P256():
			key.method = jwt.SigningMethodES256
		case elliptic.P384():
			key.method = jwt.SigningMethodES384
		case elliptic.P521():
			key.method = jwt.SigningMethodES512
		}
	}
	if key.method == nil {
		return Key{}, fmt.Errorf("a key of ServiceAccount tokens is a %T: use RSA, or ECDSA over P-256, P-384 or P-521", public)
	}
	return key, nil
}

// sign makes a token of claims.
func (k *Keys) sign(c *claims) (string, error) { return k.now.Load().sign(c) }

func (k *keySet) sign(c *claims) (string, error) {
	t := jwt.NewWithClaims(k.signs.method, c)
	t.Header = map[string]any{"alg": k.signs.method.Alg(), "kid": k.signs.ID}
	return t.SignedString(k.signer)
}

var errNoKeys = errors.New("invalid signature, no keys found")

// read returns the claims of a token that one of the keys signed. They are shared and read-only.
func (k *Keys) read(token string) (*claims, error) { return k.now.Load().read(token) }

func (k *keySet) read(token string) (*claims, error) {
	hash := sha256.Sum256([]byte(token))
	if c, ok := k.good.Get(hash); ok {
		return c.(*claims), nil
	}
	c := &claims{}
	_, err := k.parser.ParseWithClaims(token, c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		set := jwt.VerificationKeySet{}
		for _, key := range k.verify {
			if (id == "" || key.ID == id) && key.method.Alg() == t.Method.Alg() {
				set.Keys = append(set.Keys, key.Public)
			}
		}
		if len(set.Keys) == 0 {
			return nil, errNoKeys
		}
		return set, nil
	})
	switch {
	case errors.Is(err, errNoKeys):
		return nil, errNoKeys
	case err != nil:
		return nil, errors.New("go-jose/go-jose: error in cryptographic primitive") // upstream's text; that of the library here may contain parts of the token
	}
	k.good.Add(hash, c)
	return c, nil
}
