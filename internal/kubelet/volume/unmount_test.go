package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/objects"
)

// clinging is a host whose unmounts at one place hang until they are released.
type clinging struct {
	host.Mounts
	at      string
	release chan struct{}
}

func (c clinging) Unmount(target string) error {
	if filepath.Base(target) == c.at {
		<-c.release
	}
	return c.Mounts.Unmount(target)
}

// An unmount that the kernel keeps waiting is told with the volume's name when there is no more time, again and again, of a pod that is
// known and of one that nobody knows any more; the others go meanwhile, and it goes once the kernel has answered.
func TestAnUnmountThatHangs(t *testing.T) {
	memory := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newTest(t)
			release := make(chan struct{})
			n.c.Host = clinging{n.c.Host, "stuck", release}
			p := pod("a", vol("well", memory), vol("stuck", memory))
			n.mount(t, p)
			n.mount(t, pod("b", vol("well", memory)))
			if !known { // as for a kubelet that has begun anew
				n.forget(p.UID, n.pods[p.UID])
			}
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				err := n.Unmount(ctx, p.UID)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), `UnmountVolume.TearDown failed for volume "stuck" : unmounting /`) {
					t.Fatalf("known %v: %v", known, err)
				}
			}
			n.api.set("c", map[string]string{"k": "v"}) // nobody works on it who could be disturbed
			n.refreshAll(t.Context())
			if err := n.Unmount(t.Context(), "b"); err != nil { // others are not kept waiting
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := n.Unmount(ctx, p.UID); !errors.Is(err, context.Canceled) {
				t.Fatalf("while the process ends: %v", err)
			}
			close(release)
			if uid := <-n.woke; uid != "a" {
				t.Errorf("woke %s", uid)
			}
			if err := n.Unmount(t.Context(), p.UID); err != nil {
				t.Fatal(err)
			}
			if uids, err := n.OnDisk(); err != nil || len(uids) != 0 {
				t.Errorf("left: %v %v", uids, err)
			}
			if table, _ := n.host.MountTable(); len(table) != 0 {
				t.Errorf("left mounted: %v", table)
			}
		})
	}
}

// A pod that comes back while what it left is being unmounted has its volumes afterwards, and what they show is followed.
func TestAMountWhileAnUnmountHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTest(t)
		release := make(chan struct{})
		n.c.Host = clinging{n.c.Host, "stuck", release}
		n.api.set("c", map[string]string{"k": "v1"})
		p := pod("a", configMap("v", "c"), vol("stuck", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
		n.mount(t, p)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Unmount(short, p.UID); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		const want = "Unable to attach or mount volumes: unmounted volumes=[stuck v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
		if err := n.Mount(short, p); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
		mounted := make(chan error)
		go func() { mounted <- n.Mount(t.Context(), p) }()
		synctest.Wait()
		close(release)
		if err := <-mounted; err != nil {
			t.Fatal(err)
		}
		n.api.set("c", map[string]string{"k": "v2"})
		if got := n.read(t, p, "v", "k"); got != "v2" {
			t.Errorf("it shows %q", got)
		}
		if err := n.Unmount(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
		if uids, err := n.OnDisk(); err != nil || len(uids)+len(n.pods)+len(n.users) != 0 {
			t.Errorf("left: %v %v, %d entries, %d objects followed", uids, err, len(n.pods), len(n.users))
		}
	})
}

