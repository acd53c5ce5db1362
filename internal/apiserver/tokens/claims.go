// Package tokens makes, reads and publishes the tokens of ServiceAccounts: JSON Web Tokens that say for whom (the account), bound to what
// (a pod, a node, a Secret), for which audiences, and until when.
//
// A token is good when one of our keys signed it and what it names is still there. The first never changes and is remembered; the
// second is read from the view for every request, so that the deletion of a pod ends its tokens at once and nothing has to be
// invalidated.
package tokens

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// LegacyIssuer is in tokens that Secrets of type kubernetes.io/service-account-token hold.
	LegacyIssuer = "kubernetes/serviceaccount"
	// leeway is how far clocks may be apart, and how long a token outlives the start of its object's deletion.
	leeway = time.Minute
	// extended is how long a pod's token for the API server lives when it asks for extendable: programs that read their token once go on
	// working, and are told of by warnafter.
	extended   = 365 * 24 * time.Hour
	extendable = int64(60*60 + 7)
	// idPrefix makes a token's ID a credential's.
	idPrefix = "JTI="
)

// claims are what a token says: those of a bound token, or those of a Secret's.
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

// issuerOf is who a token says it is from, unverified; false when it is no JSON Web Token at all.
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
