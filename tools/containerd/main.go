// Command containerd is the runtime that podo carries: containerd at the pinned version with all that its own program has, and one thing
// more: at rest it gives back the pages of its program. It is a module of its own, so that it is built with containerd's versions of
// everything; `make payload` builds it and packs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/cmd/containerd/command"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
)

func main() {
	go new(keeper).run()
	if err := command.App().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "containerd:", err)
		os.Exit(1)
	}
}
