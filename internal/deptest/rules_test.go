package deptest

import (
	"slices"
	"strings"

	"podo.dev/podo/tools/analyzers/pure"
)

// module is the prefix of our own packages in import paths. In rules own packages are named without it.
const module = pure.Module

// rule is one law of the layout. breaks tells whether from must not import to; own packages come without the module's prefix.
type rule struct {
	name   string
	why    string
	breaks func(from, to string) bool
}

// shells act; each is one part of the running system.
var shells = []string{
	"internal/apiserver", "internal/scheduler", "internal/controllers", "internal/kubelet", "internal/runtime",
}

// ports are contracts that shells are built on.
var ports = []string{"internal/store", "internal/client", "internal/cri", "internal/host", "internal/component", "internal/view"}

// adapters implement ports.
var adapters = []string{
	"internal/store/etcd", "internal/store/mem", "internal/client/local", "internal/client/remote",
	"internal/cri/containerd", "internal/cri/fake", "internal/host/linux", "internal/host/fake",
}

// leaves are pure and shared by all.
var leaves = []string{"internal/podlife", "internal/registry", "internal/timeline", "internal/explain", "internal/quota", "internal/localclass", "internal/budget"}

// roots put everything together.
var roots = []string{"internal/daemon", "internal/sim"}

var rules = []rule{
	{
		"shells never import each other",
		"they meet through API objects only: each can be read, tested and replaced alone",
		func(from, to string) bool {
			a, b := in(from, shells), in(to, shells)
			return a != "" && b != "" && a != b
		},
	},
	{
		"only the roots import shells",
		"the system is put together by hand in one place that nobody imports; client/local calls the verbs in process, which is " +
			"the one arrow from an adapter into a shell",
		func(from, to string) bool {
			shell := in(to, shells)
			if shell == "" || in(from, shells) == shell || in(from, roots) != "" || lane(from) || under(from, "tools") {
				return false // tools/payload packs what runtime unpacks
			}
			return in(from, []string{"internal/client/local"}) == "" || to != "internal/apiserver/verbs"
		},
	},
	{
		"only the roots import adapters",
		"what is written against a port runs with every adapter, in simulation too",
		func(from, to string) bool {
			adapter := in(to, adapters)
			return adapter != "" && in(from, []string{adapter}) == "" && in(from, roots) == "" && !lane(from) && !suite(from)
		},
	},
	{
		"nobody imports a root but the command line",
		"a composition root is the end of the line; cli hands over to daemon, cmd to cli",
		func(from, to string) bool {
			switch {
			case under(to, "internal/daemon"):
				return !under(from, "internal/daemon") && !under(from, "internal/cli") && !lane(from)
			case under(to, "internal/cli"):
				return !under(from, "internal/cli") && !under(from, "cmd") && !lane(from)
			case under(to, "internal/sim"):
				return !under(from, "internal/sim") && !lane(from)
			}
			return under(to, "cmd")
		},
	},
	{
		"ports import no shell, no adapter and no root",
		"a contract that knows an implementation is none",
		func(from, to string) bool {
			if in(from, ports) == "" || in(from, adapters) != "" || suite(from) {
				return false
			}
			return in(to, shells) != "" || in(to, adapters) != "" || in(to, roots) != ""
		},
	},
	{
		"leaves import leaves only, of our own",
		"what everybody uses must not pull anybody in",
		func(from, to string) bool {
			return pure.Is(module+from) && in(from, leaves) != "" && strings.HasPrefix(to, "internal/") && !pure.Is(module+to)
		},
	},
	{
		"pure packages do not touch the world",
		"they decide from their arguments alone; of net they parse addresses (the analyzer of tools/analyzers looks at that)",
		func(from, to string) bool {
			world := []string{
				"os", "io/ioutil", "context", "sync", "log", "net/http", "crypto/rand",
				"golang.org/x/sys", "k8s.io/client-go", "google.golang.org/grpc", "go.etcd.io/etcd",
			}
			return pure.Is(module+from) && in(to, world) != ""
		},
	},
	{
		"etcd is imported by store/etcd only",
		"the store is a port; another one must be a matter of one package",
		func(from, to string) bool {
			return under(to, "go.etcd.io/etcd") && !under(from, "internal/store/etcd") && !lane(from) && !warm(from)
		},
	},
	{
		"containerd is imported by cri/containerd and runtime only",
		"the kubelet speaks CRI to any runtime; containerd itself is a supervised child",
		func(from, to string) bool {
			return under(to, "github.com/containerd/containerd") && !under(from, "internal/cri/containerd") &&
				!under(from, "internal/runtime") && !under(from, "tools") && !lane(from) && !warm(from)
		},
	},
	{
		"nothing imports k8s.io/kubernetes or k8s.io/kubectl",
		"upstream says that k8s.io/kubernetes is no library; kubectl is a helper program of its own and would cost the daemon 20 MB",
		func(_, to string) bool { return under(to, "k8s.io/kubernetes") || under(to, "k8s.io/kubectl") },
	},
	{
		"packages are named for what they are about",
		"util, common and helpers say nothing and grow without end",
		func(_, to string) bool {
			if !strings.HasPrefix(to, "internal/") {
				return false
			}
			return slices.ContainsFunc(strings.Split(to, "/"), func(part string) bool {
				return slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "pkg", "misc"}, part)
			})
		},
	},
}

// in returns which of the trees a package is in, "" for none.
func in(pkg string, trees []string) string {
	for _, t := range trees {
		if under(pkg, t) {
			return t
		}
	}
	return ""
}

// under tells whether pkg is root or below it. Import paths may carry a major version: go.etcd.io/etcd/server/v3.
func under(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

// lane tells whether a package is one of the test lanes, which look at everything.
func lane(pkg string) bool { return under(pkg, "test") }

// suite tells whether a package is the conformance suite of a port, or supports tests of one; it may show off with an adapter.
func suite(pkg string) bool {
	return strings.HasSuffix(pkg, "test") && strings.HasPrefix(pkg, "internal/")
}

// warm keeps dependencies in the module file and is in no program.
func warm(pkg string) bool { return under(pkg, "internal/warm") }
