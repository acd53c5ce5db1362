package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCompleteRefusesWithTheFlag(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.DataDir = "/" }, "--data-dir"},
		{func(c *Config) { c.HTTPSPort = 70000 }, "--https-port 70000"},
		{func(c *Config) { c.NodeName = "Big_Name" }, "--node-name"},
		{func(c *Config) { c.LogFormat = "xml" }, "--log-format"},
		{func(c *Config) { c.NodeIP = "nowhere" }, "--node-ip"},
		{func(c *Config) { c.NodeIP = "0.0.0.0" }, "--node-ip 0.0.0.0: want the address"},
		{func(c *Config) { c.NodeIP = "fe80::1%eth0" }, "--node-ip fe80::1%eth0: want the address"},
		{func(c *Config) { c.NodeIP = "224.0.0.1" }, "--node-ip 224.0.0.1: want the address"},
		{func(c *Config) { c.PodCIDR = "10.0.0.1/8" }, "use 10.0.0.0/8"},
		{func(c *Config) { c.PodCIDR = "10.43.0.0/16" }, "overlap"},
		{func(c *Config) { c.PodCIDR = "192.0.2.0/24" }, "lies inside"},
		{func(c *Config) { c.PodCIDR = "10.42.0.0/30" }, "too few addresses"},
		{func(c *Config) { c.EtcdCAFile = "/x" }, "belong to --etcd-endpoints"},
		{func(c *Config) { c.EtcdEndpoints = []string{"http://10.0.0.1:2379"} }, "use https://"},
		{func(c *Config) { c.EtcdEndpoints = []string{"https://e:2379"}; c.EtcdCertFile = "/x" }, "go together"},
		{func(c *Config) { c.EtcdEndpoints = []string{"https://e:2379"}; c.EtcdCAFile = "/does/not/exist" }, "--etcd-cafile"},
	} {
		c := Default()
		c.NodeName, c.NodeIP = "node-a", "192.0.2.7"
		tc.change(&c)
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("want an error with %q, got %v", tc.want, err)
		}
	}
	c := Default()
	c.NodeName, c.NodeIP = "node-a", "192.0.2.7"
	if err := c.Complete(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestOneServerADataDirectory(t *testing.T) {
	d := Dirs{Root: filepath.Join(t.TempDir(), "data")}
	if pid, err := Running(d); pid != 0 || err != nil {
		t.Fatalf("nothing there: %d, %v", pid, err)
	}
	lock, err := lockDataDir(d)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Running(d); pid != os.Getpid() || err != nil {
		t.Errorf("held by us: %d, %v", pid, err)
	}
	if _, err := lockDataDir(d); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), "podo down") {
		t.Errorf("the second one must hear who has it and what to do: %v", err)
	}
	lock.Close()
	if pid, _ := Running(d); pid != 0 {
		t.Errorf("released, but still held by %d", pid)
	}
	if err := os.WriteFile(d.Version(), []byte("99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDataDir(d); err == nil || !strings.Contains(err.Error(), `format "99"`) {
		t.Errorf("a directory of another version: %v", err)
	}
	// A start that was killed while it wrote the version.
	if err := os.Rename(d.Version(), d.Version()+unfinished); err != nil {
		t.Fatal(err)
	}
	if lock, err = lockDataDir(d); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

// started is a process on a configuration, as far as it is checked before anything starts.
func started(t *testing.T, c NodeConfig, kubelet string) (*process, error) {
	t.Helper()
	if kubelet != "" {
		c.KubeletConfig = filepath.Join(t.TempDir(), "kubelet.yaml")
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + kubelet
		if err := os.WriteFile(c.KubeletConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{cfg: c, dirs: Dirs{Root: c.DataDir}}
	var err error
	p.node.config, err = p.kubeletConfig()
	return p, err
}

func TestPreflightTellsAllProblemsAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, tc := range []struct {
		kubelet string
		change  func(*Config)
		want    []string
	}{
		{"", func(c *Config) { c.HTTPSPort = taken }, []string{fmt.Sprintf("--https-port: port %d on 127.0.0.1 is in use", taken), "install util-linux"}},
		{"", func(c *Config) { c.KubeletPort = taken }, []string{fmt.Sprintf("--kubelet-port: port %d on 127.0.0.1 is in use", taken)}},
		{"", func(c *Config) { c.HTTPSPort = c.KubeletPort }, []string{"--https-port and --kubelet-port are both"}},
		{"", func(c *Config) { c.HTTPSPort = c.KubeletPort - 2 }, []string{"--https-port and the kubelet's health port (--kubelet-port minus 2) are both"}},
		{fmt.Sprintf("healthzPort: %d", taken), nil, []string{fmt.Sprintf("health port (--kubelet-port minus 2): port %d on 127.0.0.1 is in use", taken)}},
		{fmt.Sprintf("readOnlyPort: %d", taken), nil, []string{fmt.Sprintf("readOnlyPort in the kubelet configuration: port %d", taken)}},
		{"address: 192.0.2.7", nil, []string{"address in the kubelet configuration: 192.0.2.7 is not an address of this host"}},
		{"", func(c *Config) { c.NodeIP = "192.0.2.7" }, []string{"--node-ip 192.0.2.7 is not an address of this host"}},
	} {
		c := Default()
		c.DataDir, c.NodeIP, c.HTTPSPort, c.KubeletPort = t.TempDir(), "127.0.0.1", 1, 4
		if tc.change != nil {
			tc.change(&c)
		}
		p, err := started(t, c.NodeConfig, tc.kubelet)
		if err != nil {
			t.Fatal(err)
		}
		err = p.preflight("server", func(string) (string, error) { return "", errors.New("not there") }, c.apiPort())
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q in %v", want, err)
			}
		}
	}
}

