package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/objects"
)

func claim(name, of string, readOnly bool) v1.Volume {
	return vol(name, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: of, ReadOnly: readOnly}})
}

// bind makes a claim "c" and a volume "pv-1" that are bound to each other.
func (a *api) bind(source v1.PersistentVolumeSource, change ...func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim-uid"}}
	c.Spec.VolumeName, c.Status.Phase = "pv-1", v1.ClaimBound
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1", UID: "pv-uid"}}
	pv.Spec.PersistentVolumeSource = source
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "c", UID: c.UID}
	for _, f := range change {
		f(c, pv)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims["ns/c"], a.volumes["pv-1"] = c, pv
}

func local(path string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
}

func on(node string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
}

// A claim that cannot be used says why in the words of upstream's kubelet.
func TestClaimsThatCannotBeUsed(t *testing.T) {
	const prefix = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC ns/c: "
	type change = func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
	for name, test := range map[string]struct {
		source v1.PersistentVolumeSource
		change change
		want   string
	}{
		"not bound": {
			change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending },
			want:   prefix + "PVC is not bound",
		},
		"lost": {
			change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimLost },
			want:   prefix + "PVC is not bound",
		},
		"no volume": {
			change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" },
			want:   prefix + "PVC has empty pvc.Spec.VolumeName",
		},
		"volume gone": {
			change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "pv-2" },
			want:   prefix + `failed to fetch PV pv-2 from API server: persistentvolumes "pv-2" not found`,
		},
		"being deleted": {
			change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.DeletionTimestamp = &metav1.Time{} },
			want:   prefix + "PVC is being deleted",
		},
		"one side only": {
			change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil },
			want:   prefix + "found PV object pv-1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
		},
		"another's": {
			change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" },
			want:   prefix + "found PV object pv-1 but its pv.Spec.ClaimRef.UID other does not point to claim.UID claim-uid",
		},
		"a device is mounted": {
			source: local("/dev/null"),
			change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				pv.Spec.VolumeMode = ptr(v1.PersistentVolumeBlock)
			},
			want: "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: " +
				"volume v has volumeMode Block, but is specified in volumeMounts",
		},
		"another node's": {
			source: local("/x"), change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = on("n2") },
			want: `MountVolume.NodeAffinity check failed for volume "pv-1" : no matching NodeSelectorTerms`,
		},
		"not there": {
			source: local("/does/not/exist"),
			want:   `MountVolume.NewMounter initialization failed for volume "pv-1" : path "/does/not/exist" does not exist`,
		},
		"a file": {
			source: local("/proc/self/status"),
			want:   `MountVolume.NewMounter initialization failed for volume "pv-1" : only directory and block device are supported`,
		},
		"options for nothing": {
			source: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/proc"}},
			change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"noexec"} },
			want:   `MountVolume.MountOptionSupport check failed for volume "pv-1" : mount options are not supported for this volume type`,
		},
		"options in an annotation": {
			source: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/proc"}},
			change: func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				pv.Annotations = map[string]string{v1.MountOptionAnnotation: "noexec,nodev"}
			},
			want: `MountVolume.MountOptionSupport check failed for volume "pv-1" : mount options are not supported for this volume type`,
		},
		"wrong type": {
			source: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/proc/self/status", Type: ptr(v1.HostPathDirectory)}},
			want:   `MountVolume.SetUp failed for volume "pv-1" : hostPath type check failed: /proc/self/status is not a directory, it's a File`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTest(t)
			if test.change == nil {
				test.change = func(*v1.PersistentVolumeClaim, *v1.PersistentVolume) {}
			}
			n.api.bind(test.source, test.change)
			err := n.Mount(context.Background(), pod("u1", claim("v", "c", false)))
			if err == nil || err.Error() != test.want && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("Mount = %v\nwant    %s", err, test.want)
			}
		})
	}
	n := newTest(t)
	err := n.Mount(context.Background(), pod("u1", claim("v", "c", false)))
	if want := prefix + `failed to fetch PVC from API server: persistentvolumeclaims "c" not found`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Mount = %v\nwant    %s", err, want)
	}
}

