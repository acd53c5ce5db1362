package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"weak"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/fake"
	"podo.dev/podo/internal/podlife"
)

func TestEmptyDir(t *testing.T) {
	n := newTest(t)
	p := pod("u1", vol("disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		vol("mem", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr(resource.MustParse("8Mi"))}}),
		vol("huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4000))}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	unused := vol("unused", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}})
	p.Spec.Volumes = append(p.Spec.Volumes, unused)
	n.mount(t, p)
	disk, readOnly, err := n.Path(p, "disk")
	if err != nil || readOnly || !strings.HasSuffix(disk, "/pods/u1/volumes/kubernetes.io~empty-dir/disk") {
		t.Fatalf("Path = %s, %v, %v", disk, readOnly, err)
	}
	info, err := os.Stat(disk)
	if err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o777 || info.Sys().(*syscall.Stat_t).Gid != 4000 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(disk, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.mount(t, p) // again, as after a restart
	if got := n.read(t, p, "disk", "f"); got != "kept" {
		t.Errorf("the file is now %q", got)
	}
	table, _ := n.host.MountTable()
	options := map[string]string{}
	for _, m := range table {
		options[filepath.Base(m.Target)] = m.FSType + " " + strings.Join(m.Options, ",")
	}
	if len(table) != 2 || options["mem"] != "tmpfs size=8388608,noswap" || options["huge"] != "hugetlbfs pagesize=2Mi" {
		t.Errorf("mounts %v", options)
	}
	if err := n.Unmount(context.Background(), "u1"); err != nil {
		t.Fatal(err)
	}
	if table, _ := n.host.MountTable(); len(table) != 0 {
		t.Errorf("left mounted: %v", table)
	}
	if uids, err := n.OnDisk(); err != nil || len(uids) != 0 {
		t.Errorf("left on disk: %v, %v", uids, err)
	}
	if err := n.Unmount(context.Background(), "u1"); err != nil {
		t.Errorf("Unmount again: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	n := newTest(t)
	p := pod("u1", vol("m", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
	n.mount(t, p)
	q := pod("u2", p.Spec.Volumes[0])
	q.Spec.Containers[0].Resources.Limits = v1.ResourceList{"memory": resource.MustParse("64Mi")}
	n.mount(t, q)
	table, _ := n.host.MountTable()
	var got []string
	for _, m := range table {
		got = append(got, m.Options...)
	}
	if want := []string{"size=1073741824", "noswap", "size=67108864", "noswap"}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want the node's and the pod's: %v", got, want)
	}
}

// noSwap is a kernel that does not know the option.
type noSwap struct{ *fake.Host }

func (h noSwap) Mount(source, target, fsType string, options []string) error {
	if slices.Contains(options, "noswap") {
		return fmt.Errorf("mount: %w", unix.EINVAL)
	}
	return h.Host.Mount(source, target, fsType, options)
}

func TestMemoryOfAnOldKernel(t *testing.T) {
	h := fake.New(t.TempDir())
	n := newOn(t, noSwap{h}, h.Path("/"))
	told := 0
	n.c.Swapped = func() { told++ }
	for _, uid := range []string{"u1", "u2"} {
		n.mount(t, pod(uid, vol("m", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})))
	}
	table, _ := h.MountTable()
	if len(table) != 2 || len(table[0].Options) != 1 || told != 1 {
		t.Errorf("%+v, told %d times", table, told)
	}
}

// The size of huge pages is what the medium or some request of the pod names.
func TestHugePages(t *testing.T) {
	asks := func(names ...string) (l v1.ResourceList) {
		l = v1.ResourceList{}
		for _, name := range names {
			l[v1.ResourceName(name)] = resource.MustParse("1Gi")
		}
		return l
	}
	p := func(container, init, pod v1.ResourceList) *v1.Pod {
		out := &v1.Pod{}
		out.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: container}}}
		out.Spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: init}}}
		if pod != nil {
			out.Spec.Resources = &v1.ResourceRequirements{Requests: pod, Limits: pod}
		}
		return out
	}
	const two, big = "hugepages-2Mi", "hugepages-1Gi"
	for _, c := range []struct {
		pod    *v1.Pod
		medium v1.StorageMedium
		want   string
	}{
		{p(asks("cpu", two), nil, nil), "HugePages", "2Mi"},
		{p(nil, asks(big), nil), "HugePages", "1Gi"},
		{p(nil, nil, asks(two)), "HugePages", "2Mi"},
		{p(asks(two), asks(big), nil), "HugePages-1Gi", "1Gi"},
		{p(asks(two), asks(big), nil), "HugePages-2Mi", "2Mi"},
		{p(asks(two), asks(big), nil), "HugePages", "medium: HugePages can't be used if container requests multiple huge page sizes"},
		{p(asks("cpu"), nil, nil), "HugePages", "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		{p(asks(two), nil, nil), "HugePages-1Gi", "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"},
	} {
		size, err := pageSize(c.pod, c.medium)
		got := size.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.medium, got, c.want)
		}
	}
}

