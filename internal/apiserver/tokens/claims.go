// Package tokens makes, reads and publishes the tokens of ServiceAccounts: JSON Web Tokens with the account, the object that they
// are bound to (a pod, a node, a Secret), their audiences, and their expiry.
//
// A token is valid when one of our keys signed it and what it names still exists. The former never changes and is cached; the
// latter is read from the view at each request, so that deleting a pod ends its tokens at once and nothing has to be revoked.
package tokens

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// LegacyIssuer is the issuer in tokens of Secrets of type kubernetes.io/service-account-token.
	LegacyIssuer = "kubernetes/serviceaccount"
	// leeway is the tolerated difference of clocks, and how long a token stays valid after its object's deletion has begun.
	leeway = time.Minute
	// extended is the life of a pod's token for the API server that asks for an extendable life: programs that read their token
	// only once go on working, and warnafter marks them.
	extended   = 365 * 24 * time.Hour
	extendable = int64(60*60 + 7)
	// idPrefix makes a token's ID a credential's.
	idPrefix = "JTI="
)

// claims are the content of a token, either a bound token's or a Secret's.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes *bound `json:"kubernetes.io,omitempty"`

	LegacyNamespace   string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	LegacyAccount     string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	LegacyAccountUID  string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
	LegacySecretNamed string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
}

type bound struct {
	Namespace string           `json:"namespace,omitempty"`
	Account   ref              `json:"serviceaccount,omitempty"`
	Pod       *ref             `json:"pod,omitempty"`
	Secret    *ref             `json:"secret,omitempty"`
	Node      *ref             `json:"node,omitempty"`
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// issuerOf is the issuer that a token claims, unverified; false when it is no JSON Web Token.
func issuerOf(token string) (string, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return "", false
	}
	return c.Issuer, true
}