// What was in memory is not written to where that was mounted, though other volumes of the pod are not gone yet.
func TestNothingIsShownToAPodThatIsUnmounted(t *testing.T) {
	n := newTest(t)
	n.api.setSecret("s", map[string][]byte{"k": []byte("v1")})
	memory := vol("stuck", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})
	n.mount(t, pod("a", memory))
	p := pod("a", memory, vol("secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}})) // mounted last, it goes first
	n.mount(t, p)
	stuck, _, _ := n.Path(p, "stuck")
	secret, _, _ := n.Path(p, "secret")
	n.host.Fail("unmount", stuck, host.ErrBusy)
	if err := n.Unmount(t.Context(), p.UID); !errors.Is(err, host.ErrBusy) {
		t.Fatal(err)
	}
	if mounted, err := n.host.IsMount(secret); err != nil || mounted {
		t.Fatalf("mounted: %v, %v", mounted, err)
	}
	n.api.setSecret("s", map[string][]byte{"k": []byte("v2")})
	n.refreshAll(t.Context())
	if b, err := os.ReadFile(filepath.Join(secret, "k")); err == nil && string(b) == "v2" {
		t.Error("the secret is on the disk")
	}
	n.host.Fail("unmount", stuck, nil)
	if err := n.Unmount(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
}

func TestWhichVolumeAPathIsIn(t *testing.T) {
	l := Layout{"/r"}
	for path, want := range map[string]string{
		"/r/pods/u/volumes/kubernetes.io~empty-dir/v":       "v",
		"/r/pods/u/volumes/kubernetes.io~empty-dir/v/below": "v",
		"/r/pods/u/volume-subpaths/v/c/0":                   "v",
		"/r/pods/u/etc-hosts":                               "etc-hosts",
		"/r/pods/u/containers/c/1":                          "containers/c/1",
	} {
		if got := l.volumeAt("u", path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// A volume that could not be written when its object changed is written a little later, though nothing changes any more.
func TestAVolumeThatCouldNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTest(t)
		n.api.set("c", map[string]string{"k": "v1"})
		p := pod("a", configMap("v", "c"))
		n.mount(t, p)
		dir, _, _ := n.Path(p, "v")
		obstacle := filepath.Join(dir, tempLink, "in the way")
		if err := os.MkdirAll(obstacle, 0o700); err != nil {
			t.Fatal(err)
		}
		n.api.set("c", map[string]string{"k": "v2"})
		if synctest.Wait(); len(n.told()) != 0 {
			t.Error("told at once", n.told())
		}
		time.Sleep(refreshAgain + time.Second)
		synctest.Wait()
		if events := n.told(); len(events) != 1 || !strings.HasPrefix(events[0], `FailedMount: MountVolume.SetUp failed for volume "v" : `) {
			t.Error("told", events)
		}
		if got := n.read(t, p, "v", "k"); got != "v1" {
			t.Fatalf("it shows %q", got)
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(refreshLater)
		synctest.Wait()
		if got := n.read(t, p, "v", "k"); got != "v2" || len(n.again) != 0 {
			t.Errorf("it shows %q, %d to come", got, len(n.again))
		}
		// What has gone is told as long as it is missed, but not of a pod that goes too.
		told := func() []string {
			before := len(n.told())
			time.Sleep(refreshAgain + refreshLater)
			synctest.Wait()
			return n.told()[before:]
		}
		n.api.set("c", nil)
		if events := told(); len(events) != 2 || events[0] != `FailedMount: MountVolume.SetUp failed for volume "v" : configmap "c" not found` {
			t.Error("told", events)
		}
		ends := p.DeepCopy()
		ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		n.Replace(ends)
		if events := told(); len(events) != 0 {
			t.Error("told of a pod that goes", events)
		}
		n.api.set("c", map[string]string{"k": "v3"})
		n.Replace(p)
		if events := told(); len(events) != 0 || len(n.again) != 0 || n.read(t, p, "v", "k") != "v3" {
			t.Error(events, n.again)
		}
	})
}

// A follower that fails is its component's failure, though volumes are to be tried again.
func TestAFollowerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTest(t).c
		lost := errors.New("lost")
		c.Follow = func(context.Context, func(), func([]objects.Ref)) error { return lost }
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context(), func() {}) }()
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, lost) {
				t.Error(err)
			}
		default:
			t.Error("it goes on")
		}
	})
}
