//go:build e2e

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/podnet"
)

// The test's program is the plug-in too, when it is called as one: as a process of its own it can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// world is a network with one sandbox.
type world struct {
	t      *testing.T
	conf   map[string]any
	bins   string // where the port mapper would be
	leases string
	name   string // of the sandbox's namespace
	prev   json.RawMessage
}

func newWorld(t *testing.T, subnet int) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("networks need root")
	}
	w := &world{t: t, bins: t.TempDir(), leases: t.TempDir(), name: fmt.Sprintf("podo-net-test-%d-%d", os.Getpid(), subnet)}
	bridge := fmt.Sprintf("podotest%d", subnet)
	w.conf = map[string]any{
		"cniVersion": "1.0.0", "name": "net", "type": podnet.Type, "leases": w.leases,
		"bridge": podnet.Bridge{Name: bridge, MAC: "0a:58:00:00:00:01", MTU: 1400},
		"pods":   []string{fmt.Sprintf("10.213.%d.0/24", subnet), fmt.Sprintf("fd00:213:%d::/64", subnet)},
	}
	w.makeNamespace()
	t.Cleanup(func() {
		w.removeNamespace()
		if link, err := netlink.LinkByName(bridge); err == nil {
			netlink.LinkDel(link) //nolint:errcheck // the test is over
		}
	})
	return w
}