func TestPayloads(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v", "x": "y"})
	n.api.maps["ns/c"].BinaryData = map[string][]byte{"b": {0, 1}}
	n.api.setSecret("s", map[string][]byte{"password": []byte("p")})
	projected := &v1.ProjectedVolumeSource{DefaultMode: ptr(int32(0o440)), Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Items: []v1.KeyToPath{{Key: "password", Path: "deep/er/k"}}}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "a", Path: "token"}},
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr(true)}},
	}}
	p := pod("u1",
		configMap("all", "c"),
		configMap("some", "c", v1.KeyToPath{Key: "k", Path: "dir/k", Mode: ptr(int32(0o400))}),
		vol("secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr(int32(0o600))}}),
		vol("none", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none", Optional: ptr(true)}}),
		vol("down", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "a", Resource: "limits.cpu"}},
		}}}),
		vol("proj", v1.VolumeSource{Projected: projected}))
	p.Labels = map[string]string{"l": "1"}
	n.mount(t, p)
	for _, f := range [][3]string{
		{"all", "k", "v"},
		{"all", "b", "\x00\x01"},
		{"some", "dir/k", "v"},
		{"secret", "password", "p"},
		{"down", "labels", `l="1"`},
		{"down", "cpu", "2"},
		{"proj", "x", "y"},
		{"proj", "deep/er/k", "p"},
		{"proj", "name", "p"},
		{"proj", "token", "token for a"},
	} {
		if got := n.read(t, p, f[0], f[1]); got != f[2] {
			t.Errorf("%s/%s is %q, want %q", f[0], f[1], got, f[2])
		}
	}
	for _, f := range []struct {
		volume, file string
		mode         fs.FileMode
	}{{"all", "k", 0o644}, {"some", "dir/k", 0o400}, {"secret", "password", 0o600}, {"proj", "k", 0o440}} {
		dir, readOnly, _ := n.Path(p, f.volume)
		info, err := os.Stat(filepath.Join(dir, f.file))
		if err != nil || info.Mode() != f.mode || !readOnly {
			t.Errorf("%s/%s: %v, read-only %v, %v", f.volume, f.file, info.Mode(), readOnly, err)
		}
	}
	var inMemory []string
	table, _ := n.host.MountTable()
	for _, m := range table {
		inMemory = append(inMemory, filepath.Base(m.Target))
	}
	slices.Sort(inMemory)
	if want := []string{"down", "none", "proj", "secret"}; !slices.Equal(inMemory, want) {
		t.Errorf("in memory: %v, want %v", inMemory, want)
	}
	if dir, _, _ := n.Path(p, "none"); len(seen(t, dir)) != 0 {
		t.Error("an optional secret that is not there has files")
	}

	p = p.DeepCopy()
	p.Labels["l"] = "2"
	n.Replace(p)
	n.Refresh(context.Background(), p.UID)
	if got := n.read(t, p, "down", "labels"); got != `l="2"` {
		t.Errorf("labels after a change: %q", got)
	}
}

