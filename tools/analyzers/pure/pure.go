// Package pure checks that the pure packages are: they decide from their arguments alone, so that a decision can be tested,
// simulated and replayed. They read no clock, draw no random numbers, start no goroutine, and of package net use what parses.
package pure

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Module is the prefix of our own packages.
const Module = "podo.dev/podo/"

// Packages are the pure packages; a name that ends with /... stands for all below it, too.
var Packages = []string{
	"internal/podlife",
	"internal/registry/...",
	"internal/timeline",
	"internal/budget",
	"internal/explain",
	"internal/jointoken",
	"internal/kubelet/admit",
	"internal/kubelet/downward",
	"internal/kubelet/expand",
	"internal/localclass",
	"internal/quota",
	"internal/scheduler/framework",
	"internal/scheduler/plan",
	"internal/scheduler/plugins/...",
	"internal/scheduler/profile",
	"internal/scheduler/queue",
	"internal/view/codec",
}

// PlanFile is the pure file of a controller's folder; the folder's other files are its shell.
const PlanFile = "plan.go"

const controllers = "internal/controllers/"

// Is tells whether a package, by its import path, is pure.
func Is(importPath string) bool {
	p, ok := strings.CutPrefix(importPath, Module)
	return ok && slices.ContainsFunc(Packages, func(name string) bool {
		root, deep := strings.CutSuffix(name, "/...")
		return p == root || deep && strings.HasPrefix(p, root+"/")
	})
}

// clocks are the functions of package time that read the clock or wait for it.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}

// parsers are what pure code may use of package net.
var parsers = []string{
	"ParseIP", "ParseCIDR", "ParseMAC", "SplitHostPort", "JoinHostPort", "IP", "IPNet", "IPMask", "CIDRMask", "IPv4", "IPv4Mask",
	"IPv4len", "IPv6len", "ParseError", "AddrError", "HardwareAddr",
}

// random are packages whose import alone says that a decision depends on chance.
var random = []string{"crypto/rand", "github.com/google/uuid", "k8s.io/apimachinery/pkg/util/uuid", "k8s.io/apimachinery/pkg/util/rand"}

// seeded are the functions of math/rand that make a generator of a seed: with it as an argument a decision can be replayed.
var seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf"}

// Analyzer reports impure code in pure packages and in controllers' plans. Test files may do as they like.
var Analyzer = &analysis.Analyzer{
	Name: "pure",
	Doc:  "pure packages take time, chance and identifiers as arguments and start no goroutine",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	// A package under test is compiled again under the path of the same name.
	whole := Is(strings.TrimSuffix(pass.Pkg.Path(), "_test"))
	plans := strings.HasPrefix(pass.Pkg.Path(), Module+controllers)
	if !whole && !plans {
		return nil, nil
	}
	for _, file := range pass.Files {
		name := path.Base(pass.Fset.Position(file.Package).Filename)
		if strings.HasSuffix(name, "_test.go") || !whole && name != PlanFile {
			continue
		}
		checkFile(pass, file)
	}
	return nil, nil
}

func checkFile(pass *analysis.Pass, file *ast.File) {
	for _, imp := range file.Imports {
		if p, err := strconv.Unquote(imp.Path.Value); err == nil && slices.Contains(random, p) {
			pass.Reportf(imp.Pos(), "pure code must not import %s: take what is random as an argument", p)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			pass.Reportf(n.Pos(), "pure code must not start a goroutine")
		case *ast.SelectorExpr:
			checkUse(pass, n)
		}
		return true
	})
}

func checkUse(pass *analysis.Pass, sel *ast.SelectorExpr) {
	obj := pass.TypesInfo.Uses[sel.Sel]
	if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return // a method or a field: whoever made the value has been checked
	}
	switch p := obj.Pkg().Path(); {
	case p == "time" && slices.Contains(clocks, obj.Name()):
		pass.Reportf(sel.Pos(), "pure code must not call time.%s: take now as an argument", obj.Name())
	case p == "math/rand" || p == "math/rand/v2":
		if _, ok := obj.(*types.Func); ok && !slices.Contains(seeded, obj.Name()) {
			pass.Reportf(sel.Pos(), "pure code must not call rand.%s: take a generator as an argument", obj.Name())
		}
	case p == "net" && !slices.Contains(parsers, obj.Name()):
		pass.Reportf(sel.Pos(), "pure code must not use net.%s: of package net it may parse addresses only", obj.Name())
	case p == "k8s.io/apimachinery/pkg/apis/meta/v1" && (obj.Name() == "Now" || obj.Name() == "NowMicro"):
		if _, ok := obj.(*types.Func); ok {
			pass.Reportf(sel.Pos(), "pure code must not call metav1.%s: take now as an argument", obj.Name())
		}
	}
}
