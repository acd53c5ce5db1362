package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/images/provider"
	"podo.dev/podo/internal/kubelet/images/pulled"
	"podo.dev/podo/internal/podlife"
)

// door is a registry in this process; a repository opens to user:password only, one without an entry to everybody.
type door struct {
	host string
	open map[string]string // password of user "u" by repository
}

func newDoor(t *testing.T, open map[string]string) *door {
	t.Helper()
	d := &door{open: open}
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for repo, password := range d.open {
			if user, got, _ := r.BasicAuth(); strings.HasPrefix(r.URL.Path, "/v2/"+repo+"/") && (user != "u" || got != password) {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		if r.URL.Path == "/v2/" && r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`) // so that a client shows what it has
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.host = strings.TrimPrefix(s.URL, "http://")
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, repo := range []string{"secret/a", "secret/b", "public"} {
		ref, err := name.ParseReference(d.host + "/" + repo + ":1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: "u", Password: open[repo]})); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// puller is a runtime that really pulls.
type puller struct {
	cri.Images
	mu    sync.Mutex
	have  map[string]*runtimev1.Image
	pulls []string // image and user
}

func (p *puller) ImageStatus(_ context.Context, i *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[i.Image], nil
}

func (p *puller) PullImage(ctx context.Context, i *runtimev1.ImageSpec, auth *runtimev1.AuthConfig, _ *runtimev1.PodSandboxConfig) (string, error) {
	as := authn.Anonymous
	if auth != nil {
		as = &authn.Basic{Username: auth.Username, Password: auth.Password}
	}
	ref, err := name.ParseReference(i.Image)
	if err != nil {
		return "", err
	}
	image, err := remote.Image(ref, remote.WithAuth(as), remote.WithContext(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	_, repo, _ := strings.Cut(i.Image, "/")
	p.pulls = append(p.pulls, repo+" "+auth.GetPassword())
	if err != nil {
		return "", status.Error(codes.Unknown, "pull access denied")
	}
	id, err := image.ConfigName()
	if err != nil {
		return "", err
	}
	p.have[i.Image] = &runtimev1.Image{Id: id.String(), Size: 7}
	p.have[id.String()] = p.have[i.Image]
	return id.String(), nil
}

// pulls returns and forgets what was pulled.
func (p *puller) taken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := strings.Join(p.pulls, ", ")
	p.pulls = nil
	return out
}

func podOf(namespace string, pullSecrets ...string) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name = namespace, "p"
	for _, s := range pullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return p
}

func dockerConfig(entries string) *v1.Secret {
	s := &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{` + entries + `}}`)}}
	return s
}

func loginTo(server, password string) *v1.Secret {
	return dockerConfig(`"` + server + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("u:"+password)) + `"}`)
}

func named(namespace, name string, s *v1.Secret) *v1.Secret {
	s.Namespace, s.Name = namespace, name
	s.UID = types.UID("uid-of-" + namespace + "-" + name)
	return s
}

