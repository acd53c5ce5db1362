// Package codec turns API objects into the bytes that the store keeps and back, as upstream's API server lays them down in
// etcd: built-in kinds as protobuf in an envelope that names their type ("k8s\x00" and a runtime.Unknown message),
// others as JSON. JSON is accepted for all kinds when read, and so are the versions in which older clusters stored them. resourceVersion is
// never stored: it is the key's revision.
//
// Values that are encrypted at rest ("k8s:enc:...") are refused by name.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"podo.dev/podo/internal/registry"
)

// magic begins every protobuf value.
var magic = []byte("k8s\x00")

// Encode makes the stored value of an object, whose TypeMeta must be set. It reads obj only. An object that still carries a
// resourceVersion is copied first, to leave that out: clear it to save the copy.
func Encode(obj runtime.Object) ([]byte, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		return nil, fmt.Errorf("encode %T %s/%s: its apiVersion and kind are not set", obj, m.GetNamespace(), m.GetName())
	}
	if m.GetResourceVersion() != "" {
		obj = obj.DeepCopyObject()
		if m, err = meta.Accessor(obj); err != nil {
			return nil, err
		}
		m.SetResourceVersion("")
	}
	if msg, ok := obj.(message); ok {
		b, err := encodeProto(obj.GetObjectKind().GroupVersionKind(), msg)
		if err != nil {
			return nil, fmt.Errorf("encode %T %s/%s: %w", obj, m.GetNamespace(), m.GetName(), err)
		}
		return b, nil
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(obj); err != nil {
		return nil, fmt.Errorf("encode %T %s/%s: %w", obj, m.GetNamespace(), m.GetName(), err)
	}
	return b.Bytes(), nil
}

// message is an object with a protobuf form.
type message interface {
	runtime.ProtobufMarshaller
	Size() int
}

// encodeProto writes the message into the envelope at once: upstream's serializer makes a copy of it for its writer.
func encodeProto(gvk schema.GroupVersionKind, m message) ([]byte, error) {
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}}
	size := m.Size()
	b := make([]byte, len(magic)+envelope.Size()+1+protowire.SizeBytes(size))
	n, err := envelope.NestedMarshalTo(b[copy(b, magic):], m, uint64(size))
	return b[:len(magic)+n], err
}

// Decode makes an object of the kind from a stored value, with TypeMeta set, in objects within it too, and resourceVersion rev (none
// when rev is 0). It keeps no reference to value.
func Decode(k *registry.Kind, value []byte, rev int64) (runtime.Object, error) {
	return DecodeIn(k, value, rev, k.New)
}

// DecodeIn decodes into the object that empty makes (kind.New's, or like it), unless the value has an older version's form.
func DecodeIn(k *registry.Kind, value []byte, rev int64, empty func() runtime.Object) (runtime.Object, error) {
	var obj runtime.Object
	var err error
	switch {
	case bytes.HasPrefix(value, magic):
		obj, err = decodeProto(k, value[len(magic):], empty)
	case len(value) > 0 && value[0] == '{':
		obj, err = decodeJSON(k, value, empty)
	case bytes.HasPrefix(value, []byte("k8s:enc:")):
		err = errors.New("the value is encrypted at rest, which is not supported: rewrite it unencrypted with the API server that wrote it")
	default:
		err = fmt.Errorf("the value (%d bytes) is neither protobuf with the k8s envelope nor JSON", len(value))
	}
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	if k.Types != nil {
		k.Types(obj)
	}
	m.SetResourceVersion("")
	if rev > 0 {
		m.SetResourceVersion(strconv.FormatInt(rev, 10))
	}
	return obj, nil
}

func decodeProto(k *registry.Kind, unknown []byte, empty func() runtime.Object) (runtime.Object, error) {
	apiVersion, kind, raw, err := envelope(unknown)
	if err != nil {
		return nil, fmt.Errorf("k8s envelope: %w", err)
	}
	older, err := form(k, apiVersion, kind)
	if err != nil {
		return nil, err
	}
	obj := blank(older, empty)
	u, ok := obj.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil, fmt.Errorf("%s has no protobuf form", k.GVK)
	}
	if err := u.Unmarshal(raw); err != nil {
		return nil, err
	}
	return today(older, obj), nil
}

func decodeJSON(k *registry.Kind, value []byte, empty func() runtime.Object) (runtime.Object, error) {
	var typ metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &typ); err != nil {
		return nil, err
	}
	older, err := form(k, typ.APIVersion, typ.Kind)
	if err != nil {
		return nil, err
	}
	obj := blank(older, empty)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, obj); err != nil {
		return nil, err
	}
	return today(older, obj), nil
}

// form refuses a value of another type than the kind's. A value of an older version may have a form of its own.
func form(k *registry.Kind, apiVersion, kind string) (registry.Older, error) {
	older, ok := k.StoredAs(apiVersion, kind)
	if !ok {
		return older, fmt.Errorf("the value is a %s %s, not a %s %s", apiVersion, kind, k.StoredGVK().GroupVersion(), k.GVK.Kind)
	}
	return older, nil
}

func blank(older registry.Older, empty func() runtime.Object) runtime.Object {
	if older.New != nil {
		return older.New()
	}
	return empty()
}

func today(older registry.Older, obj runtime.Object) runtime.Object {
	if older.In != nil {
		return older.In(obj)
	}
	return obj
}

// envelope reads a runtime.Unknown message without copying what is in it: 1 TypeMeta (1 apiVersion, 2 kind), 2 raw.
func envelope(b []byte) (apiVersion, kind string, raw []byte, err error) {
	var typeMeta []byte
	if err = fields(b, map[protowire.Number]*[]byte{1: &typeMeta, 2: &raw}); err != nil {
		return "", "", nil, err
	}
	var av, kd []byte
	if err = fields(typeMeta, map[protowire.Number]*[]byte{1: &av, 2: &kd}); err != nil {
		return "", "", nil, err
	}
	return string(av), string(kd), raw, nil
}

// fields puts the length-delimited fields of a message where `into` says, and skips others.
func fields(b []byte, into map[protowire.Number]*[]byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if dst := into[num]; dst != nil && typ == protowire.BytesType {
			if *dst, n = protowire.ConsumeBytes(b); n < 0 {
				return protowire.ParseError(n)
			}
		} else if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}
