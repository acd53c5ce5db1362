// Command kubectl is the client that `podo kubectl` runs: k8s.io/kubectl at the pinned version. It is a module and a program of
// its own because linking kubectl into podo would cost every server 20 MB of memory; `make payload` builds it and packs it.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and other credential plug-ins that kubeconfig files name
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints what went wrong in kubectl's words and exits with its code
	}
}