// A pod that waits for its claim goes on as soon as the claim is bound.
func TestBindingWakesThePod(t *testing.T) {
	n := newTest(t)
	p := pod("u1", claim("v", "c", false))
	if err := n.Mount(context.Background(), p); err == nil {
		t.Fatal("mounted a claim that is not there")
	}
	n.api.bind(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}})
	n.api.told([]objects.Ref{{Kind: objects.Claim, Namespace: "ns", Name: "c"}})
	if uid := <-n.woke; uid != p.UID {
		t.Errorf("woke %s", uid)
	}
	n.mount(t, p)
	if _, readOnly, err := n.Path(p, "v"); err != nil || readOnly {
		t.Errorf("Path = %v, %v", readOnly, err)
	}
}

// A local volume is mounted for each pod, given to its group, read-only where the pod says so, found again after a restart; and
// what is in it stays when the pod goes.
func TestLocalVolume(t *testing.T) {
	n := newReal(t)
	disk := t.TempDir()
	if err := os.WriteFile(filepath.Join(disk, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.api.bind(local(disk), func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = on("n1") })
	p := pod("u1", claim("v", "c", false))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(1234))}
	n.mount(t, p)
	dir, _, _ := n.Path(p, "v")
	if want := filepath.Join(n.Layout().Pod("u1"), "volumes/kubernetes.io~local-volume/pv-1"); dir != want {
		t.Errorf("mounted on %s, want %s", dir, want)
	}
	if got := n.read(t, p, "v", "f"); got != "kept" || !owned(disk, ptr(int64(1234)), groupBits(true, false)) {
		t.Errorf("%q, given to the group: %v", got, owned(disk, ptr(int64(1234)), groupBits(true, false)))
	}
	reader := pod("u2", claim("v", "c", true))
	n.mount(t, reader)
	at, readOnly, _ := n.Path(reader, "v")
	if err := os.WriteFile(filepath.Join(at, "g"), nil, 0o600); err == nil || !readOnly {
		t.Errorf("a read-only claim: %v, written: %v", readOnly, err == nil)
	}

	again := newOn(t, linux.New(), n.Layout().Root)
	n.api.bind(local(disk))
	again.api.claims, again.api.volumes = n.api.claims, n.api.volumes
	again.mount(t, p)
	for _, uid := range []types.UID{"u1", "u2"} {
		if err := again.Unmount(context.Background(), uid); err != nil {
			t.Fatal(err)
		}
	}
	table, err := linux.New().MountTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		if below(n.Layout().Root, m.Target) {
			t.Errorf("left mounted: %s", m.Target)
		}
	}
	if b, err := os.ReadFile(filepath.Join(disk, "f")); err != nil || string(b) != "kept" {
		t.Errorf("after the pods: %q, %v", b, err)
	}
}

