package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/preflight"
)

// started is a process on a configuration, as far as it is checked before anything starts.
func started(t *testing.T, c config.Node, kubelet string) (*process, error) {
	t.Helper()
	if kubelet != "" {
		c.KubeletConfig = filepath.Join(t.TempDir(), "kubelet.yaml")
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + kubelet
		if err := os.WriteFile(c.KubeletConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{cfg: c, dir: datadir.Dir{Root: c.DataDir}}
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
		change  func(*config.Server)
		want    []string
	}{
		{"", func(c *config.Server) { c.HTTPSPort = taken }, []string{fmt.Sprintf("--https-port: port %d on 127.0.0.1 is in use", taken), "install util-linux"}},
		{"", func(c *config.Server) { c.KubeletPort = taken }, []string{fmt.Sprintf("--kubelet-port: port %d on 127.0.0.1 is in use", taken)}},
		{"", func(c *config.Server) { c.HTTPSPort = c.KubeletPort }, []string{"--https-port and --kubelet-port are both"}},
		{"", func(c *config.Server) { c.HTTPSPort = c.KubeletPort - 2 }, []string{"--https-port and the kubelet's health port (--kubelet-port minus 2) are both"}},
		{fmt.Sprintf("healthzPort: %d", taken), nil, []string{fmt.Sprintf("health port (--kubelet-port minus 2): port %d on 127.0.0.1 is in use", taken)}},
		{fmt.Sprintf("readOnlyPort: %d", taken), nil, []string{fmt.Sprintf("readOnlyPort in the kubelet configuration: port %d", taken)}},
		{"address: 192.0.2.7", nil, []string{"address in the kubelet configuration: 192.0.2.7 is not an address of this host"}},
		{"", func(c *config.Server) { c.NodeIP = "192.0.2.7" }, []string{"--node-ip 192.0.2.7 is not an address of this host"}},
	} {
		c := config.DefaultServer()
		c.DataDir, c.NodeIP, c.HTTPSPort, c.KubeletPort = t.TempDir(), "127.0.0.1", 1, 4
		if tc.change != nil {
			tc.change(&c)
		}
		p, err := started(t, c.Node, tc.kubelet)
		if err != nil {
			t.Fatal(err)
		}
		err = preflight.Check("server", p.dir, (&server{process: p, cfg: c}).ports(), func(string) (string, error) { return "", errors.New("not there") })
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q in %v", want, err)
			}
		}
	}
}

// What the kubelet's configuration says of its ports holds, or is refused by name.
func TestKubeletPorts(t *testing.T) {
	c := config.DefaultServer().Node
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
