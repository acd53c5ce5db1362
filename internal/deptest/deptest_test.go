package deptest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"podo.dev/podo/tools/analyzers/pure"
)

// imports lists the packages of the module, by their path without its prefix, with what each of them imports outside of tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	notice(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", module+"...")
	cmd.Dir = "../.."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for dec := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		all[name] = []string{}
		for _, i := range p.Imports {
			all[name] = append(all[name], strings.TrimPrefix(i, module))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// notice looks at every source file, so that the go command knows what the result depends on and does not take an old one.
func notice(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"../../internal", "../../cmd", "../../tools", "../../test"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLayout(t *testing.T) {
	all := imports(t)
	for _, must := range []string{"cmd/podo", "internal/podlife", "internal/store", "internal/kubelet/worker"} {
		if all[must] == nil {
			t.Errorf("%s is not there: the list of packages is not whole", must)
		}
	}
	for from, list := range all {
		for _, to := range list {
			for _, r := range rules {
				if r.breaks(from, to) {
					t.Errorf("%s imports %s: %s, since %s", from, to, r.name, r.why)
				}
			}
		}
	}
}

// Every rule must be able to fail, and must leave alone what is allowed.
func TestRulesBite(t *testing.T) {
	bad := map[string][]string{
		"shells never import each other":                            {"internal/kubelet/worker > internal/apiserver/verbs", "internal/scheduler > internal/controllers/loop"},
		"only the roots import shells":                              {"internal/client/local > internal/apiserver/wire", "internal/cli > internal/kubelet", "internal/client/remote > internal/apiserver/verbs"},
		"only the roots import adapters":                            {"internal/kubelet/node > internal/cri/fake", "internal/store/mem > internal/store/etcd", "internal/cli > internal/client/remote"},
		"nobody imports a root but the command line":                {"internal/kubelet > internal/daemon", "internal/daemon > internal/cli", "internal/daemon > internal/sim", "internal/cli > cmd/podo"},
		"ports import no shell, no adapter and no root":             {"internal/store > internal/store/etcd", "internal/client > internal/apiserver/verbs", "internal/view > internal/daemon"},
		"leaves import leaves only, of our own":                     {"internal/podlife > internal/client", "internal/timeline > internal/timeline/recorder"},
		"pure packages do not touch the world":                      {"internal/podlife > os", "internal/registry/check > os/exec", "internal/timeline > sync/atomic", "internal/scheduler/plan > context"},
		"etcd is imported by store/etcd only":                       {"internal/daemon > go.etcd.io/etcd/server/v3/embed", "internal/store > go.etcd.io/etcd/client/v3"},
		"containerd is imported by cri/containerd and runtime only": {"internal/kubelet/images > github.com/containerd/containerd/v2/client"},
		"nothing imports k8s.io/kubernetes or k8s.io/kubectl":       {"internal/kubelet > k8s.io/kubernetes/pkg/kubelet", "internal/cli > k8s.io/kubectl/pkg/cmd"},
		"packages are named for what they are about":                {"internal/kubelet > internal/kubelet/util", "internal/daemon > internal/common/x"},
	}
	good := []string{
		"internal/client/local > internal/apiserver/verbs", "internal/daemon > internal/kubelet/worker", "internal/daemon > internal/store/etcd",
		"internal/sim > internal/cri/fake", "internal/kubelet/worker > internal/podlife", "internal/store/etcd > go.etcd.io/etcd/server/v3/embed",
		"internal/runtime > github.com/containerd/containerd/v2/client", "internal/registry/podspec > net", "internal/registry > k8s.io/apimachinery/pkg/util/validation",
		"internal/scheduler > internal/scheduler/plan", "internal/kubelet/server > k8s.io/apiserver/pkg/util/proxy", "cmd/podo > internal/cli",
		"internal/cli > internal/daemon", "test/bench > internal/runtime", "internal/store/storetest > internal/store/mem",
		"internal/timeline/recorder > os", "internal/timeline/recorder > internal/timeline", "internal/kubelet/cm > github.com/containerd/cgroups/v3",
	}
	for _, r := range rules {
		if len(bad[r.name]) == 0 {
			t.Errorf("no example of breaking %q", r.name)
		}
		for _, example := range bad[r.name] {
			if from, to, _ := strings.Cut(example, " > "); !r.breaks(from, to) {
				t.Errorf("%s is not seen as breaking %q", example, r.name)
			}
		}
		for _, example := range good {
			if from, to, _ := strings.Cut(example, " > "); r.breaks(from, to) {
				t.Errorf("%s is seen as breaking %q", example, r.name)
			}
		}
	}
}

// The analyzer of tools/analyzers finds nothing in the pure packages and the controllers' plans.
func TestPurePackagesArePure(t *testing.T) {
	patterns := []string{module + "internal/controllers/..."}
	all := imports(t)
	for name := range all {
		if pure.Is(module + name) {
			patterns = append(patterns, module+name)
		}
	}
	// What these packages import is compiled for its types, as the product is: then nothing is compiled for this test alone.
	env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath")
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "../..", Env: env, Context: t.Context()}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{pure.Analyzer}, loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for act := range graph.All() {
		if act.Err != nil {
			t.Errorf("%s: %v", act.Package.PkgPath, act.Err)
			continue
		}
		looked++
		for _, d := range act.Diagnostics {
			t.Errorf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message)
		}
	}
	if looked < len(patterns)-1 {
		t.Errorf("%d packages were looked at, for %d patterns", looked, len(patterns))
	}
}