// Of a pod of which there is a newer form the one that was mounted is not held.
func TestTheNewestFormIsHeldAlone(t *testing.T) {
	n := newTest(t)
	mounted := func() weak.Pointer[v1.Pod] {
		p := pod("u1", vol("empty", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
		n.mount(t, p)
		n.Replace(p.DeepCopy())
		return weak.Make(p)
	}()
	for range 10 { // a goroutine of the mount may just be ending
		if runtime.GC(); mounted.Value() == nil {
			break
		}
	}
	if mounted.Value() != nil {
		t.Error("the form that was mounted is held")
	}
	n.Replace(pod("u2")) // it has not been mounted
	if len(n.pods) != 1 {
		t.Errorf("%d pods are known", len(n.pods))
	}
}

func TestGroupMayRead(t *testing.T) {
	n := newTest(t)
	n.api.setSecret("s", map[string][]byte{"k": []byte("v")})
	p := pod("u1", vol("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr(int32(0o400))}}))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4000))}
	n.mount(t, p)
	n.mount(t, p)
	dir, _, _ := n.Path(p, "s")
	info, err := os.Stat(filepath.Join(dir, "k"))
	if err != nil || info.Mode() != 0o440 || info.Sys().(*syscall.Stat_t).Gid != 4000 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("written twice: %v", entries)
	}
}

// What containers have done to the modes in a volume is theirs: a database refuses a directory that others may read.
func TestGroupIsGivenOnce(t *testing.T) {
	n := newTest(t)
	p := pod("u1", vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4000))}
	n.mount(t, p)
	dir, _, _ := n.Path(p, "e")
	file := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(dir, os.ModeSetgid|0o700)); err != nil {
		t.Fatal(err)
	}
	n.mount(t, p) // as after a restart
	for path, want := range map[string]os.FileMode{dir: os.ModeDir | os.ModeSetgid | 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestFailures(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v"})
	n.api.setSecret("s", map[string][]byte{"k": []byte("v")})
	secret := func(key string) v1.Volume {
		return vol("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: key, Path: "x"}}}})
	}
	for _, tc := range []struct {
		volumes []v1.Volume
		want    string
	}{
		{[]v1.Volume{configMap("x", "y")}, `MountVolume.SetUp failed for volume "x" : configmap "y" not found`},
		{[]v1.Volume{vol("x", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "y"}})}, `MountVolume.SetUp failed for volume "x" : secret "y" not found`},
		{[]v1.Volume{configMap("x", "c", v1.KeyToPath{Key: "z", Path: "z"})}, `MountVolume.SetUp failed for volume "x" : configmap references non-existent config key: z`},
		{[]v1.Volume{secret("z")}, `MountVolume.SetUp failed for volume "s" : references non-existent secret key: z`},
		{[]v1.Volume{configMap("x", "c", v1.KeyToPath{Key: "k", Path: "../z"})}, `MountVolume.SetUp failed for volume "x" : invalid path: must not start with '..': ../z`},
		{
			[]v1.Volume{configMap("x", "y"), configMap("ok", "c"), configMap("z", "y")},
			`MountVolume.SetUp failed for volume "x" : configmap "y" not found; MountVolume.SetUp failed for volume "z" : configmap "y" not found`,
		},
		{
			[]v1.Volume{vol("x", v1.VolumeSource{NFS: &v1.NFSVolumeSource{}})},
			`MountVolume.SetUp failed for volume "x" : volumes of type nfs are not supported yet`,
		},
		{
			[]v1.Volume{vol("x", v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}})},
			`MountVolume.SetUp failed for volume "x" : volumes of type iscsi are not supported yet`,
		},
		{
			[]v1.Volume{vol("x", v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{}})},
			`MountVolume.SetUp failed for volume "x" : git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the ` +
				"feature-gate `GitRepoVolumeDriver`",
		},
		{
			[]v1.Volume{vol("x", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d.example.com"}})},
			`MountVolume.SetUp failed for volume "x" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name d.example.com ` +
				`not found in the list of registered CSI drivers`,
		},
		{
			[]v1.Volume{vol("x", v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{}})},
			`Unable to attach or mount volumes: unmounted volumes=[x], unattached volumes=[], failed to process volumes=[x]: ` +
				`failed to get Plugin from volumeSpec for volume "x" err=no volume plugin matched`,
		},
	} {
		err := n.Mount(context.Background(), pod("u", tc.volumes...))
		var f *podlife.Failure
		if !errors.As(err, &f) || f.Reason != "FailedMount" || f.Message != tc.want {
			t.Errorf("%#v\nwant %s", err, tc.want)
		}
	}
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test's listener
	if err := unix.Mkfifo(at("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		kind v1.HostPathType
		want string // "" is success; else what it is not
	}{
		{dir, v1.HostPathUnset, ""},
		{at("none"), v1.HostPathUnset, ""},
		{dir, v1.HostPathDirectory, ""},
		{at("none"), v1.HostPathDirectory, "a directory, unable to determine its type: path \"" + at("none") + "\" does not exist"},
		{at("file"), v1.HostPathDirectory, "a directory, it's a File"},
		{at("made/deep"), v1.HostPathDirectoryOrCreate, ""},
		{at("made/deep"), v1.HostPathDirectory, ""},
		{at("file"), v1.HostPathDirectoryOrCreate, "a directory, it's a File"},
		{at("file"), v1.HostPathFile, ""},
		{dir, v1.HostPathFile, "a file, it's a Directory"},
		{at("made/file"), v1.HostPathFileOrCreate, ""},
		{at("made/file"), v1.HostPathFile, ""},
		{dir, v1.HostPathFileOrCreate, "a file, it's a Directory"},
		{at("socket"), v1.HostPathSocket, ""},
		{at("file"), v1.HostPathSocket, "a socket file, it's a File"},
		{at("fifo"), v1.HostPathFileOrCreate, "a file, unable to determine its type: only recognise file, directory, socket, block device and character device"},
		{at("socket"), v1.HostPathFile, "a file, it's a Socket"},
		{"/dev/null", v1.HostPathCharDev, ""},
		{at("file"), v1.HostPathCharDev, "a character device, it's a File"},
		{at("file/x"), v1.HostPathUnset, ""},
		{at("file/x"), v1.HostPathFile, "a file, unable to determine its type: stat " + at("file/x") + ": not a directory"},
		{"/dev/null", v1.HostPathBlockDev, "a block device, it's a CharDevice"},
	} {
		err := checkHostPath(&v1.HostPathVolumeSource{Path: tc.path, Type: &tc.kind})
		want := ""
		if tc.want != "" {
			want = "hostPath type check failed: " + tc.path + " is not " + tc.want
			if strings.Contains(tc.want, "unable") {
				want = strings.Replace(want, "failed:", "failed,", 1)
			}
		}
		if (err == nil) != (want == "") || (err != nil && err.Error() != want) {
			t.Errorf("%s as %q: %v, want %q", tc.path, tc.kind, err, want)
		}
	}
	if err := checkHostPath(&v1.HostPathVolumeSource{Path: at("no/dir/file"), Type: ptr(v1.HostPathFileOrCreate)}); err == nil {
		t.Error("a file was made without its directory")
	}
}