// What the kubelet's configuration says of its ports holds, or is refused by name.
func TestKubeletPorts(t *testing.T) {
	c := defaultNode()
	c.DataDir, c.NodeIP = t.TempDir(), "192.0.2.7"
	for kubelet, want := range map[string]string{
		"":                                   "192.0.2.7 10250, health 127.0.0.1:10248",
		"port: 10250":                        "192.0.2.7 10250, health 127.0.0.1:10248",
		"address: 0.0.0.0":                   "0.0.0.0 10250, health 127.0.0.1:10248",
		"address: 192.0.2.8":                 "192.0.2.8 10250, health 127.0.0.1:10248",
		"healthzPort: 9":                     "192.0.2.7 10250, health 127.0.0.1:9",
		"healthzPort: 0":                     "192.0.2.7 10250, health ",
		"healthzBindAddress: 192.0.2.9":      "192.0.2.7 10250, health 192.0.2.9:10248",
		"port: 10350":                        "kubelet configuration: port: 10350 is not the kubelet's, which is 10250: use the flag --kubelet-port",
		"# podLogsDir, healthzPort, address": "192.0.2.7 10250, health 127.0.0.1:10248",
	} {
		p, err := started(t, c, kubelet)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s %d, health %s", p.node.config.Address, p.node.config.Port, p.healthAt())
		}
		if got != want {
			t.Errorf("%q: %s, want %s", kubelet, got, want)
		}
	}
}

// A new data directory needs room; one that is in use starts with what its pods have left of the disk.
func TestRoomIsForTheFirstStart(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root, and CI runs as root")
		}
		t.Skip("needs root")
	}
	c := defaultNode()
	c.NodeIP, c.KubeletPort, c.DataDir = "127.0.0.1", 4, t.TempDir()
	if err := unix.Mount("small", c.DataDir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(c.DataDir, 0) //nolint:errcheck // the folder's removal would tell
	p, err := started(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	found := func(string) (string, error) { return "", nil }
	if err := p.preflight("agent", found); err == nil || !strings.Contains(err.Error(), "MB free, podo needs 512 MB") {
		t.Errorf("a first start: %v", err)
	}
	if err := writeRun(p.dirs, run{}); err != nil {
		t.Fatal(err)
	}
	if err := p.preflight("agent", found); err != nil {
		t.Errorf("a later one: %v", err)
	}
}

func TestListenAllIsOneListener(t *testing.T) {
	l, err := listenAll(0, "127.0.0.1", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	multi := l.(*multiListener)
	for _, one := range multi.all {
		conn, err := net.Dial("tcp", one.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Accept()
		if err != nil || got.LocalAddr().String() != one.Addr().String() {
			t.Errorf("accepted %v, %v on %s", got, err, one.Addr())
		}
		got.Close()
		conn.Close()
	}
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBootReport(t *testing.T) {
	var out bytes.Buffer
	b := NewBootReport(&out)
	b.Begin("etcd")("again")
	b.Fail(errors.New("no room"))
	dec := json.NewDecoder(&out)
	var stages []BootStage
	for {
		var s BootStage
		err := dec.Decode(&s)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		stages = append(stages, s)
	}
	if len(stages) != 2 || stages[0].Stage != "etcd" || stages[0].Note != "again" || stages[1].Err != "no room" {
		t.Errorf("got %+v", stages)
	}
}

func TestResetTouchesOnlyDataDirectories(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "mine")
	if err := os.WriteFile(keep, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Reset(dir); err == nil || !strings.Contains(err.Error(), "not a data directory") {
		t.Errorf("a folder that is not podo's: %v", err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
	d := Dirs{Root: filepath.Join(dir, "data")}
	lock, err := lockDataDir(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := Reset(d.Root); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while a server runs: %v", err)
	}
	lock.Close()
	// A reset that ends early is ended by another, and nobody starts on what is left.
	if err := os.MkdirAll(d.Etcd(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.Version(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDataDir(d); err == nil || !strings.Contains(err.Error(), "podo reset --yes --data-dir "+d.Root) {
		t.Errorf("a start on what is left: %v", err)
	}
	if err := Reset(d.Root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}
