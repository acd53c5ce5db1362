// Command analyzers runs the project's own checks over packages, as `go vet` does its: go run ./tools/analyzers ./...
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"podo.dev/podo/tools/analyzers/pure"
)

func main() { singlechecker.Main(pure.Analyzer) }