// The group's ownership is given again for each pod, unless the pod wants it only where the root differs, in its mode, too.
func TestGroupChangePolicy(t *testing.T) {
	for _, c := range []struct {
		policy v1.PodFSGroupChangePolicy
		root   os.FileMode
		want   bool
	}{
		{v1.FSGroupChangeAlways, 0o770, true},
		{v1.FSGroupChangeOnRootMismatch, 0o770, false},
		{v1.FSGroupChangeOnRootMismatch, 0o700, true},
	} {
		policy, want := c.policy, c.want
		n := newReal(t)
		disk := t.TempDir()
		if err := own(disk, ptr(int64(1234)), false, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(disk, os.ModeSetgid|c.root); err != nil {
			t.Fatal(err)
		}
		inner := filepath.Join(disk, "d")
		if err := os.Mkdir(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(inner, 0o700); err != nil { // what the parent hands down is not what is tested
			t.Fatal(err)
		}
		n.api.bind(local(disk))
		p := pod("u1", claim("v", "c", false))
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(1234)), FSGroupChangePolicy: &policy}
		n.mount(t, p)
		info, err := os.Stat(inner)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm()&0o070 == 0o070; got != want {
			t.Errorf("%s, %o: %v, given to the group: %v", policy, c.root, info.Mode(), got)
		}
		if err := n.Unmount(context.Background(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
}

// Pods that have a local volume do not lose it to another one's group, who is told of that; when they have gone, it is the next one's.
func TestLocalVolumeOfTwoGroups(t *testing.T) {
	n := newReal(t)
	disk := t.TempDir()
	n.api.bind(local(disk))
	mount := func(uid string, group int64) {
		t.Helper()
		p := pod(uid, claim("v", "c", false))
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		n.mount(t, p)
	}
	mount("u1", 1234)
	mount("u2", 5678)
	want := "AlreadyMountedVolume: The requested fsGroup is 5678, but the volume pv-1 has GID 1234. The volume may not be shareable."
	if got := strings.Join(n.told(), "\n"); got != want || !owned(disk, ptr(int64(1234)), groupBits(true, false)) {
		t.Errorf("told %q, want %q; still the first one's: %v", got, want, owned(disk, ptr(int64(1234)), groupBits(true, false)))
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		if err := n.Unmount(context.Background(), uid); err != nil {
			t.Fatal(err)
		}
	}
	mount("u3", 5678)
	if !owned(disk, ptr(int64(5678)), groupBits(true, false)) {
		t.Error("not given to the next pod's group")
	}
	if err := n.Unmount(context.Background(), "u3"); err != nil {
		t.Fatal(err)
	}
}

// A local volume that nobody can be given, since nothing can be written there, is mounted all the same.
func TestLocalVolumeWithoutOwners(t *testing.T) {
	n := newReal(t)
	disk, h := t.TempDir(), linux.New()
	if err := h.Mount("tmpfs", disk, "tmpfs", []string{"ro"}); err != nil {
		t.Fatal(err)
	}
	defer h.Unmount(disk)
	n.api.bind(local(disk))
	p := pod("u1", claim("v", "c", false))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(1234))}
	n.mount(t, p)
	if err := n.Unmount(context.Background(), p.UID); err != nil {
		t.Fatal(err)
	}
}

// The root of a tree is given last: who sees that it is knows that all is.
func TestTheRootIsGivenLast(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := fsnotify.NewBufferedWatcher(16)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(dir); err != nil {
		t.Fatal(err)
	}
	if err := own(dir, ptr(int64(1234)), false, nil); err != nil {
		t.Fatal(err)
	}
	for inner := false; ; {
		switch e := <-w.Events; {
		case e.Name == filepath.Join(dir, "d"):
			inner = true
		case e.Name == dir && !inner:
			t.Fatal("the root came first")
		case e.Name == dir:
			return
		}
	}
}

// A volume that one pod may have is refused to a second one until the first has gone.
func TestReadWriteOncePod(t *testing.T) {
	n := newTest(t)
	n.api.bind(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}},
		func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		})
	first, second := pod("u1", claim("v", "c", false)), pod("u2", claim("v", "c", false))
	n.mount(t, first)
	err := n.Mount(context.Background(), second)
	const want = `MountVolume.SetUp failed for volume "pv-1" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("Mount = %v\nwant    %s", err, want)
	}
	if err := n.Unmount(context.Background(), first.UID); err != nil {
		t.Fatal(err)
	}
	if uid := <-n.woke; uid != second.UID {
		t.Errorf("woke %s", uid)
	}
	n.mount(t, second)
}

// That a device cannot be had is told under a reason of its own, unless a mount failed beside it.
func TestReasonsOfFailures(t *testing.T) {
	device, mount := &stepError{mapDevice, "pv", errors.New("no")}, errors.New("no")
	for want, errs := range map[string][]error{"FailedMapVolume": {device, nil}, "FailedMount": {device, mount}} {
		if got := failure([]*v1.Volume{{Name: "a"}, {Name: "b"}}, errs); got.Reason != want {
			t.Errorf("%v: %+v, want %s", errs, got, want)
		}
	}
}

// What of many files is still being given to a pod's group after half a minute is told, and how far it is each minute from then on.
func TestSlowOwnershipIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		m := &Manager{c: Config{Event: func(_ *v1.Pod, _, kind, reason, message string) { told = append(told, kind+" "+reason+" "+message) }}}
		files, end := m.tellSlow(pod("u1"), "/x/pods/u1/volumes/v")
		time.Sleep(31 * time.Second)
		files.Add(7)
		time.Sleep(time.Minute)
		end()
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []string{
			"Warning VolumePermissionChangeInProgress Setting volume ownership for u1/volumes/v is taking longer than expected, consider using OnRootMismatch - " +
				"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods",
			"Warning VolumePermissionChangeInProgress Setting volume ownership for u1/volumes/v, processed 7 files.",
		}
		if !slices.Equal(told, want) {
			t.Errorf("%q", told)
		}
	})
}
