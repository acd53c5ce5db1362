package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"podo.dev/podo/internal/daemon/config"
)

// configured runs the flag handling of `podo server` and returns what it was told.
func configured(t *testing.T, file string, args ...string) (config.Server, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.DefaultServer()
	cmd := &cobra.Command{Use: "server"}
	cmd.Flags().String("data-dir", "", "")
	serverFlags(cmd.Flags(), &cfg)
	if err := cmd.ParseFlags(append(args, "--config", path)); err != nil {
		t.Fatal(err)
	}
	return cfg, readConfigFile(cmd)
}

func TestConfigFile(t *testing.T) {
	cfg, err := configured(t, "https-port: 7443\nnode-name: from-file\ntls-san: [a.example, 10.0.0.1]\nv: 4\n", "--node-name", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.HTTPSPort != 7443 || cfg.Verbosity != 4 || strings.Join(cfg.TLSSANs, " ") != "a.example 10.0.0.1" {
		t.Errorf("the file's values are not taken: %+v", cfg)
	}
	if cfg.NodeName != "from-flag" {
		t.Errorf("node name %q: the command line must win", cfg.NodeName)
	}
	for file, want := range map[string]string{
		"https-prot: 7443\n":           `unknown key "https-prot"`,
		"https-port: much\n":           "https-port",
		"https-port: {a: b}\n":         "want a value or a list",
		"https-port: 1\nhttps-port: 2": "already set",
	} {
		if _, err := configured(t, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got %v", file, want, err)
		}
	}
}

func TestClientVerbsFindTheServer(t *testing.T) {
	for _, tc := range []struct {
		env  string
		args []string
		want string
	}{
		{"", nil, "/var/lib/podo/kubeconfig"},
		{"/env", nil, "/env"},
		{"/env", []string{"--kubeconfig", "/flag"}, "/flag"},
		{"/env", []string{"--data-dir", "/data"}, "/env"},
		{"", []string{"--data-dir", "/data"}, "/data/kubeconfig"},
		{"/env", []string{"--data-dir", "/data", "--kubeconfig", "/flag"}, "/flag"},
	} {
		t.Setenv("KUBECONFIG", tc.env)
		cmd := &cobra.Command{Use: "status"}
		cmd.Flags().String("data-dir", "/var/lib/podo", "")
		addKubeconfigFlag(cmd)
		if err := cmd.ParseFlags(tc.args); err != nil {
			t.Fatal(err)
		}
		if got, _ := kubeconfigPath(cmd); got != tc.want {
			t.Errorf("KUBECONFIG=%q %v: %s, want %s", tc.env, tc.args, got, tc.want)
		}
	}
}

func TestKubectlKeepsItsOwnArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		dir  string
		rest string
	}{
		{[]string{"get", "pods"}, "/def", "get pods"},
		{[]string{"--data-dir", "/d", "get", "pods"}, "/d", "get pods"},
		{[]string{"--data-dir=/d", "get"}, "/d", "get"},
		{[]string{"exec", "p", "--", "x", "--data-dir", "/inner"}, "/def", "exec p -- x --data-dir /inner"},
	} {
		dir, rest := splitDataDir(tc.args, "/def")
		if dir != tc.dir || strings.Join(rest, " ") != tc.rest {
			t.Errorf("%v: %s, %v", tc.args, dir, rest)
		}
	}
}

func TestWhereKubectlFindsNoCluster(t *testing.T) {
	there := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]bool{there: false, "/none:" + there: false, "/none": true, "/none:/nor": true} {
		if got := noneExists(list); got != want {
			t.Errorf("noneExists(%q) = %t", list, got)
		}
	}
	for args, want := range map[string]bool{"get pods": false, "get --kubeconfig=x": true, "-s http://x get pods": true, "get pods --server x": true} {
		if got := namesCluster(strings.Fields(args)); got != want {
			t.Errorf("namesCluster(%q) = %t", args, got)
		}
	}
}

// A start shows what took time or has something to say, and counts the rest.
func TestFollowBoot(t *testing.T) {
	var out strings.Builder
	stages := strings.NewReader(`{"stage":"etcd","took":300000000,"at":300000000}
{"stage":"namespaces","took":1000,"at":300001000}
{"stage":"root-ca","took":1000,"at":300002000}
{"stage":"ca","took":1000,"at":300003000,"note":"made anew"}
{"stage":"ready","at":400000000}
`)
	if err := followBoot(&out, stages); err != nil {
		t.Fatal(err)
	}
	want := "    0.30s  etcd                     300 ms  \n    0.30s  ca                         0 ms  made anew\n  and 2 more parts that took no time\nReady after 0.40s.\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := followBoot(io.Discard, strings.NewReader(`{"stage":"etcd","err":"its disk is full"}`)); err == nil || err.Error() != "its disk is full" {
		t.Errorf("a failure is told as %v", err)
	}
}

func TestKubectlEnv(t *testing.T) {
	for _, tc := range []struct{ own, want []string }{
		{[]string{"A=1"}, []string{"A=1", "KUBECONFIG=/k", "GOGC=400"}},
		{[]string{"KUBECONFIG=", "GOGC=", "A=1"}, []string{"A=1", "KUBECONFIG=/k", "GOGC=400"}},
		{[]string{"GOGC=50", "KUBECONFIG=/mine:/other"}, []string{"GOGC=50", "KUBECONFIG=/mine:/other"}},
	} {
		if got := kubectlEnv(tc.own, "/k"); !slices.Equal(got, tc.want) {
			t.Errorf("kubectlEnv(%q) = %q, want %q", tc.own, got, tc.want)
		}
	}
}

// What is wrong with a command line says where to read on.
func TestWrongCommandLinesPointToHelp(t *testing.T) {
	for line, want := range map[string]string{
		"up --bogus":      "unknown flag: --bogus: see `podo up --help`",
		"timeline":        "accepts 1 arg(s), received 0: see `podo timeline --help`",
		"frobnicate":      "`podo --help` lists",
		"token create -x": "see `podo token create --help`",
	} {
		var out strings.Builder
		if code := Main(strings.Fields(line), nil, io.Discard, &out); code != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("podo %s: %d, %q; want %q", line, code, out.String(), want)
		}
	}
}
