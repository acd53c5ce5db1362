package oracle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/view/codec"
)

// TestStoredBytes: what one side stores, the other reads as the same object; the bytes are equal.
func TestStoredBytes(t *testing.T) {
	serializer := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	each(t, func(t *testing.T, k Kind) {
		if k.Podo.Served != nil {
			t.Skip("stored as another kind")
		}
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		encoder := legacyscheme.Codecs.EncoderForVersion(serializer, k.Podo.GroupVersion())
		decoder := legacyscheme.Codecs.DecoderToVersion(serializer, runtime.InternalGroupVersioner)
		var r Report
		what := "stored " + k.name()
		differ := func(obj runtime.Object) []Difference {
			obj = k.external(k.internal(obj))
			meta1(obj).SetResourceVersion("")
			var up bytes.Buffer
			if err := encoder.Encode(k.internal(obj), &up); err != nil {
				t.Fatal(err)
			}
			// Empty lists do not survive protobuf: what is expected is what upstream reads back.
			want, _, err := decoder.Decode(up.Bytes(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := codec.Encode(obj)
			if err != nil {
				return []Difference{{Where: "encode", Podo: err.Error()}}
			}
			back, err := codec.Decode(k.Podo, up.Bytes(), 0)
			if err != nil {
				return []Difference{{Where: "decode upstream's", Podo: err.Error()}}
			}
			k.Podo.Default(back)
			out := compareJSON("", tree(k.external(want)), tree(back))
			in, _, err := decoder.Decode(ours, nil, nil)
			if err != nil {
				return append(out, Difference{Where: "decode podo's", Upstream: err.Error()})
			}
			out = append(out, compareJSON("", tree(k.external(want)), tree(k.external(in)))...)
			if len(out) == 0 && !bytes.Equal(ours, up.Bytes()) {
				out = append(out, Difference{Where: "bytes", Upstream: "other bytes", Podo: "other bytes"})
			}
			return out
		}
		for range rounds(1.0 / 6) {
			obj := k.stored(m, pop)
			if obj == nil {
				continue
			}
			r.ran()
			r.found(what, differ(obj), k.smallest(what, obj, differ))
		}
		r.fail(t)
	})
}

// TestOlderVersions: what an older cluster stored in another version is read as upstream reads it, from protobuf and from JSON.
func TestOlderVersions(t *testing.T) {
	proto := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	text := json.NewSerializerWithOptions(json.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, json.SerializerOptions{})
	each(t, func(t *testing.T, k Kind) {
		for _, gv := range append(legacyscheme.Scheme.PrioritizedVersionsForGroup(k.Podo.GVK.Group), extensionsv1beta1.SchemeGroupVersion) {
			if gv == k.Podo.StoredGVK().GroupVersion() || !legacyscheme.Scheme.Recognizes(gv.WithKind(k.Podo.GVK.Kind)) {
				continue
			}
			m := mutatorFor(t)
			pop := newPopulation(seeds(t, k))
			var r Report
			what := "stored as " + gv.String() + " " + k.name()
			differ := func(obj runtime.Object) (out []Difference) {
				obj = k.external(k.internal(obj))
				meta1(obj).SetResourceVersion("")
				for form, serializer := range map[string]runtime.Serializer{"protobuf": proto, "JSON": text} {
					var was bytes.Buffer
					if err := legacyscheme.Codecs.EncoderForVersion(serializer, gv).Encode(k.internal(obj), &was); err != nil {
						return nil // the older version cannot say it
					}
					want, _, err := legacyscheme.Codecs.DecoderToVersion(serializer, runtime.InternalGroupVersioner).Decode(was.Bytes(), nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					back, err := codec.Decode(k.Podo, was.Bytes(), 0)
					if err != nil {
						return append(out, Difference{Where: form, Podo: err.Error()})
					}
					k.Podo.Default(back)
					out = append(out, compareJSON(form, tree(k.external(want)), tree(back))...)
				}
				return out
			}
			for _, obj := range pop.objects {
				r.found(what, differ(obj), k.smallest(what, obj, differ))
			}
			for range rounds(1.0 / 12) {
				obj := k.stored(m, pop)
				if obj == nil {
					continue
				}
				r.ran()
				r.found(what, differ(obj), k.smallest(what, obj, differ))
			}
			r.fail(t)
		}
	})
}

// TestConversion: what a stored object says is what upstream makes of it by defaulting it and converting it to its own type and
// back, also of one that no rule of today would let in. What is read again is not changed again.
func TestConversion(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		what := "conversion of " + k.name()
		differ := func(obj runtime.Object) []Difference {
			if !k.readable(obj) {
				return nil
			}
			podo := k.stands(obj)
			up := k.external(k.internal(obj))
			out := compareJSON("", tree(up), tree(k.Podo.Out(podo)))
			if len(out) == 0 {
				again := podo.DeepCopyObject()
				k.Podo.Default(again)
				out = compareJSON("again", tree(podo), tree(again))
			}
			return out
		}
		for range rounds(1.0 / 3) {
			obj := pop.pick(m)
			m.Mutate(obj, 1+m.IntN(6))
			k.complete(obj)
			r.ran()
			r.found(what, differ(obj), k.smallest(what, obj, differ))
			pop.keep(m, obj)
		}
		r.fail(t)
	})
}

// TestAPITestdata: upstream keeps every kind with every field set, as JSON, YAML and protobuf. All must read as the same object,
// and be written back as the same.
func TestAPITestdata(t *testing.T) {
	api, err := module("k8s.io/api")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, k Kind) {
		group := k.Podo.GVK.Group
		if group == "" {
			group = "core"
		}
		stem := filepath.Join(api, "testdata", "HEAD", strings.Join([]string{group, k.Podo.GVK.Version, k.Podo.GVK.Kind}, "."))
		forms := map[string]runtime.Object{}
		podo := *k.Podo
		podo.New = k.Podo.NewServed
		for _, ext := range []string{"json", "yaml", "pb"} {
			b, err := os.ReadFile(stem + "." + ext)
			if err != nil {
				t.Fatal(err)
			}
			if ext == "yaml" {
				if b, err = yaml.YAMLToJSON(b); err != nil {
					t.Fatal(err)
				}
			}
			if forms[ext], err = codec.Decode(&podo, b, 0); err != nil {
				t.Fatalf("%s: %v", ext, err)
			}
		}
		equal := func(what string, a, b runtime.Object) {
			for _, d := range compareJSON("", tree(a), tree(b)) {
				t.Errorf("%s: %s: %s, %s", what, d.Where, d.Upstream, d.Podo)
			}
		}
		equal("JSON and YAML", forms["json"], forms["yaml"])
		equal("JSON and protobuf", forms["json"], forms["pb"])
		if tree := tree(forms["json"]).(map[string]any); len(tree) < 3 {
			t.Errorf("the file holds little: %v", tree)
		}
		out, err := codec.Encode(forms["pb"])
		if err != nil {
			t.Fatal(err)
		}
		again, err := codec.Decode(&podo, out, 0)
		if err != nil {
			t.Fatal(err)
		}
		equal("written and read again", forms["json"], again)
	})
}
