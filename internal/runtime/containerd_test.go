//go:build e2e

package runtime_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/runtime"
)

// The whole of it on a real containerd: a pod with an address that the host reaches and a host port; podo going away and coming back;
// containerd killed; a changed configuration. The container must be the same throughout.
func TestContainerOutlivesEverythingAroundIt(t *testing.T) {
	n := newNode(t, "10.213.77.0/24")
	t.Logf("first start: %v", n.up())
	n.await(runtime.Starting)
	first := n.await(runtime.Ready)

	image := n.shellImage()
	pod := n.pod("web")
	pod.PortMappings = []*runtimev1.PortMapping{{Protocol: runtimev1.Protocol_TCP, ContainerPort: 8080, HostPort: 28080}}
	sandbox, ip := n.sandbox(pod)
	id := n.run(sandbox, pod, "web", image, "/bin/sh", "-c", "echo started; mkdir -p /tmp/www; cp /proc/sys/kernel/random/uuid /tmp/www/index.html; exec /bin/busybox httpd -f -p 8080 -h /tmp/www")
	said := get(t, "http://"+net.JoinHostPort(ip, "8080"))
	if got := get(t, "http://"+hostAddress(t)+":28080"); got != said {
		t.Errorf("through the host port: %q, through the pod's address: %q", got, said)
	}
	same := func(when string) {
		t.Helper()
		st, err := n.cri.ContainerStatus(t.Context(), id)
		if err != nil || st.GetState() != runtimev1.ContainerState_CONTAINER_RUNNING {
			t.Fatalf("%s: container is %v, %v", when, st.GetState(), err)
		}
		for _, at := range []string{net.JoinHostPort(ip, "8080"), hostAddress(t) + ":28080"} {
			if got := get(t, "http://"+at); got != said {
				t.Fatalf("%s: at %s it says %q, before it said %q", when, at, got, said)
			}
		}
	}

	// podo ends and comes back: the same containerd goes on.
	n.stop()
	same("without podo")
	t.Logf("take-over: %v", n.up())
	if e := n.await(runtime.TakenOver); e.PID != first.PID {
		t.Errorf("took over %d, started %d", e.PID, first.PID)
	}
	same("after a take-over")

	// containerd is killed: another one comes, and finds the container.
	killed := time.Now()
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.await(runtime.Died)
	second := n.await(runtime.Ready)
	t.Logf("kill -9 of containerd → ready: %v", time.Since(killed))
	if second.PID == first.PID {
		t.Error("the dead one is ready")
	}
	same("after a kill of containerd")

	// Killed together with podo: nobody is there to take over.
	n.stop()
	if err := unix.Kill(second.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Logf("start over running containers: %v", n.up())
	n.await(runtime.Starting)
	third := n.await(runtime.Ready)
	same("after both were killed")

	// Another configuration: the old one is replaced, not joined by a second.
	n.stop()
	n.cfg.LogLevel = "info"
	n.up()
	if e := n.await(runtime.Replaced); e.PID != third.PID {
		t.Errorf("replaced %d, there was %d", e.PID, third.PID)
	}
	same("after a new configuration")

	// One that hangs is replaced as well.
	fourth := n.await(runtime.Ready)
	n.stop()
	if err := unix.Kill(fourth.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Logf("replacing one that hangs: %v", n.up())
	if e := n.await(runtime.Replaced); e.PID != fourth.PID {
		t.Errorf("replaced %d, there was %d", e.PID, fourth.PID)
	}
	same("after a hang")

	// And so is one that hangs while podo runs.
	fifth := n.await(runtime.Ready)
	stopped := time.Now()
	if err := unix.Kill(fifth.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if e := n.await(runtime.Replaced); e.PID != fifth.PID || !strings.Contains(e.Err.Error(), "it hangs") {
		t.Errorf("replaced %d (%v), there was %d", e.PID, e.Err, fifth.PID)
	}
	n.await(runtime.Ready)
	t.Logf("a containerd that hangs → another one: %v", time.Since(stopped))
	same("after a hang beside podo")

	if err := n.cri.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if st, err := n.cri.ContainerStatus(t.Context(), id); err != nil || st.GetExitCode() != 137 {
		t.Errorf("killed container: exit code %d, %v", st.GetExitCode(), err)
	}
	if err := n.cri.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if err := n.cri.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
}

// A shim that ends after its bundle has gone does not find its socket, and one that is killed does not look for it: neither leaves it.
func TestARemovedSandboxHasNoSocket(t *testing.T) {
	n := newNode(t, "10.213.85.0/24")
	n.up()
	l := n.current.Layout()
	sockets := func() int {
		entries, err := os.ReadDir(l.Shims)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for name, harm := range map[string]func(sandbox string) error{
		"late": func(sandbox string) error {
			return os.Remove(filepath.Join(l.State, "io.containerd.runtime.v2.task", "k8s.io", sandbox, "s"))
		},
		"killed": func(sandbox string) error {
			shims := processesNaming(t, "-id\x00"+sandbox)
			if len(shims) != 1 {
				return fmt.Errorf("shims: %v", shims)
			}
			var pid int
			if _, err := fmt.Sscan(shims[0], &pid); err != nil {
				return err
			}
			return unix.Kill(pid, unix.SIGKILL)
		},
	} {
		sandbox, _ := n.sandbox(n.pod(name))
		if got := sockets(); got != 1 {
			t.Fatalf("%s: %d sockets, want the shim's", name, got)
		}
		if err := harm(sandbox); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := n.cri.StopPodSandbox(t.Context(), sandbox); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// containerd may be cleaning up after a dead shim itself, and refuses meanwhile.
		for end := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
			err := n.cri.RemovePodSandbox(t.Context(), sandbox)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := sockets(); got != 0 {
			t.Errorf("%s: %d sockets left", name, got)
		}
	}
}

// Cleanup takes away what pods that nobody stopped left.
func TestCleanupLeavesNothing(t *testing.T) {
	n := newNode(t, "10.213.78.0/24")
	n.up()
	image := n.shellImage()
	pod := n.pod("left")
	pod.PortMappings = []*runtimev1.PortMapping{{Protocol: runtimev1.Protocol_TCP, ContainerPort: 8080, HostPort: 28078}}
	sandbox, _ := n.sandbox(pod)
	n.run(sandbox, pod, "left", image, "/bin/sh", "-c", "sleep 3600 & wait")
	l := n.current.Layout()

	if err := n.current.Cleanup(t.Context()); err == nil || !strings.Contains(err.Error(), "another podo") {
		t.Errorf("clean-up while podo runs: %v", err)
	}
	attachments := func() []string {
		all, _ := filepath.Glob(filepath.Join(libcni.CacheDir, "results", l.Bridge+"-*"))
		return all
	}
	if len(attachments()) == 0 {
		t.Error("nothing is remembered of the pod's attachment: is it elsewhere now?")
	}
	n.stop()
	if err := n.current.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := attachments(); len(left) > 0 {
		t.Errorf("still remembered: %v", left)
	}
	if rulesName(t, sandbox) {
		t.Error("the host port is still led to the pod")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{l.Run, n.cfg.DataDir} {
		if strings.Contains(string(mounts), path) {
			t.Errorf("something is still mounted below %s", path)
		}
	}
	if _, err := net.InterfaceByName(l.Bridge); err == nil {
		t.Errorf("the bridge %s is still there", l.Bridge)
	}
	if _, err := os.Stat(l.Run); !os.IsNotExist(err) {
		t.Errorf("%s: %v", l.Run, err)
	}
	if left := processesNaming(t, n.cfg.DataDir, l.Run); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}

	// As after a reboot: the next start knows the pod by its records, sees that it has ended, can remove it and make another.
	n.up()
	st, err := n.cri.PodSandboxStatus(t.Context(), sandbox)
	if err != nil || st.GetStatus().GetState() != runtimev1.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the old sandbox is %v, %v", st.GetStatus().GetState(), err)
	}
	if err := n.cri.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Error(err)
	}
	if err := n.cri.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Error(err)
	}
	pod.Metadata.Attempt = 1
	if _, ip := n.sandbox(pod); ip == "" {
		t.Error("the new sandbox has no address")
	}
}

// Sandboxes that containerd has forgotten, since its data was lost, give back what they had of the network, and nothing of them runs on:
// their pods are made anew.
func TestForgottenSandboxes(t *testing.T) {
	n := newNode(t, "10.213.84.0/24")
	n.up()
	pid := n.await(runtime.Ready).PID
	pod := n.pod("forgotten")
	pod.PortMappings = []*runtimev1.PortMapping{{Protocol: runtimev1.Protocol_TCP, ContainerPort: 8080, HostPort: 28084}}
	image := n.shellImage()
	sandbox, ip := n.sandbox(pod)
	n.run(sandbox, pod, "forgotten", image, "/bin/sh", "-c", "trap '' TERM; while true; do /bin/busybox sleep 86.421; done")
	l := n.current.Layout()
	remembered := func() (n int) {
		for _, pattern := range []string{filepath.Join(libcni.CacheDir, "results", l.Bridge+"-*"), filepath.Join(l.Leases, "*", ip)} {
			found, _ := filepath.Glob(pattern)
			n += len(found)
		}
		return n
	}
	if !rulesName(t, sandbox) || remembered() != 2 {
		t.Fatalf("a pod with a host port has no rule, no lease, or is not remembered: are they elsewhere now? (%d)", remembered())
	}
	n.stop()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(l.Root); err != nil {
		t.Fatal(err)
	}
	n.up()
	if list, err := n.cri.ListPodSandbox(t.Context(), nil); err != nil || len(list) > 0 {
		t.Fatalf("containerd knows %v, %v", list, err)
	}
	if left := processesNaming(t, sandbox, "86.421"); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, l.Run) {
			t.Errorf("still mounted: %s", line)
		}
	}
	if rulesName(t, sandbox) || remembered() != 0 {
		t.Errorf("rules: %v, still remembered in %d places", rulesName(t, sandbox), remembered())
	}
	if _, again := n.sandbox(pod); again == "" {
		t.Error("the new sandbox has no address")
	}
	if !rulesName(t, ":8080") {
		t.Error("the new sandbox has no host port")
	}
}

