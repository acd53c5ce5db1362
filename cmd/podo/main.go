// Command podo is a Kubernetes cluster in one program. Everything is in internal/cli and below.
package main

import (
	"os"

	"podo.dev/podo/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
