package openapi

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	merge "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"podo.dev/podo/internal/registry"
)

// MergeTypes says of each kind how its fields are merged and owned: which lists are sets or maps, which parts are one whole. It is
// the published schemas without their prose. A kind without a schema is left out and told in the error; the others count none the less.
func MergeTypes(kinds []*registry.Kind) (map[schema.GroupVersionKind]typed.ParseableType, error) {
	c := merger{files: map[string]map[string]node{}, done: map[string]bool{}}
	out := make(map[schema.GroupVersionKind]typed.ParseableType, len(kinds))
	parser := &typed.Parser{}
	var missing []error
	for _, k := range kinds {
		name := model(k.NewServed())
		if err := c.add(name); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", k.GVK.Kind, err))
			continue
		}
		out[k.GVK] = parser.Type(name)
	}
	parser.Schema.Types = append(c.types, untypedType, deducedType)
	return out, errors.Join(missing...)
}

// node is what counts of a schema.
type node struct {
	Type          string          `json:"type"`
	Format        string          `json:"format"`
	Ref           string          `json:"$ref"`
	AllOf         []node          `json:"allOf"`
	Properties    map[string]node `json:"properties"`
	Additional    *node           `json:"additionalProperties"`
	Items         *node           `json:"items"`
	Default       any             `json:"default"`
	ListType      string          `json:"x-kubernetes-list-type"`
	ListMapKeys   []string        `json:"x-kubernetes-list-map-keys"`
	MapType       string          `json:"x-kubernetes-map-type"`
	PatchStrategy string          `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey string          `json:"x-kubernetes-patch-merge-key"`
}

// merger turns the schemas that are reachable from what is added into types.
type merger struct {
	files map[string]map[string]node // by Go package
	done  map[string]bool
	types []merge.TypeDef
}

func (c *merger) add(name string) error {
	if c.done[name] {
		return nil
	}
	c.done[name] = true
	n, err := c.find(name)
	if err != nil {
		return err
	}
	var atom merge.Atom
	switch name {
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		atom.Scalar = scalar(merge.Untyped) // a number or a string
	case "io.k8s.apimachinery.pkg.runtime.RawExtension":
		atom = untypedType.Atom
	default:
		if atom, err = c.atom(&n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	c.types = append(c.types, merge.TypeDef{Name: name, Atom: atom})
	return nil
}

func (c *merger) find(name string) (node, error) {
	pkg := name[:strings.LastIndex(name, ".")]
	if c.files[pkg] == nil {
		f, err := data.Open("data/" + pkg + ".json.gz")
		if err != nil {
			return node{}, err
		}
		defer f.Close()
		r, err := gzip.NewReader(f)
		if err != nil {
			return node{}, err
		}
		nodes := map[string]node{}
		if err := json.NewDecoder(r).Decode(&nodes); err != nil {
			return node{}, fmt.Errorf("schemas of %s: %w", pkg, err)
		}
		c.files[pkg] = nodes
	}
	n, ok := c.files[pkg][name]
	if !ok {
		return n, fmt.Errorf("no schema of %s", name)
	}
	return n, nil
}

func (c *merger) atom(n *node) (merge.Atom, error) {
	var a merge.Atom
	var err error
	switch n.Type {
	case "object":
		a.Map, err = c.object(n)
	case "array":
		a.List, err = c.list(n)
	case "integer", "number":
		a.Scalar = scalar(merge.Numeric)
	case "boolean":
		a.Scalar = scalar(merge.Boolean)
	case "string":
		a.Scalar = scalar(merge.String)
		if n.Format != "" && n.Format != "byte" {
			a.Scalar = scalar(merge.Untyped)
		}
	case "": // anything
		a.Scalar = scalar(merge.Untyped)
		if a.Map, err = c.object(n); err == nil {
			a.List, err = c.list(n)
		}
	default:
		err = fmt.Errorf("a schema of type %q", n.Type)
	}
	return a, err
}

func (c *merger) object(n *node) (*merge.Map, error) {
	m := &merge.Map{ElementRelationship: relationship(n)}
	names := make([]string, 0, len(n.Properties))
	for name := range n.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := n.Properties[name]
		t, err := c.ref(&p)
		if err != nil {
			return nil, err
		}
		m.Fields = append(m.Fields, merge.StructField{Name: name, Type: t, Default: p.Default})
	}
	var err error
	switch {
	case n.Additional != nil:
		m.ElementType, err = c.ref(n.Additional)
	case len(n.Properties) == 0: // free in form
		m.ElementType.NamedType = &deducedName
	}
	return m, err
}

func (c *merger) list(n *node) (*merge.List, error) {
	l := &merge.List{ElementRelationship: merge.Atomic, ElementType: merge.TypeRef{NamedType: &untypedName}}
	switch {
	case n.ListType == "set":
		l.ElementRelationship = merge.Associative
	case n.ListType == "map":
		l.ElementRelationship, l.Keys = merge.Associative, n.ListMapKeys
	case n.ListType == "" && strings.HasPrefix(n.PatchStrategy, "merge"):
		l.ElementRelationship = merge.Associative
		if n.PatchMergeKey != "" {
			l.Keys = []string{n.PatchMergeKey}
		}
	}
	if n.Items == nil {
		return l, nil
	}
	var err error
	l.ElementType, err = c.ref(n.Items)
	return l, err
}

// ref is a member's type: named, perhaps with a relationship of its own, or written out in its place.
func (c *merger) ref(n *node) (merge.TypeRef, error) {
	ref := n.Ref
	if ref == "" && len(n.AllOf) == 1 {
		ref = n.AllOf[0].Ref
	}
	if ref == "" {
		a, err := c.atom(n)
		return merge.TypeRef{Inlined: a}, err
	}
	name := ref[strings.LastIndex(ref, "/")+1:]
	t := merge.TypeRef{NamedType: &name}
	if r := relationship(n); r != "" {
		t.ElementRelationship = &r
	}
	return t, c.add(name)
}

func relationship(n *node) merge.ElementRelationship {
	switch n.MapType {
	case "atomic":
		return merge.Atomic
	case "granular":
		return merge.Separable
	}
	return ""
}

func scalar(s merge.Scalar) *merge.Scalar { return &s }

// What is not described: a whole that nobody looks into, and a tree whose maps are looked into.
var (
	untypedName, deducedName = "__untyped_atomic_", "__untyped_deduced_"

	untypedType = merge.TypeDef{Name: untypedName, Atom: merge.Atom{
		Scalar: scalar(merge.Untyped),
		List:   &merge.List{ElementType: merge.TypeRef{NamedType: &untypedName}, ElementRelationship: merge.Atomic},
		Map:    &merge.Map{ElementType: merge.TypeRef{NamedType: &untypedName}, ElementRelationship: merge.Atomic},
	}}
	deducedType = merge.TypeDef{Name: deducedName, Atom: merge.Atom{
		Scalar: scalar(merge.Untyped),
		List:   &merge.List{ElementType: merge.TypeRef{NamedType: &untypedName}, ElementRelationship: merge.Atomic},
		Map:    &merge.Map{ElementType: merge.TypeRef{NamedType: &deducedName}, ElementRelationship: merge.Separable},
	}}
)
