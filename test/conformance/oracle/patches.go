package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"podo.dev/podo/internal/apiserver/verbs"
)

// patch makes a patch that leads from one object to another, as clients compute them, and spoils every other one: nulls, values of
// the wrong type, unknown fields, directives that say too much.
func (m *mutator) patch(k Kind, from, to runtime.Object) (verbs.Patch, bool) {
	p := verbs.Patch{
		Type:       pick(m, []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.StrategicMergePatchType}),
		Validation: pick(m, []string{"", metav1.FieldValidationWarn, metav1.FieldValidationStrict, metav1.FieldValidationIgnore}),
	}
	before, after := text(from), text(to)
	var err error
	switch p.Type {
	case types.MergePatchType:
		p.Data, err = jsonpatch.CreateMergePatch(before, after)
	case types.StrategicMergePatchType:
		p.Data, err = strategicpatch.CreateTwoWayMergePatch(before, after, k.Podo.NewServed())
	default:
		ops := []any{}
		operations("", tree(from), tree(to), &ops)
		p.Data = text(ops)
	}
	if err != nil {
		return p, false // no patch of this type leads there
	}
	for m.IntN(2) == 0 {
		m.spoil(&p)
	}
	return p, true
}

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // what comes from JSON goes back
	}
	return b
}

// operations are those of a JSON patch that leads from one value to another.
func operations(path string, from, to any, out *[]any) {
	a, isMap := from.(map[string]any)
	b, both := to.(map[string]any)
	if !isMap || !both {
		if string(text(from)) != string(text(to)) {
			*out = append(*out, map[string]any{"op": "replace", "path": path, "value": to})
		}
		return
	}
	keys := slices.Sorted(maps.Keys(a))
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		was, had := a[key]
		is, has := b[key]
		switch {
		case !has:
			*out = append(*out, map[string]any{"op": "remove", "path": at})
		case !had:
			*out = append(*out, map[string]any{"op": "add", "path": at, "value": is})
		default:
			operations(at, was, is, out)
		}
	}
}

// spoil changes one thing of a patch's text.
func (m *mutator) spoil(p *verbs.Patch) {
	var root any
	if json.Unmarshal(p.Data, &root) != nil {
		return
	}
	switch m.IntN(12) {
	case 0: // a field twice
		if s := string(p.Data); strings.HasPrefix(s, "{") && len(s) > 2 {
			p.Data = []byte(`{"` + pick(m, []string{"metadata", "spec", "data", "kind"}) + `":null,` + s[1:])
		}
		return
	case 1: // no JSON any more
		if m.IntN(4) == 0 {
			p.Data = p.Data[:m.IntN(len(p.Data)+1)]
		}
		return
	}
	if p.Type == types.JSONPatchType {
		root = m.spoilOperations(root)
	} else {
		m.spoilTree(root)
	}
	p.Data = text(root)
}

var strays = []any{nil, nil, true, 1.0, -1.0, 1.5, 1e20, "", "x", "1", []any{}, []any{1.0}, []any{"a"}, []any{nil}, []any{map[string]any{}}, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"name": "x"}}

func (m *mutator) spoilTree(root any) {
	var places []map[string]any
	collect(root, &places)
	if len(places) == 0 {
		return
	}
	at := places[m.IntN(len(places))]
	keys := slices.Sorted(maps.Keys(at))
	key := pick(m, []string{"unknown", "name", "metadata", "spec", "labels", "Name"})
	if len(keys) > 0 {
		key = pick(m, keys)
	}
	switch m.IntN(10) {
	case 0, 1, 2:
		at[key] = pick(m, strays)
	case 3:
		at["unknown"] = pick(m, strays)
	case 4:
		at[strings.ToUpper(key[:min(1, len(key))])+key[min(1, len(key)):]] = at[key]
		delete(at, key)
	case 5:
		at["$patch"] = pick(m, []any{"replace", "delete", "merge", "bad", 1.0, nil})
	case 6:
		kept := []any{}
		for _, k := range keys {
			if m.IntN(3) > 0 {
				kept = append(kept, k)
			}
		}
		at["$retainKeys"] = pick(m, []any{kept, kept, kept, "x", []any{"y"}})
	case 7:
		at["$setElementOrder/"+key] = pick(m, strays)
	case 8:
		at["$deleteFromPrimitiveList/"+pick(m, []string{"finalizers", "accessModes", "verbs", key})] = pick(m, strays)
	default:
		delete(at, key)
	}
}

func collect(v any, out *[]map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		*out = append(*out, v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			collect(v[k], out)
		}
	case []any:
		for _, e := range v {
			collect(e, out)
		}
	}
}

func (m *mutator) spoilOperations(root any) any {
	ops, ok := root.([]any)
	if !ok {
		return root
	}
	path := func() string {
		return pick(m, []string{"", "/", "/metadata/name", "/metadata/labels", "/metadata/labels/a", "/metadata/annotations/a~1b", "/metadata", "/spec", "/x", "/kind", "/metadata/uid", "/metadata/finalizers/0", "/metadata/finalizers/-", "x", "/metadata/labels/~2"})
	}
	if len(ops) > 0 && m.IntN(2) == 0 {
		at := ops[m.IntN(len(ops))].(map[string]any)
		switch m.IntN(5) {
		case 0:
			at["op"] = pick(m, []any{"add", "remove", "replace", "move", "copy", "test", "bad", nil, 1.0})
		case 1:
			at["path"] = pick(m, []any{path(), path(), nil, 1.0})
		case 2:
			at["value"] = pick(m, strays)
		case 3:
			at["unknown"] = 1.0
		default:
			delete(at, pick(m, []string{"op", "path", "value"}))
		}
		return ops
	}
	op := map[string]any{"op": pick(m, []string{"add", "remove", "replace", "move", "copy", "test"}), "path": path()}
	switch op["op"] {
	case "move", "copy":
		op["from"] = path()
	case "remove":
	default:
		op["value"] = pick(m, strays)
	}
	return slices.Insert(ops, m.IntN(len(ops)+1), any(op))
}

// smaller are the values that are one part smaller than v.
func smaller(v any) []any {
	var out []any
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			less := maps.Clone(v)
			delete(less, k)
			out = append(out, less)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			for _, part := range smaller(v[k]) {
				less := maps.Clone(v)
				less[k] = part
				out = append(out, less)
			}
		}
	case []any:
		for i := range v {
			out = append(out, slices.Delete(slices.Clone(v), i, i+1))
		}
		for i := range v {
			for _, part := range smaller(v[i]) {
				less := slices.Clone(v)
				less[i] = part
				out = append(out, any(less))
			}
		}
	}
	return out
}

// shrinkPatch removes parts of a patch as long as shows holds of what is left.
func shrinkPatch(p verbs.Patch, shows func(verbs.Patch) bool) verbs.Patch {
	for tries := 300; tries > 0; {
		var root any
		if json.Unmarshal(p.Data, &root) != nil {
			return p
		}
		i := slices.IndexFunc(smaller(root), func(v any) bool {
			tries--
			next := p
			next.Data = text(v)
			if tries < 0 || !shows(next) {
				return false
			}
			p = next
			return true
		})
		if i < 0 {
			return p
		}
	}
	return p
}

func describe(p verbs.Patch) string {
	return fmt.Sprintf("%s (%s): %s\n", p.Type, p.Validation, p.Data)
}
