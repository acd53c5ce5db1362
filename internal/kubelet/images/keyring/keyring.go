// Package keyring finds the credentials that fit an image, and knows where each came from: a Secret, a ServiceAccount, or the node,
// which all its pods share.
package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Credential is who to be at a registry.
type Credential struct {
	Auth *runtimev1.AuthConfig
	Hash string // tells credentials apart without keeping them
	Source
}

// Source is where a credential came from. At most one of them is set; none means that every pod of the node may use it.
type Source struct {
	Secret  *v1beta1.ImagePullSecret // its CredentialHash is empty: that is Credential.Hash
	Account *v1beta1.ImagePullServiceAccount
}

// Ring holds credentials by the pattern of registries, or of repositories in one, that they are for. Its zero value is empty.
type Ring struct {
	patterns []string // in reverse order, so that of patterns with a common prefix the longer comes first
	by       map[string][]Credential
}

// defaultRegistry is what Docker's own registry is called in configurations, beside its name docker.io in images.
const defaultRegistry = "index.docker.io"

// Add takes in what a Docker configuration says.
func (r *Ring) Add(from Source, config Config) {
	if r.by == nil {
		r.by = map[string][]Credential{}
	}
	for server, e := range config {
		pattern, ok := pattern(server)
		if !ok {
			continue
		}
		if len(r.by[pattern]) == 0 {
			r.patterns = append(r.patterns, pattern)
		}
		r.by[pattern] = append(r.by[pattern], Credential{Auth: e.auth(), Hash: e.hash(), Source: from})
	}
	slices.SortFunc(r.patterns, func(a, b string) int { return strings.Compare(b, a) })
}

// Lookup finds what fits a repository, by its full name without tag and digest; the most exact pattern first, and what was added first
// among equals.
func (r *Ring) Lookup(repo string) (fit []Credential) {
	for _, p := range r.patterns {
		if Matches(p, repo) {
			fit = append(fit, r.by[p]...)
		}
	}
	if len(fit) == 0 && ofDefaultRegistry(repo) {
		fit = append(fit, r.by[defaultRegistry]...)
	}
	return fit
}

func ofDefaultRegistry(repo string) bool {
	host, _, found := strings.Cut(repo, "/")
	return !found || host == "docker.io" || host == defaultRegistry || !strings.ContainsAny(host, ".:")
}

// pattern drops what a Docker configuration may put around a registry's name: a scheme, and the API's path.
func pattern(server string) (string, bool) {
	if !strings.HasPrefix(server, "https://") && !strings.HasPrefix(server, "http://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", false
	}
	p := u.Path
	for _, api := range []string{"/v1", "/v2"} {
		if rest, ok := strings.CutPrefix(p, api); ok && (rest == "" || rest[0] == '/') {
			p = rest
		}
	}
	if p == "/" {
		p = ""
	}
	return u.Host + p, true
}

// Matches tells whether a pattern fits an image or repository. The parts of the host match one by one, where * stands for any
// part or for some of one; ports must be equal; the pattern's path must be a prefix of the image's.
func Matches(pattern, image string) bool {
	p, perr := url.Parse("https://" + pattern)
	r, rerr := url.Parse("https://" + image)
	if perr != nil || rerr != nil || p.Port() != r.Port() || !strings.HasPrefix(r.Path, p.Path) {
		return false
	}
	ph, rh := strings.Split(host(p), "."), strings.Split(host(r), ".")
	if len(ph) != len(rh) {
		return false
	}
	for i := range ph {
		if ok, err := path.Match(ph[i], rh[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func host(u *url.URL) string {
	if h, _, err := net.SplitHostPort(u.Host); err == nil {
		return h
	}
	return u.Host
}

// Fingerprint tells sets of credentials apart.
func Fingerprint(all []Credential) string {
	h := sha256.New()
	for _, c := range all {
		b, _ := json.Marshal(c.Auth) // strings only
		h.Write(b)                   //nolint:errcheck // a hash never fails
		h.Write([]byte{0})           //nolint:errcheck // nor here
	}
	return hex.EncodeToString(h.Sum(nil))
}
