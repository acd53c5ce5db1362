package oracle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// enumerated are the values of the enumerated types that the compared kinds use, read from the API's sources.
var enumerated = sync.OnceValues(func() (map[reflect.Type][]string, error) {
	e := enums{types: map[reflect.Type][]string{}, seen: map[reflect.Type]bool{}, packages: map[string]map[string][]string{}}
	for _, k := range Kinds {
		if err := e.walk(reflect.TypeOf(k.Podo.NewServed()).Elem()); err != nil {
			return nil, err
		}
	}
	return e.types, nil
})

type enums struct {
	types    map[reflect.Type][]string
	seen     map[reflect.Type]bool
	packages map[string]map[string][]string // by import path and type name
}

func (e *enums) walk(t reflect.Type) error {
	if e.seen[t] {
		return nil
	}
	e.seen[t] = true
	var parts []reflect.Type
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		parts = []reflect.Type{t.Elem()}
	case reflect.Map:
		parts = []reflect.Type{t.Key(), t.Elem()}
	case reflect.Struct:
		for i := range t.NumField() {
			parts = append(parts, t.Field(i).Type)
		}
	case reflect.String:
		if !strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			return nil
		}
		names, err := e.constants(t.PkgPath())
		if err != nil {
			return err
		}
		if values := names[t.Name()]; len(values) > 0 {
			e.types[t] = values
		}
	}
	for _, p := range parts {
		if err := e.walk(p); err != nil {
			return err
		}
	}
	return nil
}

// constants reads the typed string constants of a package's types.go.
func (e *enums) constants(path string) (map[string][]string, error) {
	if names, ok := e.packages[path]; ok {
		return names, nil
	}
	names := map[string][]string{}
	e.packages[path] = names
	dir, err := sources(path)
	if err != nil {
		return nil, err
	}
	src, err := os.ReadFile(filepath.Join(dir, "types.go"))
	if os.IsNotExist(err) {
		return names, nil
	} else if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), "types.go", src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		name, ok := v.Type.(*ast.Ident)
		if !ok {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				names[name.Name] = append(names[name.Name], s)
			}
		}
		return true
	})
	return names, nil
}
