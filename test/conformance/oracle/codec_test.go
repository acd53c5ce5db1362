package oracle

import (
	"bytes"
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"podo.dev/podo/internal/view/codec"
)

// TestStoredBytes: what one side stores, the other reads as the same object; the bytes are equal.
func TestStoredBytes(t *testing.T) {
	serializer := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	for _, k := range Kinds {
		t.Run(k.Podo.Resource, func(t *testing.T) {
			m := mutatorFor(t)
			pop := newPopulation(seeds(t, k))
			encoder := legacyscheme.Codecs.EncoderForVersion(serializer, k.Podo.GroupVersion())
			decoder := legacyscheme.Codecs.DecoderToVersion(serializer, runtime.InternalGroupVersioner)
			var r Report
			what := "stored " + k.Podo.Resource
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
			for end := time.Now().Add(budget() / 6); time.Now().Before(end); {
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
}

// TestAPITestdata: upstream keeps every kind with every field set, as JSON and as protobuf. Both must read as the same object,
// and be written back as the same bytes.
func TestAPITestdata(t *testing.T) {
	p, err := build.Import("k8s.io/api", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds {
		group := k.Podo.GVK.Group
		if group == "" {
			group = "core"
		}
		stem := filepath.Join(p.Dir, "testdata", "HEAD", strings.Join([]string{group, k.Podo.GVK.Version, k.Podo.GVK.Kind}, "."))
		pb, err := os.ReadFile(stem + ".pb")
		if err != nil {
			t.Fatal(err)
		}
		js, err := os.ReadFile(stem + ".json")
		if err != nil {
			t.Fatal(err)
		}
		fromProto, err := codec.Decode(k.Podo, pb, 0)
		if err != nil {
			t.Errorf("%s: protobuf: %v", k.Podo.Resource, err)
			continue
		}
		fromJSON, err := codec.Decode(k.Podo, js, 0)
		if err != nil {
			t.Errorf("%s: JSON: %v", k.Podo.Resource, err)
			continue
		}
		for _, d := range compareJSON("", tree(fromJSON), tree(fromProto)) {
			t.Errorf("%s: %s: JSON %s, protobuf %s", k.Podo.Resource, d.Where, d.Upstream, d.Podo)
		}
		out, err := codec.Encode(fromProto)
		if err != nil {
			t.Errorf("%s: %v", k.Podo.Resource, err)
			continue
		}
		// What is stored carries no resourceVersion: compare with one read back without.
		again, err := codec.Decode(k.Podo, out, 0)
		if err != nil {
			t.Errorf("%s: %v", k.Podo.Resource, err)
			continue
		}
		meta1(fromJSON).SetResourceVersion("")
		for _, d := range compareJSON("", tree(fromJSON), tree(again)) {
			t.Errorf("%s written and read again: %s: %s, now %s", k.Podo.Resource, d.Where, d.Upstream, d.Podo)
		}
	}
}
