package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/test/e2e/badkernel"
)

const badNodeConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
runtimeRequestTimeout: 6s
fileCheckFrequency: 1s
evictionHard: {memory.available: 1Mi} # a full disk evicts nobody
`

const badNodePods = `
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [{name: stuck, mountPath: /stuck}]}]
  volumes: [{name: stuck, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: doomed}
spec:
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [{name: stuck, mountPath: /stuck}]}]
  volumes: [{name: stuck, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: free}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [{name: free, mountPath: /free}]}]
  volumes: [{name: free, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: clinging}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [{name: clinging, mountPath: /clinging}]}]
  volumes: [{name: clinging, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: hooked}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], lifecycle: {preStop: {exec: {command: [sleep, '3600']}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: unhooked}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], lifecycle: {postStart: {exec: {command: [sleep, '3600']}}}}
`

const fullDiskPods = `
apiVersion: v1
kind: ConfigMap
metadata: {name: letter}
data: {text: dear pod}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [{name: letter, mountPath: /letter}]}]
  volumes: [{name: letter, configMap: {name: letter}}]
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sleep, '3600']}]
`

const staticPod = `
apiVersion: v1
kind: Pod
metadata: {name: static, labels: {form: first}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: 'localhost/podo/busybox:dev', command: [sh, -c, 'for i in 1 2 3 4; do echo line $i; sleep 1; done; sleep 3600']}]
`

// TestBadNode is a node on which the kernel watches no more folders, for want of instances and then of watches, one pod's mount hangs and
// another's unmount, hooks hang, and then the disk with the pods' folders is full. Each time the pods concerned say so, the others start, run and end, and all goes on when the fault is over.
func TestBadNode(t *testing.T) {
	t.Parallel()
	var noWatch atomic.Uint32 // the error
	noWatch.Store(uint32(unix.EMFILE))
	release := make(chan struct{})
	kubelet, config := "", filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(config, []byte(badNodeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c := clusterUnder(t, func(dir string) badkernel.Judge {
		kubelet = filepath.Join(dir, "kubelet")
		if err := os.MkdirAll(kubelet, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", kubelet, "tmpfs", 0, "size=4m"); err != nil {
			t.Fatal(err)
		}
		return func(call badkernel.Call) unix.Errno {
			switch call.Number {
			case unix.SYS_MOUNT:
				if strings.HasSuffix(call.Text(1), "/kubernetes.io~empty-dir/stuck") {
					<-release
				}
			case unix.SYS_UMOUNT2:
				if strings.HasSuffix(call.Text(0), "/kubernetes.io~empty-dir/clinging") {
					<-release
				}
			case unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH:
				no := unix.Errno(noWatch.Load())
				exe, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(call.PID), "exe"))
				if filepath.Base(exe) == "podo" && (no == unix.EMFILE) == (call.Number == unix.SYS_INOTIFY_INIT1) {
					return no
				}
			}
			return 0
		}
	}, []int{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH}, "--kubelet-config", config)
	t.Cleanup(func() { // a test that has failed half way leaves it
		if t.Failed() {
			c.run("down", "--grace", "1s")
			unix.Unmount(kubelet, unix.MNT_DETACH)
		}
	})
	do := func(args ...string) string {
		t.Helper()
		out, err := c.kubectl(args...)
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
		return out
	}
	say := func(pod, pattern string) {
		t.Helper()
		if err := until(c, pattern, []string{"kubectl", "get", "events", "-w", "--field-selector", "involvedObject.name=" + pod}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(names ...string) {
		t.Helper()
		do(append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, names...)...)
	}
	apply := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pods.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		do("apply", "-f", file)
	}

	// The kernel watches no more folders: manifests are looked at now and again, and so are logs. Their pods say so.
	apply(badNodePods)
	for _, limit := range []struct {
		no   unix.Errno
		form string
		name string
	}{{unix.EMFILE, "first", "max_user_instances"}, {unix.ENOSPC, "second", "max_user_watches"}} {
		noWatch.Store(uint32(limit.no))
		manifest := strings.ReplaceAll(staticPod, "form: first", "form: "+limit.form)
		if err := os.WriteFile(filepath.Join(c.dir, "manifests", "static.yaml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := until(c, `static-node-a +1/1.*form=`+limit.form, []string{"kubectl", "get", "pods", "-w", "--show-labels"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := until(c, "line 4", []string{"kubectl", "logs", "-f", "static-node-a"}, time.Minute); err != nil {
			t.Error(err)
		}
		say("static-node-a", `FailedWatch .*a change of its manifest is noticed within 1s only: .*fs\.inotify\.`+limit.name)
		say("static-node-a", `FailedWatch .*what it writes reaches who follows its log within 1s only: .*fs\.inotify\.`+limit.name)
	}
	noWatch.Store(0)
	log, err := os.ReadFile(filepath.Join(c.dir, "log", "podo.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the folder of static pods cannot be watched; it is read now and again", "a log cannot be watched; it is looked at now and again"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log does not say: %s", want)
		}
	}

	// A mount hangs, and an unmount.
	ready("pod/clinging")
	do("delete", "pod", "clinging", "--wait=false")
	say("stuck", `FailedMount .*Unable to attach or mount volumes: unmounted volumes=\[stuck\], unattached volumes=\[\], failed to process volumes=\[\]: context deadline exceeded`)
	ready("pod/free", "pod/hooked")
	do("delete", "pod", "doomed", "--wait=false")
	do("delete", "pod", "free", "hooked", "unhooked", "--timeout=20s")
	if out := do("get", "pods", "doomed", "stuck", "--no-headers"); !strings.Contains(out, "ContainerCreating") { // both are there
		t.Errorf("while the mount hangs there are:\n%s", out)
	}
	const held = `UnmountVolume.TearDown failed for volume "clinging" : unmounting .*/clinging: context deadline exceeded`
	say("clinging", "FailedUnmount .*"+held)
	if err := until(c, held, []string{"why", "pod/clinging"}, time.Minute); err != nil {
		t.Error(err)
	}
	close(release)
	ready("pod/stuck")
	do("wait", "--for=delete", "pod/doomed", "pod/clinging", "--timeout=30s")
	do("exec", "stuck", "--", "sh", "-c", "echo x > /stuck/x")

	// The disk is full.
	full := filepath.Join(kubelet, "junk")
	if err := fill(full); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	apply(fullDiskPods)
	say("reader", `FailedMount .*MountVolume.SetUp failed for volume "letter" : .*no space left on device`)
	say("plain", `Failed .*Error: write .*/etc-hosts: no space left on device`)
	if out := do("get", "pods", "reader", "plain", "--no-headers"); !strings.Contains(out, "ContainerCreating") || !strings.Contains(out, "CreateContainerConfigError") {
		t.Errorf("while the disk is full there are:\n%s", out)
	}
	do("exec", "stuck", "--", "true")
	do("delete", "pod", "stuck", "--timeout=20s")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	ready("pod/reader", "pod/plain")
	if tries, err := filepath.Glob(filepath.Join(kubelet, "pods", "*", "volumes", "kubernetes.io~configmap", "letter", "..2*")); err != nil || len(tries) != 1 {
		t.Errorf("of the tries to write a volume there are %v: %v", tries, err)
	}

	if tries, err := filepath.Glob(filepath.Join(kubelet, "state", "*.new")); err != nil || len(tries) > 0 {
		t.Errorf("of the tries to save there are %v: %v", tries, err)
	}

	if out, err := c.run("down", "--grace", "1s"); err != nil {
		t.Fatalf("podo down: %v\n%s", err, out)
	}
	if err := unix.Unmount(kubelet, 0); err != nil && !errors.Is(err, unix.EINVAL) { // podo down may have done it
		t.Error(err)
	}
	for _, left := range leftovers(c.dir) {
		t.Errorf("left behind: %s", left)
	}
}

// TestNoInotify starts where nobody gets an inotify instance, containerd neither: the reason is told, with what to do.
func TestNoInotify(t *testing.T) {
	t.Parallel()
	c, out, err := tryUnder(t, func(string) badkernel.Judge {
		return func(badkernel.Call) unix.Errno { return unix.EMFILE }
	}, []int{unix.SYS_INOTIFY_INIT1})
	if err == nil || !strings.Contains(out, "inotify: too many open files") || !strings.Contains(out, "fs.inotify.max_user_instances") {
		t.Errorf("podo up: %v\n%s", err, out)
	}
	if out, err := c.run("down"); err != nil {
		t.Fatalf("podo down: %v\n%s", err, out)
	}
	for _, left := range leftovers(c.dir) {
		t.Errorf("left behind: %s", left)
	}
}

// fill writes a file until it cannot.
func fill(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return err
		}
	}
}
