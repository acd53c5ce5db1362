package tokens

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
)

// The paths and media types of the documents by which others can verify our tokens.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	ConfigurationType = "application/json"
	KeysPath          = "/openid/v1/jwks"
	KeysType          = "application/jwk-set+json"
)

// configuration is OpenID Connect's description of an issuer.
type configuration struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// webKey is a JSON Web Key.
type webKey struct {
	Use   string `json:"use"`
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Curve string `json:"crv,omitempty"`
	Alg   string `json:"alg"`
	X     string `json:"x,omitempty"`
	Y     string `json:"y,omitempty"`
	N     string `json:"n,omitempty"`
	E     string `json:"e,omitempty"`
}

// Discovery are the handlers of ConfigurationPath and KeysPath. address is the host:port at which clients reach the API server.
// An issuer that is no https URL cannot be discovered.
func (k *Keys) Discovery(issuer, address string) (configurationHandler, keysHandler http.Handler, err error) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil:
		return nil, nil, err
	case u.Scheme != "https":
		return nil, nil, fmt.Errorf("issuer URL must use https scheme, got: %s", issuer)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, nil, fmt.Errorf("issuer URL may not include a query or a fragment, got: %s", issuer)
	}
	keysURI := (&url.URL{Scheme: "https", Host: address, Path: KeysPath}).String()
	return document(ConfigurationType, func() any {
			c := configuration{Issuer: issuer, KeysURI: keysURI, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}}
			for _, key := range k.now.Load().verify {
				if !slices.Contains(c.Algorithms, key.method.Alg()) {
					c.Algorithms = append(c.Algorithms, key.method.Alg())
				}
			}
			slices.Sort(c.Algorithms)
			return c
		}), document(KeysType, func() any {
			set := struct {
				Keys []webKey `json:"keys"`
			}{}
			for _, key := range k.now.Load().verify {
				set.Keys = append(set.Keys, key.web())
			}
			return set
		}), nil
}

func (key *Key) web() webKey {
	w := webKey{Use: "sig", ID: key.ID, Alg: key.method.Alg()}
	text := base64.RawURLEncoding.EncodeToString
	switch p := key.Public.(type) {
	case *ecdsa.PublicKey:
		size := (p.Curve.Params().BitSize + 7) / 8
		point, err := p.Bytes() // 4, then x and y at full length
		if err != nil {
			panic(err) // newKey took it
		}
		w.Type, w.Curve = "EC", p.Curve.Params().Name
		w.X, w.Y = text(point[1:1+size]), text(point[1+size:])
	case *rsa.PublicKey:
		w.Type = "RSA"
		w.N, w.E = text(p.N.Bytes()), text(big.NewInt(int64(p.E)).Bytes())
	}
	return w
}

// document answers with the present content, which clients may cache for an hour.
func document(contentType string, content func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := json.Marshal(content())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(b) // the client may have gone
	})
}
