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
)

func TestCompleteRefusesWithTheFlag(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.DataDir = "/" }, "--data-dir"},
		{func(c *Config) { c.HTTPSPort = 70000 }, "--https-port 70000"},
		{func(c *Config) { c.KubeletPort = c.HTTPSPort }, "must differ"},
		{func(c *Config) { c.NodeName = "Big_Name" }, "--node-name"},
		{func(c *Config) { c.LogFormat = "xml" }, "--log-format"},
		{func(c *Config) { c.NodeIP = "nowhere" }, "--node-ip"},
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
}

func TestPreflightTellsAllProblemsAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := Default()
	c.DataDir, c.NodeIP, c.HTTPSPort = t.TempDir(), "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	err = preflight(c, func(string) (string, error) { return "", errors.New("not there") })
	for _, want := range []string{fmt.Sprintf("port %d on 127.0.0.1 is in use", c.HTTPSPort), "install util-linux"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
	c.NodeIP = "192.0.2.7"
	if err := portFree("--https-port", 0, []string{c.NodeIP}); err == nil || !strings.Contains(err.Error(), "--node-ip 192.0.2.7 is not an address of this host") {
		t.Errorf("an address of somebody else: %v", err)
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
	if err := Reset(d.Root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}
