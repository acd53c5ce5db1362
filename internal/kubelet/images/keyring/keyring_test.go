package keyring

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func secret(name, entries string) *v1.Secret {
	s := &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{` + entries + `}}`)}}
	s.Name, s.Namespace = name, "ns"
	return s
}

func users(all []Credential) string {
	var out []string
	for _, c := range all {
		out = append(out, c.Auth.Username+":"+c.Auth.Password)
	}
	return strings.Join(out, " ")
}

func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		server, repo string
		want         bool
	}{
		{"reg.example", "reg.example/x", true},
		{"https://reg.example/v2/", "reg.example/x", true},
		{"http://reg.example/v1", "reg.example/x", true},
		{"reg.example/v2/team", "reg.example/team/x", true},
		{"reg.example/v2x", "reg.example/v2x/y", true},
		{"reg.example/a", "reg.example/a/x", true},
		{"reg.example/b", "reg.example/a/x", false},
		{"reg.example:5000", "reg.example/x", false},
		{"reg.example:5000", "reg.example:5000/x", true},
		{"*.example", "reg.example/x", true},
		{"*.example", "a.reg.example/x", false},
		{"*.*.example:5000/a", "a.reg.example:5000/a/x", true},
		{"r*.example", "reg.example/x", true},
		{"other.example", "reg.example/x", false},
		{"https://index.docker.io/v1/", "docker.io/library/busybox", true},
		{"https://index.docker.io/v1/", "reg.example/busybox", false},
		{"docker.io", "docker.io/library/busybox", true},
		{"docker.io/library", "docker.io/me/busybox", false},
		{"[::1]:5000", "[::1]:5000/x", true},
		{"%zz", "reg.example/x", false},
	} {
		r, err := OfSecrets([]*v1.Secret{secret("s", `"`+tc.server+`":{"username":"u","password":"p"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Lookup(tc.repo); (len(got) == 1) != tc.want {
			t.Errorf("%s for %s: %v, want %v", tc.server, tc.repo, len(got) == 1, tc.want)
		}
	}
}

func TestTheMostExactFirstThenInOrder(t *testing.T) {
	r, err := OfSecrets([]*v1.Secret{
		secret("1", `"reg.example":{"username":"a","password":"1"},"*.example":{"username":"b","password":"1"}`),
		secret("2", `"reg.example/team":{"username":"c","password":"2"},"reg.example":{"username":"d","password":"2"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := users(r.Lookup("reg.example/team/x")), "c:2 a:1 d:2 b:1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFormsOfAnEntry(t *testing.T) {
	auth := func(enc *base64.Encoding, s string) string {
		return `"r.example":{"auth":"` + enc.EncodeToString([]byte(s)) + `"}`
	}
	for entry, want := range map[string]string{
		auth(base64.StdEncoding, "u:p"):                         "u:p",
		auth(base64.StdEncoding, "user:p"):                      "user:p",
		auth(base64.RawStdEncoding, "u:p:q"):                    "u:p:q",
		`"r.example":{"username":"u","password":"p","auth":""}`: "u:p",
		`"r.example":{"username":"u","password":"p","email":1}`: "error",
		`"r.example":{"auth":"***"}`:                            "error",
		auth(base64.StdEncoding, "nocolon"):                     "error",
	} {
		r, err := OfSecrets([]*v1.Secret{secret("s", entry)})
		got := "error"
		if err == nil {
			got = users(r.Lookup("r.example/x"))
		} else if !strings.Contains(err.Error(), `the pull secret "s"`) {
			t.Errorf("%v does not name the secret", err)
		}
		if got != want {
			t.Errorf("%s: %s (%v), want %s", entry, got, err, want)
		}
	}
	old := &v1.Secret{Type: v1.SecretTypeDockercfg, Data: map[string][]byte{v1.DockerConfigKey: []byte(`{"r.example":{"username":"u","password":"p"}}`)}}
	opaque := &v1.Secret{Type: v1.SecretTypeOpaque, Data: map[string][]byte{v1.DockerConfigKey: []byte(`{`)}}
	if r, err := OfSecrets([]*v1.Secret{opaque, old}); err != nil || users(r.Lookup("r.example/x")) != "u:p" {
		t.Errorf("dockercfg: %v", err)
	}
}

// The hash is part of upstream's records: the same input must give the same there and here.
func TestHashIsUpstreams(t *testing.T) {
	r, err := OfSecrets([]*v1.Secret{secret("s", `"r.example":{"username":"u","password":"p","email":"e"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if auth := r.Lookup("r.example/x")[0].Auth; auth.ServerAddress != "" {
		t.Errorf("the runtime is told of a server, %q, and would judge anew whether it fits", auth.ServerAddress)
	}
	// printf '{"username":"u","password":"p","email":"e"}' | sha256sum
	const want = "2f4f03e762821dfdb66ecda497a8f7c477946b7cdc3e28bf1da2e9da1054c40d"
	if got := r.Lookup("r.example/x")[0].Hash; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOfNode(t *testing.T) {
	kubelet, home := t.TempDir(), t.TempDir()
	write := func(path, user string) {
		t.Helper()
		text := `{"auths":{"r.example":{"username":"` + user + `","password":"p"}}}`
		if strings.HasSuffix(path, ".dockercfg") {
			text = `{"r.example":{"username":"` + user + `","password":"p"}}`
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var problems []string
	got := func() string {
		return users(OfNode([]string{kubelet, home}, func(path string, _ error) { problems = append(problems, path) }).Lookup("r.example/x"))
	}
	if got() != "" {
		t.Error("nothing is there")
	}
	write(filepath.Join(home, "config.json"), "never") // a home's config.json is another program's
	write(filepath.Join(home, ".dockercfg"), "old")
	if got() != "old:p" {
		t.Error(got())
	}
	write(filepath.Join(home, ".docker", "config.json"), "home")
	if got() != "home:p" {
		t.Error(got())
	}
	write(filepath.Join(kubelet, "config.json"), "kubelet")
	if got() != "kubelet:p" || len(problems) > 0 {
		t.Error(got(), problems)
	}
	if err := os.WriteFile(filepath.Join(kubelet, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got() != "home:p" || len(problems) == 0 {
		t.Error(got(), problems)
	}
}
