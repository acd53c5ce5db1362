package verbs

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// patchSeeds are patches of each type, good and bad.
var patchSeeds = map[types.PatchType][]string{
	types.JSONPatchType: {
		`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`, `[{"op":"remove","path":"/spec/containers/0"}]`, `[{"op":"test","path":"/spec","value":{}}]`,
		`[{"op":"copy","from":"/spec","path":"/spec/containers/0/env/-"}]`, `[{"op":"move","from":"/spec","path":"/spec/a"}]`, `[{"op":"replace"}]`, `[{"path":1}]`, `[null]`,
		`[{"op":"add","path":"/spec/containers/99999999999999999999","value":1}]`, `{}`,
	},
	types.MergePatchType:          {`{"metadata":{"labels":null}}`, `{"spec":[]}`, `[]`, `null`, `{"kind":"Node"}`, `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e999999"}}}]}}`},
	types.StrategicMergePatchType: {`{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`, `{"$retainKeys":["a"]}`, `{"spec":{"$setElementOrder/containers":[{"name":"c"}]}}`, `{"spec":{"containers":[{"$patch":"replace"}]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`, `{"$patch":1}`, `{"spec":{"volumes":[{"name":{}},{"name":{}}]}}`, `{"spec":{"containers":[{"name":{}}]}}`, `{"spec":{"containers":[1]}}`},
	types.ApplyYAMLPatchType: {
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: j}]}\n", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: j}]}", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c},{name: c}]}",
		"a: &a [*a]", "a: &a {b: &b [1,2]}\nc: [*a,*a]", "---\n---\n", "{", "apiVersion: v1\nkind: Pod\nstatus: {podIPs: [{ip: 1}]}", "apiVersion: v1\nkind: Pod\nspec: null",
	},
}

// FuzzPatch: whatever a patch says, it is refused or its result is an object of the kind, and what it was applied to stays as it is.
func FuzzPatch(f *testing.F) {
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType}
	for i, kind := range kinds {
		for _, seed := range patchSeeds[kind] {
			f.Add(uint8(i), seed)
		}
	}
	w := newWorld(f)
	k := registry.Lookup(client.Pods.At("", "").Resource)
	p := pod("p")
	p.SetGroupVersionKind(k.GVK)
	k.Default(p)
	p.UID = "u"
	w.owners.Created(k, p, "creator")
	f.Fuzz(func(t *testing.T, kind uint8, data string) {
		cur := p.DeepCopy()
		patch := Patch{Type: kinds[int(kind)%len(kinds)], Data: []byte(data)}
		var obj runtime.Object
		var err error
		if patch.Type == types.ApplyYAMLPatchType {
			obj, err = w.applied(request{kind: k, ref: client.Pods.At("default", "p"), Options: Options{Manager: "m"}}, cur, patch)
		} else {
			obj, _, err = patch.Apply(k, cur)
		}
		if _, ok := obj.(*v1.Pod); err == nil && !ok {
			t.Errorf("a pod became a %T", obj)
		}
		if was, is := p.String(), cur.String(); was != is {
			t.Errorf("the patched pod was changed in place")
		}
	})
}

// FuzzContinue: a token is refused, or means a place and stays the same.
func FuzzContinue(f *testing.F) {
	f.Add(encodeContinue(view.Key{Namespace: "a", Name: "b"}, 7))
	f.Add(encodeContinue(view.Key{Name: "b"}, -1))
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9iIn0")
	f.Add("%%%")
	f.Fuzz(func(t *testing.T, s string) {
		key, rev, err := decodeContinue(s)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if strings.Contains(key.Name, "/") || key.Name == "" || key.Name == ".." {
			t.Errorf("%q leads to %+v", s, key)
		}
		again, at, err := decodeContinue(encodeContinue(key, rev))
		if err != nil || again != key || at != rev {
			t.Errorf("%q: %+v at %d became %+v at %d, %v", s, key, rev, again, at, err)
		}
	})
}