func records(t *testing.T, dir string, policy v1beta1.ImagePullCredentialsVerificationPolicy) *pulled.Records {
	t.Helper()
	p, err := pulled.NewPolicy(policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pulled.Open(dir, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASecretsImageOpensToWhoeverCanShowIt(t *testing.T) {
	d := newDoor(t, map[string]string{"secret/a": "A", "secret/b": "B"})
	all := secrets{
		"one/team":  named("one", "team", loginTo(d.host+"/secret", "A")),
		"two/copy":  named("two", "copy", loginTo(d.host, "A")),
		"two/wrong": named("two", "wrong", loginTo(d.host, "X")),
		"two/both":  named("two", "both", loginTo(d.host+"/secret/b", "X")),
		"two/right": named("two", "right", loginTo(d.host+"/secret", "B")),
	}
	dir := t.TempDir()
	p := &puller{have: map[string]*runtimev1.Image{}}
	n := newNodeOf(t, Config{Runtime: p, Secrets: all, Records: records(t, dir, v1beta1.NeverVerifyPreloadedImages)})
	want := func(pod *v1.Pod, repo string, policy v1.PullPolicy, reason, pulls string) {
		t.Helper()
		_, err := n.Ensure(t.Context(), pod, wants(d.host+"/"+repo, policy), nil)
		got := ""
		if f := (&podlife.Failure{}); errors.As(err, &f) {
			got = f.Reason
		}
		if got != reason {
			t.Errorf("%s of %s: %v, want %q", repo, pod.Namespace, err, reason)
		}
		if got := p.taken(); got != pulls {
			t.Errorf("%s of %s pulled %q, want %q", repo, pod.Namespace, got, pulls)
		}
	}
	want(podOf("two"), "secret/a:1", v1.PullIfNotPresent, "ErrImagePull", "secret/a:1 ")
	want(podOf("one", "team"), "secret/a:1", v1.PullIfNotPresent, "", "secret/a:1 A")
	want(podOf("one", "team"), "secret/a:1", v1.PullIfNotPresent, "", "")
	want(podOf("one", "team"), "secret/a:1", v1.PullNever, "", "")
	// It is there, and still not free for all: neither to run nor to find out about.
	want(podOf("two"), "secret/a:1", v1.PullIfNotPresent, "ErrImagePull", "secret/a:1 ")
	want(podOf("two"), "secret/a:1", v1.PullNever, "ErrImageNeverPull", "")
	want(podOf("two", "wrong"), "secret/a:1", v1.PullIfNotPresent, "ErrImagePull", "secret/a:1 X")
	// The same user and password do, from wherever, and without a pull.
	want(podOf("two", "copy"), "secret/a:1", v1.PullIfNotPresent, "", "")
	// The more exact credential comes first, then the next one.
	want(podOf("two", "both", "right"), "secret/b:1", v1.PullIfNotPresent, "", "secret/b:1 X, secret/b:1 B")
	want(podOf("three"), "public:1", v1.PullIfNotPresent, "", "public:1 ")
	want(podOf("two", "wrong"), "public:1", v1.PullIfNotPresent, "", "")
	// The same content under a name that somebody imported is still his; by its id it is nobody's.
	same := &runtimev1.Image{Id: p.have[d.host+"/secret/a:1"].Id, RepoTags: []string{d.host + "/imported:1"}}
	p.have[d.host+"/imported:1"], p.have[d.host+"/other:1"] = same, same
	want(podOf("two"), "imported:1", v1.PullNever, "", "")
	want(podOf("two"), "other:1", v1.PullNever, "ErrImageNeverPull", "")
	// A restart of the kubelet forgets nothing.
	n = newNodeOf(t, Config{Runtime: p, Secrets: all, Records: records(t, dir, v1beta1.NeverVerifyPreloadedImages)})
	want(podOf("one", "team"), "secret/a:1", v1.PullIfNotPresent, "", "")
	want(podOf("two"), "secret/a:1", v1.PullNever, "ErrImageNeverPull", "")
	if left, err := os.ReadDir(filepath.Join(dir, "pulling")); err != nil || len(left) != 0 {
		t.Errorf("records of pulls under way: %v %v", left, err)
	}
}

func TestNodeAndPlugins(t *testing.T) {
	d := newDoor(t, map[string]string{"secret/a": "A", "secret/b": "B"})
	dir, bin := t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "config.json"), `{"auths":{"`+d.host+`":{"username":"u","password":"A"}}}`, 0o600)
	write(filepath.Join(bin, "plug"), `#!/bin/sh
cat > /dev/null
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Image","auth":{"`+d.host+`":{"username":"u","password":"B"}}}'
`, 0o755)
	write(filepath.Join(bin, "c.yaml"), fmt.Sprintf(`{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [
{name: plug, matchImages: ["%s/secret"], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}`, d.host), 0o600)
	plugins, err := provider.New(provider.Config{Path: filepath.Join(bin, "c.yaml"), BinDir: bin, Accounts: struct{ provider.Accounts }{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := &puller{have: map[string]*runtimev1.Image{}}
	n := newNodeOf(t, Config{Runtime: p, Secrets: secrets{}, Plugins: plugins, NodeDirs: []string{dir}, Records: records(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)})
	for _, repo := range []string{"secret/b:1", "secret/b:1", "secret/a:1"} {
		if _, err := n.Ensure(t.Context(), podOf("ns"), wants(d.host+"/"+repo, v1.PullIfNotPresent), nil); err != nil {
			t.Error(err)
		}
	}
	// The node's comes before the plug-in's; both are every pod's, so that what they opened is free.
	if got, want := p.taken(), "secret/b:1 A, secret/b:1 B, secret/a:1 A"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestASecretThatIsNoConfigurationNamesItself(t *testing.T) {
	p := &puller{have: map[string]*runtimev1.Image{}}
	n := newNodeOf(t, Config{Runtime: p, Secrets: secrets{"ns/bad": named("ns", "bad", dockerConfig(`"r":{"auth":"!"}`))}})
	_, err := n.Ensure(t.Context(), podOf("ns", "bad"), wants("reg.example/x", v1.PullIfNotPresent), nil)
	if err == nil || !strings.Contains(err.Error(), `the pull secret "bad" is no Docker configuration`) || len(p.pulls) > 0 {
		t.Errorf("%v, pulled %q", err, p.pulls)
	}
	if !slices.ContainsFunc(n.events, func(e string) bool { return strings.HasPrefix(e, "a|Warning|Failed|Failed to pull image") }) {
		t.Errorf("events %q", n.events)
	}
}
