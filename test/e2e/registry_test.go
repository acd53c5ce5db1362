package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"
)

// registry is a real OCI registry in this process, on loopback, which a story can take away and bring back.
type registry struct {
	mu      sync.Mutex
	addr    string
	handler http.Handler
	server  *http.Server
}

// Who may see what is under private/ in the registry.
const registryUser, registryPassword = "team", "s3cret"

// guarded asks for the password where a repository is private.
func guarded(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/v2/private/") && (user != registryUser || password != registryPassword) {
			w.Header().Set("WWW-Authenticate", `Basic realm="e2e"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// registry start | stop | push LAYOUT REPO:TAG: $REGISTRY is its host:port, the same after stop and start.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if c.registry == nil {
		c.registry = &registry{handler: guarded(ociregistry.New())}
	}
	switch args[0] {
	case "start":
		ts.Check(c.registry.start())
		ts.Setenv("REGISTRY", c.registry.addr)
	case "stop":
		c.registry.close()
	case "push":
		ts.Check(c.registry.push(ts.MkAbs(args[1]), args[2]))
	default:
		ts.Fatalf("usage: registry start | stop | push LAYOUT REPO:TAG")
	}
}

func (r *registry) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	addr := r.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	r.addr = l.Addr().String()
	r.server = &http.Server{Handler: r.handler}
	go r.server.Serve(l)
	return nil
}

func (r *registry) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		r.server.Close()
		r.server = nil
	}
}

// push copies the first image of an OCI layout folder into the registry. It gets an ID of its own: a runtime would take it for the same
// as the imported one otherwise.
func (r *registry) push(folder, repoTag string) error {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) == 0 {
		return fmt.Errorf("%s holds no image", folder)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.Author = repoTag
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	ref, err := name.ParseReference(r.addr+"/"+repoTag, name.Insecure)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(repoTag, "private/") {
		return remote.Write(ref, image)
	}
	// The library shows credentials only to who asks at the registry's root, which stays open to runtimes.
	return remote.Write(ref, image, remote.WithTransport(as{registryUser, registryPassword}))
}

// as is a transport that shows a user and password with every request.
type as struct{ user, password string }

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(a.user, a.password)
	return http.DefaultTransport.RoundTrip(r)
}
