package images

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// credential is one entry of a Docker configuration: a pattern of registries, or of repositories in one, and who to be there.
type credential struct {
	pattern string
	auth    *runtimev1.AuthConfig
}

type dockerEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of user:password; wins
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentials reads what pull secrets hold. A secret that is no Docker configuration has none.
func credentials(secrets []*v1.Secret) []credential {
	var out []credential
	for _, s := range secrets {
		entries := map[string]dockerEntry{}
		switch s.Type {
		case v1.SecretTypeDockerConfigJson:
			var file struct {
				Auths map[string]dockerEntry `json:"auths"`
			}
			if json.Unmarshal(s.Data[v1.DockerConfigJsonKey], &file) == nil {
				entries = file.Auths
			}
		case v1.SecretTypeDockercfg:
			if json.Unmarshal(s.Data[v1.DockerConfigKey], &entries) != nil {
				entries = nil
			}
		}
		for server, e := range entries {
			user, password := e.Username, e.Password
			if b, err := base64.StdEncoding.DecodeString(e.Auth); err == nil && e.Auth != "" {
				if u, p, ok := strings.Cut(string(b), ":"); ok {
					user, password = u, strings.TrimRight(p, "\x00\n")
				}
			}
			out = append(out, credential{pattern: trimServer(server), auth: &runtimev1.AuthConfig{
				Username: user, Password: password, ServerAddress: server,
				IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
			}})
		}
	}
	return out
}

// trimServer drops what a Docker configuration may put around a registry's name: a scheme, and the API's path.
func trimServer(s string) string {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	host, rest, _ := strings.Cut(s, "/")
	rest = strings.Trim(rest, "/")
	if rest == "v1" || rest == "v2" {
		rest = ""
	}
	if rest == "" {
		return host
	}
	return host + "/" + rest
}

// lookup finds what fits a repository, the most exact pattern first. Docker's own registry has two names.
func lookup(all []credential, repo string) []*runtimev1.AuthConfig {
	var fit []credential
	for _, c := range all {
		alias := repo
		if rest, ok := strings.CutPrefix(repo, "docker.io/"); ok {
			alias = "index.docker.io/" + rest
		}
		if matches(c.pattern, repo) || matches(c.pattern, alias) {
			fit = append(fit, c)
		}
	}
	slices.SortStableFunc(fit, func(a, b credential) int {
		if d := len(b.pattern) - len(a.pattern); d != 0 {
			return d
		}
		return strings.Compare(b.pattern, a.pattern)
	})
	out := make([]*runtimev1.AuthConfig, len(fit))
	for i := range fit {
		out[i] = fit[i].auth
	}
	return out
}

// matches: the host's parts match one by one, where * stands for one whole part or some of it; ports must be the same; the
// pattern's path must begin the repository's.
func matches(pattern, repo string) bool {
	p, perr := url.Parse("https://" + pattern)
	r, rerr := url.Parse("https://" + repo)
	if perr != nil || rerr != nil || p.Port() != r.Port() || !strings.HasPrefix(r.Path, p.Path) {
		return false
	}
	ph, rh := strings.Split(hostOf(p), "."), strings.Split(hostOf(r), ".")
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

func hostOf(u *url.URL) string {
	if h, _, err := net.SplitHostPort(u.Host); err == nil {
		return h
	}
	return u.Host
}

// fingerprint tells sets of credentials apart without keeping them.
func fingerprint(auths []*runtimev1.AuthConfig) string {
	h := sha256.New()
	for _, a := range auths {
		for _, s := range []string{a.Username, a.Password, a.ServerAddress, a.IdentityToken, a.RegistryToken} {
			h.Write([]byte(s)) //nolint:errcheck // a hash never fails
			h.Write([]byte{0}) //nolint:errcheck // nor here
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
