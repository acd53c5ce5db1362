package main

import "podo.dev/podo/internal/release"

// helper is one program that podo carries.
type helper struct {
	name    string
	version string
	build   recipe
	lazy    bool // unpacked when first asked for
}

// recipe says how a helper is built. Exactly one of module, dir, own, c and image is set.
type recipe struct {
	module  string // main package in the module proxy, built at helper.version with its own module's dependencies
	dir     string // main package of a module in this repository, all of which is in this folder
	own     string // main package of this module, as an import path
	c       string // freestanding C file in this repository
	image   string // helper to wrap into an OCI archive as its only file and entry point
	cgo     bool
	tags    string
	ldflags string
}

// Pinned versions. A change here rebuilds the helpers concerned and no other.
const (
	containerdVersion = "v2.4.2" // tools/containerd/go.mod must agree, a test looks
	runcVersion       = "v1.5.3"
	cniVersion        = "v1.10.0"
	kubectlVersion    = "v0.37.2"          // of k8s.io/kubectl; tools/kubectl/go.mod must agree, a test looks
	kubernetesVersion = release.Kubernetes // what kubectl calls itself
	pauseVersion      = "1"
)

// PauseImage is the sandbox image's name. internal/runtime has the same constant; a test compares them.
const pauseImage = "localhost/podo/pause:" + pauseVersion

const (
	containerd = "github.com/containerd/containerd/v2"
	cni        = "github.com/containernetworking/plugins"
	cniFlags   = "-X " + cni + "/pkg/utils/buildversion.BuildVersion=" + cniVersion
	// The optional snapshotters need libraries and kernels that podo does not ask for. gRPC in the shim is 3 MB for nothing: it
	// speaks ttrpc. OpenTelemetry's exporter costs 4 MB in containerd.
	containerdTags = "no_btrfs no_devmapper no_zfs no_tracing urfave_cli_no_docs"
	containerdVer  = "-X " + containerd + "/version.Version=2.4.2 -X " + containerd + "/version.Revision=podo"
)

var helpers = []helper{
	{
		name: "containerd", version: containerdVersion,
		build: recipe{dir: "tools/containerd", tags: containerdTags, ldflags: containerdVer},
	},
	{
		name: "containerd-shim-runc-v2", version: containerdVersion,
		build: recipe{module: containerd + "/cmd/containerd-shim-runc-v2", tags: containerdTags + " no_grpc", ldflags: containerdVer},
	},
	{
		// runc's first steps are C, and seccomp profiles go through libseccomp: linked in, so that a node needs neither.
		name: "runc", version: runcVersion,
		build: recipe{
			module: "github.com/opencontainers/runc", cgo: true, tags: "seccomp netgo osusergo urfave_cli_no_docs",
			ldflags: "-linkmode external -extldflags -static -X main.version=1.5.3 -X main.gitCommit=podo",
		},
	},
	{name: "podo-net", version: "1", build: recipe{own: "podo.dev/podo/cmd/podo-net"}},
	{name: "portmap", version: cniVersion, build: recipe{module: cni + "/plugins/meta/portmap", ldflags: cniFlags}},
	{
		name: "kubectl", version: kubernetesVersion, lazy: true,
		build: recipe{
			dir: "tools/kubectl",
			ldflags: "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
				" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37" +
				" -X k8s.io/component-base/version.gitTreeState=clean" +
				" -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetesVersion,
		},
	},
	{name: "pause", version: pauseVersion, build: recipe{c: "tools/pause/pause.c"}},
	{name: "pause.tar", version: pauseVersion, build: recipe{image: "pause"}},
}
