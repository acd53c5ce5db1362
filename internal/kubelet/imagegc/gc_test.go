package imagegc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/imagegc"
)

// node is a runtime on a disk of 1000 bytes, and the collector's events.
type node struct {
	t      *testing.T
	rt     *fake.Runtime
	other  atomic.Int64 // bytes on the disk that no image holds
	policy imagegc.Policy
	gc     *imagegc.Collector
	stop   func()

	mu     sync.Mutex
	events []string
}

func newNode(t *testing.T) *node {
	n := &node{t: t, rt: fake.New(), policy: imagegc.Policy{High: 85, Low: 80, MinAge: 2 * time.Minute}, stop: func() {}}
	for name, size := range map[string]uint64{"old": 50, "small": 60, "large": 100, "dead": 100, "mounted": 100} {
		n.rt.Offer(fake.Image{Name: name, Size: size})
		if _, err := n.rt.PullImage(t.Context(), &runtimev1.ImageSpec{Image: name}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.rt.Offer(fake.Image{Name: "imported", Size: 100, Local: true, Pinned: true})
	return n
}

// start runs a new collector, as after a restart of podo.
func (n *node) start() {
	n.stop()
	var err error
	n.gc, err = imagegc.New(imagegc.Config{
		Runtime: n.rt, Disk: n.disk, Log: slog.New(slog.DiscardHandler), Policy: n.policy,
		NodeEvent: func(kind, reason, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, kind+" "+reason+": "+message)
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.gc.Run(ctx, func() {}); err != nil {
			n.t.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (n *node) disk(ctx context.Context) (capacity, available int64, err error) {
	other := n.other.Load()
	if other < 0 {
		return 0, 0, nil
	}
	images, err := n.rt.ListImages(ctx)
	available = 1000 - other
	for _, i := range images {
		available -= int64(i.Size)
	}
	return 1000, available, err
}

func (n *node) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (n *node) images(want ...string) {
	n.t.Helper()
	images, err := n.rt.ListImages(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	var got []string
	for _, i := range images {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(i.RepoTags[0], "docker.io/library/"), ":latest"))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		n.t.Fatalf("images %v, want %v", got, want)
	}
}

func (n *node) told(want ...string) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.events, want) {
		n.t.Fatalf("events\n%s\nwant\n%s", strings.Join(n.events, "\n"), strings.Join(want, "\n"))
	}
	n.events = nil
}

// container leaves a container of an image that has ended.
func (n *node) container(name, image string, mounts ...*runtimev1.Mount) (id string) {
	n.t.Helper()
	ctx := n.t.Context()
	box := &runtimev1.PodSandboxConfig{Metadata: &runtimev1.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: name}}
	sandbox, err := n.rt.RunPodSandbox(ctx, box, "")
	if err != nil {
		n.t.Fatal(err)
	}
	id, err = n.rt.CreateContainer(ctx, sandbox, &runtimev1.ContainerConfig{
		Metadata: &runtimev1.ContainerMetadata{Name: "a"}, Image: &runtimev1.ImageSpec{Image: image}, Command: []string{"true"}, Mounts: mounts,
	}, box)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.rt.StartContainer(ctx, id); err != nil {
		n.t.Fatal(err)
	}
	n.wait(time.Second)
	return id
}

func shortage(percent, freed int, stay string) string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of 1000 B used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data. Images that stay: %s.", percent, freed, stay)
}

// A disk fills up, and the images that nothing needs go, the one that went unused for longest first, and only as many as must.
func TestAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		used := n.container("used", "large")
		n.container("dead", "dead", &runtimev1.Mount{ContainerPath: "/m", Image: &runtimev1.ImageSpec{Image: "docker.io/library/mounted:latest"}})
		n.other.Store(330) // with 510 of images 84 %
		n.start()
		n.wait(5 * time.Minute)
		n.images("dead", "imported", "large", "mounted", "old", "small")
		if err := n.rt.RemoveContainer(t.Context(), used); err != nil {
			t.Fatal(err)
		}
		n.other.Store(370) // 88 %: 80 bytes must go; large was used five minutes ago, the two others never
		n.wait(5 * time.Minute)
		n.images("dead", "imported", "large", "mounted")
		n.told()

		n.other.Store(500) // 90 %: 100 bytes
		n.gc.Wanted("docker.io/library/large:latest")
		n.wait(time.Minute)
		if err := n.gc.Collect(t.Context()); err == nil {
			t.Error("an image goes although a container is about to be made from it")
		}
		stay := "2 in use by containers, 1 pinned or imported"
		n.told("Warning FreeDiskSpaceFailed: " + shortage(90, 0, stay+", 1 pulled or asked for less than 2m0s ago"))
		n.images("dead", "imported", "large", "mounted")
		n.wait(4 * time.Minute)
		n.images("dead", "imported", "mounted")
		n.told()

		n.other.Store(600) // 90 %, and no image that could go: told at once, and twice when it stays so
		n.wait(5 * time.Minute)
		n.told("Warning FreeDiskSpaceFailed: " + shortage(90, 0, stay))
		n.wait(5 * time.Minute)
		n.told("Warning FreeDiskSpaceFailed: "+shortage(90, 0, stay), "Warning ImageGCFailed: "+shortage(90, 0, stay))
		n.other.Store(-1)
		n.wait(5 * time.Minute)
		n.told("Warning InvalidDiskCapacity: invalid capacity 0 on image filesystem", "Warning ImageGCFailed: invalid capacity 0 on image filesystem")
		n.other.Store(0)
		n.wait(5 * time.Minute)
		n.told()
		n.stop()
	})
}

// An eviction frees all that nothing needs; what has come just now stays, and after a restart everything has.
func TestFreeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.policy.High = 100
		n.container("dead", "dead")
		n.start()
		free := func() {
			t.Helper()
			if err := n.gc.FreeAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all := []string{"dead", "imported", "large", "mounted", "old", "small"}
		n.wait(time.Minute)
		free()
		n.images(all...)
		n.wait(time.Minute)
		n.start()
		free()
		n.images(all...)
		n.wait(2 * time.Minute)
		end := n.rt.Fail(fake.Fault{Op: "RemoveImage", Err: errors.New("read-only"), Times: 1})
		if err := n.gc.FreeAll(t.Context()); err == nil || err.Error() != "image docker.io/library/large:latest: read-only" {
			t.Errorf("%v", err)
		}
		end()
		n.images("dead", "imported", "large")
		free()
		n.images("dead", "imported")
		n.told()
		n.stop()
	})
}

// An image that nothing has used for the maximum age goes, however empty the disk is.
func TestMaximumAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.policy.High, n.policy.MaxAge = 100, 24*time.Hour
		id := n.container("dead", "dead")
		n.start()
		n.wait(12 * time.Hour)
		if err := n.rt.RemoveContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		n.wait(12 * time.Hour)
		n.images("dead", "imported", "large", "mounted", "old", "small")
		n.wait(5 * time.Minute)
		n.images("dead", "imported")
		n.wait(12 * time.Hour)
		n.images("imported")
		n.told()
		n.stop()
	})
}

// A container that comes for an image while others are being removed finds it.
func TestWantedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.start()
		n.wait(3 * time.Minute)
		n.rt.Latency("RemoveImage", time.Second)
		time.AfterFunc(500*time.Millisecond, func() { n.gc.Wanted("docker.io/library/old:latest") })
		if err := n.gc.FreeAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.images("imported", "old")
		n.stop()
	})
}
