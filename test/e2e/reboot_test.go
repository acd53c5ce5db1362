package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/internal/runtime/payload"
)

const rebooted = `
apiVersion: v1
kind: Pod
metadata: {name: always}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
  initContainers:
  - {name: i, image: 'localhost/podo/busybox:dev', command: [sh, -c, 'echo once >>/disk/init; echo once >>/memory/init'], volumeMounts: [&disk {name: disk, mountPath: /disk}, &memory {name: memory, mountPath: /memory}]}
  containers:
  - {name: m, image: 'localhost/podo/busybox:dev', command: [sleep, '3600'], volumeMounts: [*disk, *memory]}
---
apiVersion: v1
kind: Pod
metadata: {name: never}
spec:
  restartPolicy: Never
  containers: [{name: m, image: 'localhost/podo/busybox:dev', command: [sleep, '3600']}]
---
apiVersion: v1
kind: Pod
metadata: {name: ended}
spec:
  restartPolicy: OnFailure
  containers: [{name: m, image: 'localhost/podo/busybox:dev', command: ['true']}]
`

// TestReboot ends all that runs, and what the kernel has of it, and lets podo find another boot id.
func TestReboot(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	do := func(want string, args ...string) {
		t.Helper()
		if out, err := c.kubectl(args...); err != nil || strings.TrimSpace(out) != want && want != "*" {
			t.Errorf("%v: %v, want %s: %s", args, err, want, out)
		}
	}
	manifest := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(manifest, []byte(rebooted), 0o600); err != nil {
		t.Fatal(err)
	}
	do("*", "apply", "-f", manifest)
	do("*", "wait", "--for=condition=Ready", "pod/always", "pod/never", "--timeout=60s")
	do("*", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/ended", "--timeout=60s")

	pid, err := pidFile(filepath.Join(c.dir, "lock"))
	if err == nil {
		err = kill9(pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	cutOff(t, c)

	boot := "0b0071d0-0000-4000-8000-" + fmt.Sprintf("%012d", os.Getpid())
	file := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(file, []byte(boot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := fmt.Sprintf("mount --make-rprivate / && mount --bind %s /proc/sys/kernel/random/boot_id && exec %s up --node-name node-a --https-port %d "+
		"--kubelet-port %d --pod-cidr %s --data-dir %s", file, c.podo, c.https, c.kubelet, c.podCIDR, c.dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", up).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	for _, event := range []string{"Rebooted.*Node node-a has been rebooted, boot id: " + boot, "SandboxChanged.*pod/always.*Pod sandbox changed, it will be killed and re-created."} {
		if err := until(c, event, []string{"kubectl", "get", "events", "-A", "-w"}, time.Minute); err != nil {
			t.Error(err)
		}
	}
	do("*", "wait", "--for=jsonpath={.status.phase}=Failed", "pod/never", "--timeout=60s")
	do("*", "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/always", "--timeout=60s")
	do("*", "wait", "--for=condition=Ready", "pod/always", "--timeout=60s")
	const ends = "{.status.phase} {.status.initContainerStatuses[0].restartCount} {.status.containerStatuses[0].restartCount} " +
		"{.status.containerStatuses[0].lastState.terminated.exitCode} {.status.containerStatuses[0].lastState.terminated.reason}"
	do("Running 1 1 255 Unknown", "get", "pod", "always", "-o", "jsonpath="+ends)
	do("once\nonce\nonce", "exec", "always", "-c", "m", "--", "cat", "/disk/init", "/memory/init") // the disk outlives the machine, its memory does not
	do("Failed 0 255 Unknown", "get", "pod", "never", "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount} "+
		"{.status.containerStatuses[0].state.terminated.exitCode} {.status.containerStatuses[0].state.terminated.reason}")
	do("Succeeded 0", "get", "pod", "ended", "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}")
	do(boot, "get", "node", "node-a", "-o", "jsonpath={.status.nodeInfo.bootID}")
}

// cutOff leaves of a cluster whose podo is dead what a reboot leaves: the files of the disk.
func cutOff(t *testing.T, c *cluster) {
	t.Helper()
	r, err := runtime.New(runtime.Config{
		DataDir: c.dir, Payload: &payload.Payload{}, Log: slog.New(slog.DiscardHandler),
		Connect: func(socket string) (runtime.Client, error) { return containerd.New("unix://" + socket) },
	})
	if err == nil {
		err = r.Cleanup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if at := strings.Fields(lines[i])[4]; strings.HasPrefix(at, c.dir+"/") {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		}
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/podo-" + runtime.LayoutFor(c.dir).ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(groups, "/sys/fs/cgroup/podo-"+runtime.LayoutFor(c.dir).ID) {
		removeGroups(g)
	}
}

// removeGroups takes away a cgroup in which nothing runs, and those below it.
func removeGroups(dir string) {
	below, _ := filepath.Glob(dir + "/*/")
	for _, b := range below {
		removeGroups(filepath.Clean(b))
	}
	_ = os.Remove(dir) // where something runs still, the story's end tells of it
}
