package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podo.dev/podo/internal/daemon/config"
)

// A server in the background works in another folder than who starts it: files are meant from where they were named.
func TestFilesAreMeantFromHere(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range [][3]string{
		{"kubelet-config", "k.yaml", here + "/k.yaml"},
		{"audit-log-path", "-", "-"},
		{"etcd-cafile", "/etc/ca.crt", "/etc/ca.crt"},
		{"token-auth-file", "", ""},
		{"node-name", "k.yaml", "k.yaml"},
	} {
		if got := fromHere(tc[0], tc[1]); got != tc[2] {
			t.Errorf("--%s=%s becomes %s, want %s", tc[0], tc[1], got, tc[2])
		}
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	c := config.DefaultServer()
	serverFlags(f, &c)
	named := 0
	f.VisitAll(func(x *pflag.Flag) {
		isFile := strings.Contains(x.Usage, " file") || strings.HasPrefix(x.Usage, "file") || strings.HasPrefix(x.Usage, "folder") ||
			strings.Contains(x.Usage, "certificate of") || strings.HasPrefix(x.Usage, "client certificate")
		if x.Value.Type() == "string" && isFile && fromHere(x.Name, "x") == "x" {
			t.Errorf("--%s names a file (%s), and is not taken as one", x.Name, x.Usage)
		}
		if fromHere(x.Name, "x") != "x" {
			named++
		}
	})
	if named < 8 {
		t.Errorf("only %d flags name files", named)
	}
}