// inNew runs f in a thread of its own, which ends with it: f may leave it in any namespace.
func inNew(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func (w *world) makeNamespace() {
	w.t.Helper()
	err := inNew(func() error {
		h, err := netns.NewNamed(w.name)
		if err == nil {
			err = h.Close()
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) removeNamespace() { netns.DeleteNamed(w.name) } //nolint:errcheck // it may have gone

// command is the plug-in's process for a call.
func (w *world) command(verb string) (cmd *exec.Cmd, stdout *bytes.Buffer) {
	w.t.Helper()
	conf := map[string]any{}
	for k, v := range w.conf {
		conf[k] = v
	}
	if w.prev != nil {
		conf["prevResult"] = w.prev
	}
	input, err := json.Marshal(conf)
	if err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd, stdout = exec.Command(self), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID=pod", "CNI_IFNAME=eth0", "CNI_NETNS=/run/netns/"+w.name, "CNI_PATH="+w.bins)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), stdout, w.t.Output()
	return cmd, stdout
}

// call returns what the plug-in prints, as an error when it fails.
func (w *world) call(verb string) (string, error) {
	w.t.Helper()
	cmd, stdout := w.command(verb)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, stdout)
	}
	return stdout.String(), nil
}

// add attaches the pod and remembers the result as a runtime does.
func (w *world) add() *types100.Result {
	w.t.Helper()
	out, err := w.call("ADD")
	if err != nil {
		w.t.Fatal(err)
	}
	w.prev = json.RawMessage(out)
	r, err := types100.NewResult([]byte(out))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.(*types100.Result)
}

// nothingLeft checks that there is no lease, and no port on the bridge.
func (w *world) nothingLeft() {
	w.t.Helper()
	held, _ := filepath.Glob(filepath.Join(w.leases, "net", "*[.:][0-9]*"))
	for _, file := range held {
		if _, err := netip.ParseAddr(filepath.Base(file)); err == nil {
			w.t.Errorf("the lease %s is left", filepath.Base(file))
		}
	}
	ports := filepath.Join("/sys/class/net", w.conf["bridge"].(podnet.Bridge).Name, "brif/*")
	// A namespace that goes takes its interfaces with it a moment later.
	for end := time.Now().Add(10 * time.Second); ; {
		left, _ := filepath.Glob(ports)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			w.t.Errorf("ports are left on the bridge: %v", left)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A pod gets an address of each family, its host reaches it under both, and when it goes nothing is left, however often that is asked for.
func TestAttachAndDetach(t *testing.T) {
	w := newWorld(t, 91)
	r := w.add()
	if len(r.IPs) != 2 || r.IPs[0].Address.String() != "10.213.91.2/24" || r.IPs[1].Address.String() != "fd00:213:91::2/64" {
		t.Fatalf("addresses: %v", r.IPs)
	}
	// Who is next at an address is known by the same hardware address: neighbours' tables stay right.
	if mac := podnet.MAC(netip.MustParseAddr("10.213.91.2")).String(); r.Interfaces[2].Mac != mac || r.Interfaces[2].Sandbox == "" {
		t.Errorf("the pod's interface: %+v, want %s", r.Interfaces[2], mac)
	}
	if _, err := w.call("CHECK"); err != nil {
		t.Errorf("a check of what is there: %v", err)
	}
	for _, ip := range r.IPs {
		if err := w.reach(ip.Address.IP); err != nil {
			t.Errorf("reaching the pod at %s: %v", ip.Address.IP, err)
		}
	}
	for range 2 {
		if _, err := w.call("DEL"); err != nil {
			t.Fatal(err)
		}
		w.nothingLeft()
	}
	if _, err := w.call("CHECK"); err == nil {
		t.Error("a check of what has gone finds nothing amiss")
	}
}

// reach has somebody in the sandbox listen and greet, and somebody outside listen to that; it says the pod's way out too, by the
// address that the greeting is answered to.
func (w *world) reach(ip net.IP) error {
	var l net.Listener
	err := inNew(func() error {
		h, err := netns.GetFromName(w.name)
		if err != nil {
			return err
		}
		defer h.Close()
		if err := netns.Set(h); err != nil {
			return err
		}
		l, err = net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// When the ports of the node cannot be had, the pod has no network at all, and the error is in the port mapper's words.
func TestFailureLeavesNothing(t *testing.T) {
	w := newWorld(t, 92)
	w.conf["runtimeConfig"] = map[string]any{"portMappings": []map[string]any{{"hostPort": 1, "containerPort": 1, "protocol": "tcp"}}}
	if _, err := w.call("ADD"); err == nil || !strings.Contains(err.Error(), "portmap is not in CNI_PATH") {
		t.Errorf("without a port mapper: %v", err)
	}
	w.nothingLeft()
	seen := filepath.Join(w.bins, "seen")
	script := "#!/bin/sh\ncat >" + seen + "\necho '{\"code\":7,\"msg\":\"port 1 is another'\"'\"'s\"}'\nexit 1\n"
	if err := os.WriteFile(filepath.Join(w.bins, podnet.PortMapper), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.call("ADD"); err == nil || !strings.Contains(err.Error(), "portmap: port 1 is another's") {
		t.Errorf("a port mapper that fails: %v", err)
	}
	w.nothingLeft()
	input, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(input), `"hostPort":1`) || !strings.Contains(string(input), `"address":"10.213.92.`) {
		t.Errorf("the port mapper was told %s, %v", input, err)
	}
}

// A sandbox whose namespace has gone gives its address back, and its port on the bridge although somebody is in there still; one that has none
// gets no address.
func TestNamespaceGone(t *testing.T) {
	w := newWorld(t, 93)
	w.add()
	somebody, err := os.Open(filepath.Join("/run/netns", w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer somebody.Close()
	w.removeNamespace()
	if _, err := w.call("DEL"); err != nil {
		t.Error(err)
	}
	file := filepath.Join("/run/netns", w.name) // what it was mounted on is there still
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file) //nolint:errcheck // the test is over
	if _, err := w.call("DEL"); err != nil {
		t.Error(err)
	}
	w.nothingLeft()
	if _, err := w.call("ADD"); err == nil {
		t.Error("a pod without a namespace was attached")
	}
	w.nothingLeft()
}

// Killed anywhere in the middle, the plug-in leaves nothing that a DEL, without the result that never came, does not take away.
func TestKilled(t *testing.T) {
	w := newWorld(t, 94)
	start := time.Now()
	w.add()
	whole := time.Since(start)
	const steps = 12
	killed := 0
	for i := range steps {
		if _, err := w.call("DEL"); err != nil {
			t.Fatal(err)
		}
		w.nothingLeft()
		w.prev = nil
		cmd, _ := w.command("ADD")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(whole * time.Duration(i) / steps)
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		var failed *exec.ExitError
		if errors.As(cmd.Wait(), &failed) {
			killed++
		}
	}
	if killed == 0 {
		t.Error("it was never killed in time")
	}
	if _, err := w.call("DEL"); err != nil {
		t.Error(err)
	}
	w.nothingLeft()
	w.add()
}

// What the plug-in runs is killed with it: a port mapper that goes on would make rules after the call that takes them away.
func TestKilledWithItsPortMapper(t *testing.T) {
	w := newWorld(t, 95)
	w.conf["runtimeConfig"] = map[string]any{"portMappings": []map[string]any{{"hostPort": 1, "containerPort": 1, "protocol": "tcp"}}}
	alive := filepath.Join(w.bins, "alive")
	if err := unix.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec 3>" + alive + "\necho begun >&3\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(w.bins, podnet.PortMapper), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, _ := w.command("ADD")
	cmd.Stdout, cmd.Stderr = nil, nil // held by the port mapper, they would be waited for
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(alive) // waits for the port mapper
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	begun := make([]byte, len("begun\n"))
	if _, err := io.ReadFull(pipe, begun); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill() //nolint:errcheck // the end tells
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if err := pipe.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(pipe); err != nil {
		t.Errorf("the port mapper goes on: %q, %v", said, err)
	}
	delete(w.conf, "runtimeConfig")
	if _, err := w.call("DEL"); err != nil {
		t.Error(err)
	}
	w.nothingLeft()
}

// What cannot be read or lacks something is refused in CNI's form.
func TestDamagedConfiguration(t *testing.T) {
	w := newWorld(t, 95)
	w.conf["pods"] = []string{"10.213.95.0/33"}
	if _, err := w.call("ADD"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a range that is none: %v", err)
	}
	delete(w.conf, "pods")
	if _, err := w.call("ADD"); err == nil || !strings.Contains(err.Error(), `"code"`) || !strings.Contains(err.Error(), "lacks") {
		t.Errorf("no range: %v", err)
	}
}