func TestChangesReachVolumes(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v1"})
	a, b := pod("a", configMap("v", "c")), pod("b", configMap("v", "c"))
	n.mount(t, a)
	n.mount(t, b)
	n.api.set("c", map[string]string{"k": "v2", "new": "x"})
	for _, p := range []*v1.Pod{a, b} {
		if got := n.read(t, p, "v", "k") + n.read(t, p, "v", "new"); got != "v2x" {
			t.Errorf("pod %s sees %q", p.UID, got)
		}
	}
	n.api.set("c", nil)
	if got := n.read(t, a, "v", "k"); got != "v2" {
		t.Errorf("after the deletion %q, want what was there", got)
	}
	if err := n.Unmount(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	n.api.set("c", map[string]string{"k": "v3"})
	if _, err := os.Stat(n.Layout().Pod("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a change brought an unmounted pod back: %v", err)
	}
	if got := n.read(t, b, "v", "k"); got != "v3" {
		t.Errorf("pod b sees %q", got)
	}
	if len(n.users) != 1 {
		t.Errorf("users %v", n.users)
	}
}

func TestMissingObjectWakesThePod(t *testing.T) {
	n := newTest(t)
	p := pod("a", configMap("v", "c"))
	if err := n.Mount(context.Background(), p); err == nil {
		t.Fatal("mounted what is not there")
	}
	n.api.set("c", map[string]string{"k": "v"})
	if uid := <-n.woke; uid != "a" {
		t.Errorf("woke %s", uid)
	}
	n.mount(t, p)
	n.api.set("c", map[string]string{"k": "v2"})
	if got := n.read(t, p, "v", "k"); got != "v2" || len(n.woke) != 0 {
		t.Errorf("sees %q, woke %d", got, len(n.woke))
	}
}

// stuck is a host whose mounts in one folder hang until they are released.
type stuck struct {
	host.Mounts
	at      string
	release chan struct{}
}

func (s stuck) Mount(source, target, fsType string, options []string) error {
	if filepath.Base(target) == s.at {
		<-s.release
	}
	return s.Mounts.Mount(source, target, fsType, options)
}

// A mount that the kernel keeps waiting is told when there is no more time, again and again, and nobody touches the pod's directory meanwhile.
// When the kernel has answered, the pod is woken.
func TestAMountThatHangs(t *testing.T) {
	n := newTest(t)
	release := make(chan struct{})
	n.c.Host = stuck{n.c.Host, "stuck", release}
	memory := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	p := pod("a", vol("well", memory), vol("stuck", memory))
	const want = "Unable to attach or mount volumes: unmounted volumes=[stuck], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
	for i := range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := n.Mount(ctx, p)
		cancel()
		var f *podlife.Failure
		if !errors.As(err, &f) || f.Reason != "FailedMount" || f.Message != want {
			t.Fatalf("%d: %#v", i, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Unmount(ctx, p.UID); !errors.Is(err, context.Canceled) {
		t.Fatalf("unmounted what is being mounted: %v", err)
	}
	if err := n.Mount(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatalf("a pod that stops: %v", err)
	}
	n.mount(t, pod("b", vol("well", memory))) // others are not kept waiting
	if len(n.woke) > 0 {
		t.Error("woken while nothing has changed")
	}
	close(release)
	if uid := <-n.woke; uid != "a" {
		t.Errorf("woke %s", uid)
	}
	n.mount(t, p)
	if err := n.Unmount(context.Background(), p.UID); err != nil {
		t.Fatal(err)
	}
	if uids, err := n.OnDisk(); err != nil || len(uids) != 1 {
		t.Errorf("left: %v %v", uids, err)
	}
}

// A change while Mount works must not be lost, whichever of the two comes first.
func TestChangeDuringMount(t *testing.T) {
	n := newTest(t)
	p := pod("a", configMap("v", "c"))
	for i := range 200 {
		want := strings.Repeat("x", i+1)
		done := make(chan error)
		go func() { done <- n.Mount(context.Background(), p) }()
		n.api.set("c", map[string]string{"k": want})
		if err := <-done; err != nil && i > 0 {
			t.Fatal(err)
		}
		if i == 0 { // the first may come before there is anything
			n.mount(t, p)
		}
		if got := n.read(t, p, "v", "k"); got != want {
			t.Fatalf("round %d: the change was lost", i)
		}
	}
}

func TestUnmountNeverDeletesThroughAMount(t *testing.T) {
	n := newTest(t)
	p := pod("a", vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	n.mount(t, p)
	dir, _, _ := n.Path(p, "e")
	kept := filepath.Join(dir, "other", "precious")
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	n.host.AddMount(host.Mount{Target: filepath.Dir(kept), FSType: "nfs"})
	n.host.Fail("unmount", filepath.Dir(kept), host.ErrBusy)
	if err := n.Unmount(context.Background(), "a"); !errors.Is(err, host.ErrBusy) {
		t.Fatalf("Unmount = %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what is mounted was deleted: %v", err)
	}
	n.host.Fail("unmount", filepath.Dir(kept), nil)
	if err := n.Unmount(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "..", "a/b"} {
		if err := n.Unmount(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := n.Unmount(context.Background(), pod(bad).UID); err == nil {
			t.Errorf("unmounted %q", bad)
		}
	}
}