// FuzzSelector: what selects objects of any kind is refused with a 400, or says of each whether it is meant, whatever index helps.
func FuzzSelector(f *testing.F) {
	kinds := slices.DeleteFunc(registry.All(), func(k *registry.Kind) bool { return k.Unstored })
	for _, seed := range [][2]string{
		{"a=b", "metadata.name=x"},
		{"a in (b,c),!d,e notin (f)", "spec.nodeName=n,status.phase!=Running"},
		{"a==b,c!=d", "metadata.namespace=default,metadata.namespace=x"},
		{"a in (", "="},
		{"x>5,y<1", "involvedObject.kind=Pod"},
		{"-", "a\\,b=c\\=d"},
		{strings.Repeat("a,", 3000), strings.Repeat("metadata.name=x,", 3000)},
		{"\xff=\x00", "type=\xff"},
	} {
		for i := range kinds {
			f.Add(uint8(i), seed[0], seed[1])
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, byLabel, byField string) {
		k := kinds[int(i)%len(kinds)]
		var o internalversion.ListOptions
		err := scheme.ParameterCodec.DecodeParameters(url.Values{"labelSelector": {byLabel}, "fieldSelector": {byField}}, metav1.SchemeGroupVersion, &o)
		if err != nil {
			return
		}
		s, err := newSelector(k, "default", &o)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%q %q: %v", byLabel, byField, err)
			}
			return
		}
		obj := k.New()
		accessor(obj).SetName("x")
		e := &view.Entry{Key: view.Key{Namespace: s.namespace, Name: "x"}, Object: obj, Meta: accessor(obj)}
		got := s.matches(e)
		if s.everything() && !got {
			t.Errorf("%q %q means everything, and not %v", byLabel, byField, e.Key)
		}
		if _, _, ok := s.index(); ok && s.everything() {
			t.Errorf("%q %q needs an index and means everything", byLabel, byField)
		}
	})
}

// What is large, deep, repeated or not text is refused in no time.
func TestMonstrousPatches(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("c"))
	ref := client.ConfigMaps.At("default", "c")
	deep := strings.Repeat(`{"a":`, 300_000)
	for name, p := range map[string]Patch{
		"deep json":      {Type: types.JSONPatchType, Data: []byte(strings.Repeat("[", 1<<20))},
		"deep merge":     {Type: types.MergePatchType, Data: []byte(deep)},
		"deep strategic": {Type: types.StrategicMergePatchType, Data: []byte(deep + "1" + strings.Repeat("}", 300_000))},
		"deep apply":     {Type: types.ApplyYAMLPatchType, Data: []byte(deep + "1" + strings.Repeat("}", 300_000))},
		"yaml bomb":      {Type: types.ApplyYAMLPatchType, Data: []byte(bomb())},
		"many":           {Type: types.JSONPatchType, Data: []byte("[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 10_001) + `{}]`)},
		"copies": {Type: types.JSONPatchType, Data: []byte(`[{"op":"add","path":"/data/k0","value":"` + strings.Repeat("x", 1<<20) + `"}` +
			strings.Repeat(`,{"op":"copy","from":"/data/k0","path":"/data/k1"}`, 5000) + `]`)},
	} {
		start := time.Now()
		_, _, err := w.Patch(w.ctx, admin, ref, p, Options{Manager: "m"})
		var st apierrors.APIStatus
		if !errors.As(err, &st) || st.Status().Code < 400 || st.Status().Code > 499 {
			t.Errorf("%s: %.200v", name, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	out, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte("{\"data\":{\"bad\":\"\xff\"}}")}, Options{})
	if err == nil && out.(*v1.ConfigMap).Data["bad"] != "\ufffd" {
		t.Errorf("what is no text became %q", out.(*v1.ConfigMap).Data["bad"])
	}
}

// bomb is YAML that would grow to billions of nodes.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		prev := "*a" + string(rune('0'+(i-1)%10))
		name := string(rune('0' + i%10))
		b.WriteString("a" + name + "x: &a" + name + " [" + strings.Repeat(prev+",", 8) + prev + "]\n")
	}
	return b.String()
}