// rulesName tells whether nftables' rules have a word.
func rulesName(t *testing.T, word string) bool {
	t.Helper()
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), word)
}

// A machine that podo can run on passes the check, and what is wrong is said before anything is started.
func TestCheck(t *testing.T) {
	n := newNode(t, "10.213.79.0/24")
	r, err := runtime.New(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("this machine: %v", err)
	}
	n.cfg.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/16")}
	r, err = runtime.New(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "--pod-cidr") {
		t.Errorf("pod addresses of an interface: %v", err)
	}
	if left, _ := os.ReadDir(n.cfg.DataDir); len(left) > 0 {
		t.Errorf("the check left %v", left)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	// The server may not listen yet: that is the only thing to try again for.
	for end := time.Now().Add(10 * time.Second); ; {
		r, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
		if err == nil {
			defer r.Body.Close()
			data, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", url, r.Status, err)
			}
			return string(data)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// hostAddress is an address of this machine that is not loopback and not a pod network's.
func hostAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && !strings.HasPrefix(ip.IP.String(), "10.213.") {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

func processesNaming(t *testing.T, words ...string) []string {
	t.Helper()
	procs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range procs {
		data, err := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		if err != nil {
			continue
		}
		for _, w := range words {
			if strings.Contains(string(data), w) {
				found = append(found, fmt.Sprintf("%s %q", p.Name(), data))
			}
		}
	}
	return found
}
