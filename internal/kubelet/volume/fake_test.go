package volume

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/fake"
	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/objects"
)

func ptr[T any](v T) *T { return &v }

// api is ConfigMaps, Secrets and claims, by "ns/name", and volumes.
type api struct {
	mu      sync.Mutex
	maps    map[string]*v1.ConfigMap
	secrets map[string]*v1.Secret
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	bundles map[string]*certificatesv1.ClusterTrustBundle
	told    func([]objects.Ref)
}

func (a *api) TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.bundles[name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundle"}, name)
}

func (a *api) TrustBundles(signer string, selector labels.Selector) (out []*certificatesv1.ClusterTrustBundle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.bundles {
		if b.Spec.SignerName == signer && selector.Matches(labels.Set(b.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

func (a *api) PersistentVolumeClaim(ns, name string) (*v1.PersistentVolumeClaim, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.claims[ns+"/"+name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, name)
}

func (a *api) PersistentVolume(name string) (*v1.PersistentVolume, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.volumes[name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, name)
}

func (a *api) ConfigMap(ns, name string) (*v1.ConfigMap, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.maps[ns+"/"+name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmap"}, name)
}

func (a *api) Secret(ns, name string) (*v1.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.secrets[ns+"/"+name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
}

func (a *api) Follow(ctx context.Context, resync func(), changed func([]objects.Ref)) error {
	a.mu.Lock()
	a.told = changed
	a.mu.Unlock()
	resync()
	<-ctx.Done()
	return ctx.Err()
}

// set writes a ConfigMap and tells.
func (a *api) set(name string, data map[string]string) {
	a.mu.Lock()
	if data == nil {
		delete(a.maps, "ns/"+name)
	} else {
		a.maps["ns/"+name] = &v1.ConfigMap{Data: maps.Clone(data)}
	}
	told := a.told
	a.mu.Unlock()
	if told != nil {
		told([]objects.Ref{{Kind: objects.ConfigMap, Namespace: "ns", Name: name}})
	}
}

func (a *api) setSecret(name string, data map[string][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets["ns/"+name] = &v1.Secret{Data: data}
}

type testNode struct {
	*Manager
	api  *api
	host *fake.Host
	woke chan types.UID

	events []string // guarded by api.mu
}

// told are the events of pods.
func (n *testNode) told() []string {
	n.api.mu.Lock()
	defer n.api.mu.Unlock()
	return slices.Clone(n.events)
}

// newTest is a Manager on a made-up host, following.
func newTest(t *testing.T) *testNode {
	t.Helper()
	h := fake.New(t.TempDir())
	n := newOn(t, h, h.Path("/"))
	n.host = h
	return n
}

func newOn(t *testing.T, h host.Mounts, root string) *testNode {
	t.Helper()
	n := &testNode{api: &api{
		maps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}, claims: map[string]*v1.PersistentVolumeClaim{},
		volumes: map[string]*v1.PersistentVolume{},
	}, woke: make(chan types.UID, 100)}
	m, err := New(Config{
		Root: root, Host: h, Objects: n.api, Follow: n.api.Follow, Logger: slog.New(slog.DiscardHandler),
		Facts: func() downward.Facts {
			return downward.Facts{Allocatable: v1.ResourceList{"cpu": resource.MustParse("2")}}
		},
		MemoryAllocatable: func() int64 { return 1 << 30 },
		Token: func(_ context.Context, _ *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
			return "token for " + s.Audience, nil
		},
		NodeLabels: func() map[string]string { return map[string]string{"kubernetes.io/hostname": "n1"} },
		Wake:       func(uid types.UID) { n.woke <- uid },
		Event: func(_ *v1.Pod, _, _, reason, message string) {
			n.api.mu.Lock()
			defer n.api.mu.Unlock()
			n.events = append(n.events, reason+": "+message)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Manager = m
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- m.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return n
}

// pod is one whose container mounts every volume.
func pod(uid string, volumes ...v1.Volume) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "p", "ns", types.UID(uid)
	p.Spec.Volumes = volumes
	c := v1.Container{Name: "a"}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func vol(name string, s v1.VolumeSource) v1.Volume { return v1.Volume{Name: name, VolumeSource: s} }

func configMap(name, from string, items ...v1.KeyToPath) v1.Volume {
	s := &v1.ConfigMapVolumeSource{Items: items}
	s.Name = from
	return vol(name, v1.VolumeSource{ConfigMap: s})
}

// read is a file of a pod's volume.
func (n *testNode) read(t *testing.T, p *v1.Pod, volume, file string) string {
	t.Helper()
	dir, _, err := n.Path(p, volume)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (n *testNode) mount(t *testing.T, p *v1.Pod) {
	t.Helper()
	if err := n.Mount(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}
