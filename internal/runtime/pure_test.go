package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/podnet"
)

func prefixes(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Whatever the data directory is called, sockets fit into a Unix address and names into an interface's.
func TestLayoutFitsTheKernelsLimits(t *testing.T) {
	a, b := LayoutFor("/var/lib/podo"), LayoutFor("/"+strings.Repeat("long/", 100))
	for _, l := range []Layout{a, b} {
		const digest = 1 + 64
		if n := len(l.Shims) + digest; n > 107 {
			t.Errorf("a shim's socket has %d bytes", n)
		}
		if len(l.Shims) > 42 {
			t.Errorf("containerd refuses the socket folder %s", l.Shims)
		}
		if len(l.Bridge) > 15 {
			t.Errorf("bridge %s is too long", l.Bridge)
		}
	}
	if a.Run == b.Run || a.Bridge == b.Bridge || a.Table == b.Table {
		t.Error("two data directories share something")
	}
	if LayoutFor("/var/lib/podo/") != a {
		t.Error("a trailing slash makes another layout")
	}
}

func TestConfigKeepsToItsOwnFolders(t *testing.T) {
	l := LayoutFor("/srv/with \"quotes\" and spaces")
	text, err := containerdConfig{Layout: l, PauseImage: PauseImage, RestrictOOM: true}.render()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`root = "/srv/with \"quotes\" and spaces/containerd/root"`, "restrict_oom_score_adj = true", "SystemdCgroup = false",
		`sandbox = "` + PauseImage + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %s", want)
		}
	}
	if _, err := (containerdConfig{Layout: LayoutFor("/srv/bell\x07")}).render(); err == nil {
		t.Error("a name that the file cannot hold was accepted")
	}
	if _, err := exec.LookPath(filepath.Join(l.Bin, "containerd")); err == nil {
		t.Fatal("the test's folder exists")
	}
}

