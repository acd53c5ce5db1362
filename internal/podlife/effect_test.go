package podlife

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An effect that is not in Effects would be one at whose boundaries nobody tries what a kill does.
func TestEffectsAreAllThereAre(t *testing.T) {
	var declared, listed []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Key" && !strings.HasSuffix(name, "_test.go") {
				declared = append(declared, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for _, e := range Effects {
		listed = append(listed, Name(e))
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) || len(listed) == 0 {
		t.Errorf("Effects are\n%q, and these are declared:\n%q", listed, declared)
	}
}
