package verbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/codec"
)

// corpus has valid objects of every kind, with every field somewhere.
const corpus = "../../../test/conformance/oracle/corpus/"

// samples are the objects of a kind, as the store has them.
func samples(t testing.TB, k *registry.Kind) []runtime.Object {
	t.Helper()
	text, err := os.ReadFile(corpus + k.GroupResource().String() + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	form := k
	if k.Stored().GroupResource() == k.GroupResource() {
		form = k.Stored() // which is what the corpus has
	}
	var out []runtime.Object
	for i, doc := range bytes.Split(text, []byte("\n---\n")) {
		served := form.NewServed()
		if err := yaml.UnmarshalStrict(doc, served); err != nil {
			t.Fatalf("%s %d: %v", k.GroupResource(), i, err)
		}
		obj := form.In(served)
		if k.Namespaced {
			accessor(obj).SetNamespace("default")
		}
		accessor(obj).SetUID("u")
		obj.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
		if k.Default != nil {
			k.Default(obj)
		}
		out = append(out, obj)
	}
	return out
}

// shared are patches of what all kinds have, good and bad.
var shared = map[types.PatchType][]string{
	types.JSONPatchType: {
		`[{"op":"remove","path":"/metadata/name"}]`, `[{"op":"move","from":"/metadata","path":"/spec"}]`, `[{"op":"replace","path":"/spec","value":null}]`,
		`[{"op":"copy","from":"","path":"/metadata/annotations"}]`, `[{"op":"replace","path":"","value":{}}]`, `[{"op":"replace","path":"","value":[1]}]`,
		`[{"op":"replace","path":""}]`, `[{"op":"add","path":""}]`, `[{"op":"test","path":""}]`,
	},
	types.MergePatchType: {`{"metadata":{"finalizers":["a.io/b"],"annotations":{"a":null}},"spec":null,"status":null,"data":null}`, `{"apiVersion":null}`, `{"metadata":null}`, `{"metadata":{"managedFields":[{}]}}`},
	types.StrategicMergePatchType: {
		`{"$patch":"replace"}`, `{"$patch":"delete"}`, `{"metadata":{"$retainKeys":["name"]}}`, `{"metadata":{"$patch":"replace"}}`, `{"spec":{"$patch":"delete"}}`,
		`{"metadata":{"ownerReferences":[{"uid":"x"},{"uid":"x"}]}}`, `{"metadata":{"ownerReferences":[{"$patch":"merge"}]}}`, `{"metadata":{"$setElementOrder/finalizers":[1]}}`,
	},
	types.ApplyYAMLPatchType: {"metadata: {name: a}", "{}", "metadata: {managedFields: [{}]}", "spec: [1]\nstatus: 1\ndata: {a: 1}"},
}

// FuzzPatchOfAnyKind: whatever a patch of whatever type says to whatever kind, in each of its versions, it is refused or its result is an
// object of the kind, what it was applied to stays as it is, and the result is the same after a trip through each of its forms.
func FuzzPatchOfAnyKind(f *testing.F) {
	w := newWorld(f)
	as := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType}
	kinds := slices.DeleteFunc(registry.All(), func(k *registry.Kind) bool { return k.Unstored || len(k.Updates) == 0 })
	objs := make([][]runtime.Object, len(kinds))
	for i, k := range kinds {
		objs[i] = samples(f, k)
		if len(objs[i]) == 0 {
			f.Fatalf("nothing of %s in the corpus", k.GroupResource())
		}
		for j, typ := range as {
			for _, seed := range shared[typ] {
				f.Add(uint8(i), uint8(0), uint8(j), seed)
			}
		}
		for n, obj := range objs[i] {
			w.owners.Created(k.Stored(), obj, "creator")
			whole, other := served(f, k, obj), uint8((n+1)%len(objs[i])) // one becomes the other, so that lists are merged
			f.Add(uint8(i), other, uint8(0), fmt.Sprintf(`[{"op":"replace","path":"","value":%s}]`, whole))
			for j := range as[1:] {
				f.Add(uint8(i), other, uint8(j+1), whole)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind, which, typ uint8, data string) {
		i := int(kind) % len(kinds)
		k, old := kinds[i], objs[i][int(which)%len(objs[i])]
		cur := old.DeepCopyObject()
		patch := Patch{Type: as[int(typ)%len(as)], Data: []byte(data)}
		var obj runtime.Object
		var err error
		if patch.Type == types.ApplyYAMLPatchType {
			ref := client.Ref{Resource: k.GroupResource(), Namespace: accessor(cur).GetNamespace(), Name: accessor(cur).GetName()}
			obj, err = w.applied(request{kind: k, ref: ref, Options: Options{Manager: "m", Warn: func(string) {}}}, cur, patch)
		} else {
			obj, _, err = patch.Apply(k, cur)
		}
		if !reflect.DeepEqual(old, cur) {
			t.Errorf("%s: what was patched was changed in place", k.GroupResource())
		}
		if err != nil {
			return
		}
		if got, want := reflect.TypeOf(obj), reflect.TypeOf(k.New()); got != want {
			t.Fatalf("%s became a %v", k.GroupResource(), got)
		}
		if k.Default != nil {
			k.Default(obj)
		}
		travels(t, k, k.Out(obj))
		if k.Stored() != k {
			travels(t, k.Stored(), obj)
		}
	})
}

// served is an object in a kind's own version, as a client would apply it.
func served(t testing.TB, k *registry.Kind, obj runtime.Object) string {
	t.Helper()
	out := k.Out(obj.DeepCopyObject())
	accessor(out).SetManagedFields(nil)
	out.GetObjectKind().SetGroupVersionKind(k.GVK)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// travels: what an object's JSON says is the same object after it has been stored, or after a client has had it in protobuf.
func travels(t *testing.T, k *registry.Kind, obj runtime.Object) {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		return // a time that no JSON can say
	}
	read := k.NewServed()
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatalf("%s: its own JSON cannot be read: %v\n%s", k.GVK, err, text)
	}
	read.GetObjectKind().SetGroupVersionKind(k.GVK)
	accessor(read).SetResourceVersion("")
	var again runtime.Object
	if k.Stored() == k {
		raw, err := codec.Encode(read)
		if err != nil {
			t.Fatal(err)
		}
		if again, err = codec.Decode(k, raw, 0); err != nil {
			t.Fatalf("%s: what is stored cannot be read: %v", k.GVK, err)
		}
	} else {
		raw, err := read.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatalf("%s in protobuf: %v", k.GVK, err)
		}
		again = k.NewServed()
		if err := again.(interface{ Unmarshal([]byte) error }).Unmarshal(raw); err != nil {
			t.Fatalf("%s: its own protobuf cannot be read: %v", k.GVK, err)
		}
		again.GetObjectKind().SetGroupVersionKind(k.GVK)
	}
	if !apiequality.Semantic.DeepEqual(read, again) {
		other, _ := json.Marshal(again)
		t.Errorf("%s is not the same in protobuf:\n%s\n%s", k.GVK, text, other)
	}
}