func TestConflist(t *testing.T) {
	bridge := podnet.Bridge{Name: "podo0", MAC: LayoutFor("/srv/podo").bridgeMAC(), MTU: 1450}
	data, err := conflist(bridge, "/run/x", prefixes("10.42.3.7/24", "fd00:42::/64"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name    string
		Plugins []podnet.Config
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "podo0" || len(got.Plugins) != 1 || got.Plugins[0].Type != podnet.Type || !got.Plugins[0].Capabilities["portMappings"] {
		t.Fatalf("plug-ins: %+v", got)
	}
	if p := got.Plugins[0]; p.Bridge != bridge || p.Leases != "/run/x" || !slices.Equal(p.Pods, prefixes("10.42.3.0/24", "fd00:42::/64")) {
		t.Errorf("configuration: %+v", p)
	}
	if _, err := net.ParseMAC(bridge.MAC); err != nil || len(bridge.MAC) != 17 {
		t.Errorf("the bridge's hardware address %q: %v", bridge.MAC, err)
	}
	if _, err := conflist(bridge, "/run/x", nil); err == nil || !strings.Contains(err.Error(), "--pod-cidr") {
		t.Errorf("no addresses: %v", err)
	}
}

func TestRulesText(t *testing.T) {
	api := Redirect{netip.MustParseAddrPort("10.43.0.1:443"), netip.MustParseAddrPort("192.0.2.7:6443")}
	got := rules("podo_1", prefixes("10.42.1.0/24", "fd00:42::/64"), prefixes("10.42.0.0/16", "fd00::/16", "10.44.0.0/24"), []Redirect{api})
	for _, want := range []string{
		"add table inet podo_1\ndelete table inet podo_1\n",
		"  set cluster_ip {\n    type ipv4_addr; flags interval; auto-merge;\n    elements = {\n      10.42.0.0/16,\n      10.44.0.0/24\n    }\n  }\n",
		"  set cluster_ip6 {\n    type ipv6_addr; flags interval; auto-merge;\n    elements = {\n      fd00::/16\n    }\n  }\n",
		"ip saddr 10.42.1.0/24 ip daddr != 224.0.0.0/4 ip daddr != @cluster_ip masquerade\n",
		"ip6 saddr fd00:42::/64 ip6 daddr != ff00::/8 ip6 daddr != @cluster_ip6 masquerade\n",
		"  chain prerouting {\n    type nat hook prerouting priority -100; policy accept;\n    ip saddr 10.42.1.0/24 ip daddr 10.43.0.1 tcp dport 443 dnat ip to 192.0.2.7:6443\n  }\n",
		"  chain output {\n    type nat hook output priority -100; policy accept;\n    ip daddr 10.43.0.1 tcp dport 443 dnat ip to 192.0.2.7:6443\n  }\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
}

func TestCapabilities(t *testing.T) {
	const cap = 24 // CAP_SYS_RESOURCE
	for _, tc := range []struct {
		status string
		want   bool
	}{
		{"CapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\n", true},
		{"CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n", false},
		{"CapEff:\tnonsense\n", false},
		{"", false},
	} {
		if got := hasCapability(tc.status, cap); got != tc.want {
			t.Errorf("%q: %v", tc.status, got)
		}
	}
}

func TestBackoffGrowsWhileItDiesYoung(t *testing.T) {
	var got []time.Duration
	for b, i := time.Duration(0), 0; i < 9; i++ {
		b = nextBackoff(b, time.Second)
		got = append(got, b)
	}
	if got[0] != backoffMin || !slices.IsSorted(got) || got[len(got)-1] != backoffMax {
		t.Errorf("waits: %v", got)
	}
	if nextBackoff(backoffMax, healthyLife) != 0 {
		t.Error("a long life must not be waited for")
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"HOME=/root", "NOTIFY_SOCKET=/of/podo", "LISTEN_FDS=3", "PATH=/opt/x", "HTTPS_PROXY=http://p"}, "/data/bin", "/run/n")
	want := []string{"HOME=/root", "HTTPS_PROXY=http://p", "PATH=/data/bin:/opt/x:" + systemPath, "NOTIFY_SOCKET=/run/n"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(path, []byte("left by the last one"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := listenNotify(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, msg := range []string{"STATUS=wait", "STATUS=done\nREADY=1"} {
		if _, err := conn.Write([]byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.wait(t.Context()); err != nil {
		t.Errorf("READY=1 was sent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.wait(ctx); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRotateKeepsTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(logLimit); err != nil {
		t.Fatal(err)
	}
	f.WriteString("the end\n") //nolint:errcheck // read back below
	if err := rotate(file); err != nil {
		t.Fatal(err)
	}
	f.WriteString("goes on\n") //nolint:errcheck // read back below
	now, _ := os.ReadFile(file)
	old, _ := os.ReadFile(file + ".1")
	if string(now) != "goes on\n" || !strings.HasSuffix(string(old), "the end\n") || len(old) > logLimit {
		t.Errorf("log %q, older one of %d bytes", now, len(old))
	}
	if err := rotate(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("no log yet: %v", err)
	}
}

// TestMain lets this very program stand in for containerd: started under its arguments it waits for a signal.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "--config" {
		if os.Getenv("IGNORE_TERM") != "" {
			signal.Ignore(unix.SIGTERM)
		}
		os.Stdout.WriteString("waits\n") //nolint:errcheck // the test notices
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// standIn starts this very program under another's name and arguments, which begin with --config.
func standIn(t *testing.T, env []string, args ...string) *os.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: args, Env: append(os.Environ(), env...)}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil { // its signals are set up by now
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }() //nolint:errcheck // it is killed
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	return cmd.Process
}

// find tells this layout's containerd from everything else by its command line, and a hold sees its end.
func TestFindAndTerminate(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "containerd")
	start := func(config string, env ...string) int {
		t.Helper()
		return standIn(t, env, program, "--config", config).Pid
	}
	only := func(pid int, config string) *process {
		t.Helper()
		found, err := find(program, filepath.Join(dir, "config"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 || found[0].pid != pid || found[0].config != config {
			t.Fatalf("found %+v, want only %d with %s", found, pid, config)
		}
		return found[0]
	}
	config := filepath.Join(dir, "config", "a.toml")
	start(filepath.Join(dir, "other", "a.toml")) // of another data directory
	p := only(start(config), config)
	if err := p.terminate(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.release()

	p = only(start(config, "IGNORE_TERM=1"), config)
	if err := p.terminate(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := p.signal(unix.SIGTERM); err != nil {
		t.Errorf("signalling what has ended: %v", err)
	}
	p.release()
}

// The network's plug-ins that outlived their caller are waited for, and killed when they do not end; those of another data directory go on.
func TestPluginsThatOutliveTheirCaller(t *testing.T) {
	r := &Runtime{layout: Layout{Bin: t.TempDir()}}
	mapper := func(dir string) *os.Process {
		t.Helper()
		return standIn(t, []string{"IGNORE_TERM=1"}, filepath.Join(dir, podnet.PortMapper), "--config", "")
	}
	none := func(what string) {
		t.Helper()
		left, err := findArgs(func(args []string) (string, bool) { return "", strings.HasPrefix(args[0], r.layout.Bin) })
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %d run on, %v", what, len(left), err)
		}
		for _, p := range left {
			p.release()
		}
	}
	other := mapper(t.TempDir())
	ends := mapper(r.layout.Bin)
	time.AfterFunc(50*time.Millisecond, func() { ends.Kill() })
	if err := r.endPlugins(t.Context()); err != nil {
		t.Fatal(err)
	}
	none("one that ends by itself")

	mapper(r.layout.Bin)
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.endPlugins(hurry); err != nil {
		t.Fatal(err)
	}
	none("one that does not")
	if err := other.Signal(unix.Signal(0)); err != nil {
		t.Errorf("another data directory's: %v", err)
	}
}

func TestMountNames(t *testing.T) {
	if got := unescapeMount(`/a\040b\134c`); got != `/a b\c` {
		t.Errorf("got %q", got)
	}
}

// What a kernel does not offer is said by its name, of either version of cgroups.
func TestCgroupsThatAreMissing(t *testing.T) {
	v2 := func(controllers string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(controllers+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	v1 := t.TempDir()
	for _, c := range []string{"cpu", "cpuset", "memory", "pids", "devices"} {
		if err := os.Mkdir(filepath.Join(v1, c), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]string{
		v2("cpuset cpu io memory hugetlb pids rdma misc"): "",
		v2("cpuset cpu io pids"):                          "no cgroup controller for memory",
		v2(""):                                            "no cgroup controller for cpu, memory, pids",
		v1:                                                "version 1 controllers missing: freezer",
		t.TempDir():                                       "version 1 controllers missing: cpu, cpuset, memory, pids, devices, freezer",
	} {
		if err := checkCgroups(root); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A check that was killed leaves its overlay mounted; the next one takes it away.
func TestChecksThatWereKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root, and CI runs as root")
		}
		t.Skip("needs root")
	}
	dir := t.TempDir()
	merged := filepath.Join(dir, overlayCheck+"1", "merged")
	if err := os.MkdirAll(merged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("left", merged, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(merged, 0) //nolint:errcheck // it should be gone
	if err := checkOverlay(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// quiet is a containerd that answers while it is told to.
type quiet struct {
	Client
	hangs *atomic.Bool
	asked *atomic.Int32
}

func (q quiet) Version(ctx context.Context) (*runtimev1.VersionResponse, error) {
	q.asked.Add(1)
	if !q.hangs.Load() {
		return &runtimev1.VersionResponse{}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (quiet) Close() error { return nil }

// A containerd that hangs is found out within a good minute; one that was slow for a quarter of one, or stopped together with podo, is not.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quiet{hangs: new(atomic.Bool), asked: new(atomic.Int32)}
		r := &Runtime{cfg: Config{Connect: func(string) (Client, error) { return q, nil }}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		found := make(chan error, 1)
		go func() { found <- r.silence(ctx) }()
		time.Sleep(time.Hour)
		if n := q.asked.Load(); n > 121 {
			t.Errorf("it was asked %d times within an hour", n)
		}
		q.hangs.Store(true)
		time.Sleep(15 * time.Second)
		q.hangs.Store(false)
		time.Sleep(time.Minute)
		select {
		case err := <-found:
			t.Fatalf("it was slow for 15 s: %v", err)
		default:
		}
		q.hangs.Store(true)
		time.Sleep(time.Minute + time.Second)
		select {
		case err := <-found:
			if err == nil || !strings.Contains(err.Error(), "it hangs: 3 questions in a row") {
				t.Error(err)
			}
		default:
			t.Error("it has hung for a minute, and nobody knows")
		}
		go func() { found <- r.silence(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-found; err != nil {
			t.Errorf("podo has ended: %v", err)
		}
	})
}

// A containerd that an earlier podo started and did not see ready is waited for; one that was ready must answer.
func TestOneThatIsStillBeginning(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := hold(cmd.Process.Pid, "config", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill() //nolint:errcheck // waited for next
		cmd.Wait()         //nolint:errcheck // it was killed
		<-p.done
		p.release()
	}()
	refusing := &begins{asked: make(chan struct{}, 10)}
	r := &Runtime{
		cfg:    Config{Log: slog.New(slog.DiscardHandler), Connect: func(string) (Client, error) { return refusing, nil }},
		layout: Layout{Notify: filepath.Join(dir, "notify"), Ready: filepath.Join(dir, "ready"), RuncDir: filepath.Join(dir, "runc"), Bridge: "podo-test-none"},
	}
	if err := r.fit(t.Context(), p, "another"); err == nil {
		t.Error("one of another configuration is kept")
	}
	fits := make(chan error, 1)
	go func() { fits <- r.fit(t.Context(), p, "config") }()
	<-refusing.asked // it listens by now, and knows that it is not ready
	select {
	case err := <-fits:
		t.Fatalf("one that is still beginning: %v", err)
	default:
	}
	refusing.ready.Store(true)
	conn, err := net.Dial("unixgram", r.layout.Notify)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		t.Fatal(err)
	}
	if err := <-fits; err != nil {
		t.Fatalf("it has become ready: %v", err)
	}
	// The next podo needs no word of it.
	if err := r.fit(t.Context(), p, "config"); err != nil {
		t.Errorf("its word came before anybody listened: %v", err)
	}
	if err := r.sawReady(p); err != nil {
		t.Fatal(err)
	}
	refusing.ready.Store(false)
	if err := r.fit(t.Context(), p, "config"); err == nil {
		t.Error("one that was ready, and does not answer, is kept")
	}
}

// begins is a containerd that answers once it is ready.
type begins struct {
	Client
	ready atomic.Bool
	asked chan struct{}
}

func (b *begins) Version(context.Context) (*runtimev1.VersionResponse, error) {
	b.asked <- struct{}{}
	if !b.ready.Load() {
		return nil, errors.New("connection refused")
	}
	return &runtimev1.VersionResponse{}, nil
}

func (*begins) ImageStatus(context.Context, *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	return &runtimev1.Image{}, nil
}

func (*begins) Close() error { return nil }
