package keyring

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Config is a Docker configuration's part about registries: who to be, by server.
type Config map[string]Entry

// Entry is who to be at one server.
type Entry struct {
	Username, Password, Email    string
	IdentityToken, RegistryToken string
}

// UnmarshalJSON reads an entry. What stands in auth, base64 of user:password with padding or without, wins.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var f struct {
		Username      string `json:"username"`
		Password      string `json:"password"`
		Email         string `json:"email"`
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
		RegistryToken string `json:"registrytoken"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*e = Entry{f.Username, f.Password, f.Email, f.IdentityToken, f.RegistryToken}
	if f.Auth == "" {
		return nil
	}
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(f.Auth), "="))
	if err != nil {
		return err // names a place in the text, and quotes nothing of it
	}
	user, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return errors.New("unable to parse auth field, must be formatted as base64(username:password)")
	}
	e.Username, e.Password = user, password
	return nil
}

// auth leaves the server's address out: we have already matched the entry, and a runtime would match again by rules of its own.
func (e Entry) auth() *runtimev1.AuthConfig {
	return &runtimev1.AuthConfig{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
}

// hash is upstream's, so that its records of pulls are understood here and ours there.
func (e Entry) hash() string {
	b, err := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		Email         string `json:"email,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}(e))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// OfSecrets is a ring of what pull secrets hold. A secret of another type holds nothing; one that cannot be read is an error.
func OfSecrets(secrets []*v1.Secret) (*Ring, error) {
	r := &Ring{}
	for _, s := range secrets {
		config, err := read(s)
		if err != nil {
			return nil, fmt.Errorf("the pull secret %q is no Docker configuration: %w", s.Name, err)
		}
		r.Add(Source{Secret: &v1beta1.ImagePullSecret{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name}}, config)
	}
	return r, nil
}

func read(s *v1.Secret) (Config, error) {
	switch s.Type {
	case v1.SecretTypeDockerConfigJson:
		return parse(s.Data[v1.DockerConfigJsonKey], true)
	case v1.SecretTypeDockercfg:
		return parse(s.Data[v1.DockerConfigKey], false)
	}
	return nil, nil
}

// parse reads a config.json, which has the servers under "auths", or the older .dockercfg.
func parse(b []byte, auths bool) (Config, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if auths {
		var file struct {
			Auths Config `json:"auths"`
		}
		err := json.Unmarshal(b, &file)
		return file.Auths, err
	}
	var c Config
	err := json.Unmarshal(b, &c)
	return c, err
}

// OfNode is a ring of the node's own configuration: for each folder the first that exists of DIR/config.json and
// DIR/.docker/config.json, then DIR/.dockercfg. A file that cannot be read is reported and skipped.
func OfNode(dirs []string, problem func(path string, err error)) *Ring {
	r := &Ring{}
	for _, kind := range []struct {
		name  string
		auths bool
	}{{"config.json", true}, {filepath.Join(".docker", "config.json"), true}, {".dockercfg", false}} {
		for i, dir := range dirs {
			if kind.name == "config.json" && i > 0 {
				continue // only the kubelet's own folder has it without a folder around it
			}
			path := filepath.Join(dir, kind.name)
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			var c Config
			if err == nil {
				c, err = parse(b, kind.auths)
			}
			if err != nil {
				problem(path, err)
				continue
			}
			r.Add(Source{}, c)
			return r
		}
	}
	return r
}
