package jointoken

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A bootstrap token is a Secret of this type in kube-system, with this prefix before the token's id.
const (
	SecretType   v1.SecretType = "bootstrap.kubernetes.io/token"
	SecretPrefix string        = "bootstrap-token-"
)

const usagePrefix = "usage-bootstrap-"

// Usages are what a token may be good for.
var Usages = []string{"authentication", "signing"}

var groupForm = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)

// IsGroup says that a token may bring its holder into the group.
func IsGroup(name string) bool { return groupForm.MatchString(name) }

// Options say what a token is good for.
type Options struct {
	TTL         time.Duration // 0 for ever
	Usages      []string
	Groups      []string // beside system:bootstrappers
	Description string
}

// Validate says what to change.
func (o *Options) Validate() error {
	var errs []error
	if o.TTL < 0 {
		errs = append(errs, fmt.Errorf("a time to live of %v is over already: give one like 24h, or 0 for no end", o.TTL))
	}
	if len(o.Usages) == 0 {
		errs = append(errs, fmt.Errorf("a token needs a usage: any of %s", strings.Join(Usages, ", ")))
	}
	for _, u := range o.Usages {
		if !slices.Contains(Usages, u) {
			errs = append(errs, fmt.Errorf("there is no usage %q: any of %s", u, strings.Join(Usages, ", ")))
		}
	}
	for _, g := range o.Groups {
		if !IsGroup(g) {
			errs = append(errs, fmt.Errorf("the group %q is none of bootstrappers: it has the form system:bootstrappers:NAME, of a-z, 0-9, : and -", g))
		}
	}
	return errors.Join(errs...)
}

// New makes a token of random's bytes.
func New(random io.Reader) (Token, error) {
	text, err := letters(random, 6+16)
	if err != nil {
		return Token{}, err
	}
	return Token{ID: text[:6], Secret: text[6:]}, nil
}

// letters chooses evenly among a-z and 0-9: bytes beyond the last whole round of 36 are drawn again.
func letters(random io.Reader, n int) (string, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	const rounds = 256 / len(alphabet) * len(alphabet)
	out, b := make([]byte, 0, n), make([]byte, 1)
	for len(out) < n {
		if _, err := io.ReadFull(random, b); err != nil {
			return "", err
		}
		if int(b[0]) < rounds {
			out = append(out, alphabet[int(b[0])%len(alphabet)])
		}
	}
	return string(out), nil
}

// ToSecret is the Secret by which the API server knows the token.
func (t Token) ToSecret(o Options, now time.Time) *v1.Secret {
	data := map[string]string{"token-id": t.ID, "token-secret": t.Secret}
	if o.TTL > 0 {
		data["expiration"] = now.Add(o.TTL).UTC().Format(time.RFC3339)
	}
	for _, u := range o.Usages {
		data[usagePrefix+u] = "true"
	}
	if len(o.Groups) > 0 {
		data["auth-extra-groups"] = strings.Join(o.Groups, ",")
	}
	if o.Description != "" {
		data["description"] = o.Description
	}
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: SecretPrefix + t.ID}, Type: SecretType, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

// Known is what a Secret tells of a token, its secret excepted.
type Known struct {
	ID          string
	End         time.Time // zero for none
	Usages      []string
	Groups      []string
	Description string
}

// FromSecret reads a bootstrap token's Secret; false for another Secret.
func FromSecret(s *v1.Secret) (k Known, ok bool) {
	if s.Type != SecretType {
		return k, false
	}
	k = Known{ID: string(s.Data["token-id"]), Description: string(s.Data["description"])}
	k.End, _ = time.Parse(time.RFC3339, string(s.Data["expiration"]))
	for _, u := range Usages {
		if string(s.Data[usagePrefix+u]) == "true" {
			k.Usages = append(k.Usages, u)
		}
	}
	if g := string(s.Data["auth-extra-groups"]); g != "" {
		k.Groups = strings.Split(g, ",")
	}
	return k, true
}
