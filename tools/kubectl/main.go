// Command kubectl is the client that `podo kubectl` runs: k8s.io/kubectl at the pinned version. It is a module and a program of
// its own because linking kubectl into podo would cost every server 20 MB of memory; `make payload` builds it and packs it.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and other credential plug-ins that kubeconfig files name
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	t := &tables{}
	// Upstream's own settings of the flags, but for what looks at the requests.
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50).
		WithWarningPrinter(streams).WithWrapConfigFn(t.watchRequests)
	root := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     os.Args, ConfigFlags: flags, IOStreams: streams,
	})
	t.watchCommand(root)
	if err := cli.RunNoErrOutput(root); err != nil {
		util.CheckErr(err) // prints what went wrong in kubectl's words and exits with its code
	}
}
