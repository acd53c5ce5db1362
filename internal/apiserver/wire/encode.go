package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/view"
)

// The forms in which the view caches an object's bytes.
const (
	cachedJSON  view.Form = "json"     // whole, kind and apiVersion first, no newline
	cachedProto view.Form = "protobuf" // the message alone, without the k8s envelope
	// Forms for watches of an object that has ended: its last form at the revision of its end.
	endedJSON  view.Form = "json, ended"
	endedProto view.Form = "protobuf, ended"
)

type marshaler interface{ Marshal() ([]byte, error) }

func encodeJSON(obj runtime.Object) ([]byte, error) { return json.Marshal(obj) }

func encodeProto(obj runtime.Object) ([]byte, error) {
	m, ok := obj.(marshaler)
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf form", obj)
	}
	return m.Marshal()
}

// endedBytes is objectBytes for an object whose entry has ended.
func endedBytes(media string, obj runtime.Object, e *view.Entry) ([]byte, error) {
	name, encode := endedJSON, encodeJSON
	if media == protoType {
		name, encode = endedProto, encodeProto
	}
	return e.Encoded(name, func(runtime.Object) ([]byte, error) { return encode(obj) })
}

// objectBytes is the object in the media type's bare form, cached if it is a published one.
func objectBytes(media string, obj runtime.Object, e *view.Entry) ([]byte, error) {
	name, encode := cachedJSON, encodeJSON
	if media == protoType {
		name, encode = cachedProto, encodeProto
	}
	if e != nil {
		return e.Encoded(name, encode)
	}
	return encode(obj)
}

// The k8s protobuf envelope: magic, then a runtime.Unknown with the type (1), the message (2) and two empty strings (3, 4).
var (
	protoMagic = []byte("k8s\x00")
	protoTail  = []byte{0x1a, 0, 0x22, 0}
)

func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

func appendUvarint(b []byte, n int) []byte {
	v := uint64(n)
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// fieldLen is the size of a length-delimited field with a one-byte tag.
func fieldLen(n int) int { return 1 + uvarintLen(n) + n }

func typeMetaLen(gvk schema.GroupVersionKind) int {
	return fieldLen(len(gvk.GroupVersion().String())) + fieldLen(len(gvk.Kind))
}

// appendEnvelopeHead writes everything of the envelope that comes before the message of n bytes.
func appendEnvelopeHead(b []byte, gvk schema.GroupVersionKind, n int) []byte {
	version := gvk.GroupVersion().String()
	b = append(b, protoMagic...)
	b = append(b, 0x0a)
	b = appendUvarint(b, typeMetaLen(gvk))
	b = append(b, 0x0a)
	b = appendUvarint(b, len(version))
	b = append(b, version...)
	b = append(b, 0x12)
	b = appendUvarint(b, len(gvk.Kind))
	b = append(b, gvk.Kind...)
	b = append(b, 0x12)
	return appendUvarint(b, n)
}

func envelopeLen(gvk schema.GroupVersionKind, n int) int {
	return len(protoMagic) + fieldLen(typeMetaLen(gvk)) + fieldLen(n) + len(protoTail)
}

// body is a whole answer in pieces that are written one after another, so that cached bytes are not copied.
type body struct {
	pieces [][]byte
	size   int
}

func (b *body) add(p ...[]byte) {
	for _, x := range p {
		b.pieces = append(b.pieces, x)
		b.size += len(x)
	}
}

func (b *body) bytes() []byte { return bytes.Join(b.pieces, nil) }

// objectBody encodes one object.
func objectBody(f form, gvk schema.GroupVersionKind, obj runtime.Object, e *view.Entry) (*body, error) {
	raw, err := objectBytes(f.media, obj, e)
	if err != nil {
		return nil, err
	}
	var b body
	if f.media == protoType {
		b.add(appendEnvelopeHead(nil, gvk, len(raw)), raw, protoTail)
		return &b, nil
	}
	b.add(raw)
	return b.text(f)
}

// text turns compact JSON into the requested form: with a newline, indented, or YAML.
func (b *body) text(f form) (*body, error) {
	switch {
	case f.media == yamlType:
		y, err := yaml.JSONToYAML(b.bytes())
		if err != nil {
			return nil, err
		}
		return &body{pieces: [][]byte{y}, size: len(y)}, nil
	case f.pretty:
		var out bytes.Buffer
		if err := json.Indent(&out, b.bytes(), "", "  "); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
		return &body{pieces: [][]byte{out.Bytes()}, size: out.Len()}, nil
	}
	b.add(newline)
	return b, nil
}

var (
	newline = []byte("\n")
	open    = []byte("{")
	comma   = []byte(",")
	next    = []byte(",{")
)

func listMeta(l *verbs.List) metav1.ListMeta {
	m := metav1.ListMeta{Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Rev > 0 { // computed objects have no revision
		m.ResourceVersion = strconv.FormatInt(l.Rev, 10)
	}
	return m
}

// listBody splices the cached bytes of the items into a list.
func listBody(f form, l *verbs.List) (*body, error) {
	gvk := l.Kind.GVK.GroupVersion().WithKind(l.Kind.GVK.Kind + "List")
	if f.media == protoType {
		return protoList(gvk, l)
	}
	meta, err := json.Marshal(listMeta(l))
	if err != nil {
		return nil, err
	}
	b := &body{pieces: make([][]byte, 0, 2*len(l.Items)+3)}
	b.add(fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, gvk.Kind, gvk.GroupVersion().String(), meta))
	// As upstream, items do not repeat the list's kind and apiVersion. Objects are published with both set, and they come first.
	head := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, l.Kind.GVK.Kind, l.Kind.GVK.GroupVersion().String())
	before := open
	for _, e := range l.Items {
		raw, err := objectBytes(jsonType, e.Object, e)
		if err != nil {
			return nil, err
		}
		rest, ok := bytes.CutPrefix(raw, head)
		if !ok {
			return nil, fmt.Errorf("%s %s/%s was published without its kind", l.Kind.GVK.Kind, e.Key.Namespace, e.Key.Name)
		}
		b.add(before, rest)
		before = next
	}
	b.add([]byte("]}"))
	return b.text(f)
}

// protoList is the same for protobuf: every list is its ListMeta (1) and its items (2).
func protoList(gvk schema.GroupVersionKind, l *verbs.List) (*body, error) {
	m := listMeta(l)
	meta, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	b := &body{pieces: make([][]byte, 1, 2*len(l.Items)+2)} // the first one is made last, since it contains the length of the others
	tags := make([]byte, 0, 5*len(l.Items))                 // one allocation for all the items' tags and lengths
	for _, e := range l.Items {
		raw, err := objectBytes(protoType, e.Object, e)
		if err != nil {
			return nil, err
		}
		at := len(tags)
		tags = append(tags, 0x12)
		tags = appendUvarint(tags, len(raw))
		b.add(tags[at:len(tags):len(tags)], raw)
	}
	head := appendEnvelopeHead(nil, gvk, fieldLen(len(meta))+b.size)
	head = append(head, 0x0a)
	head = appendUvarint(head, len(meta))
	b.pieces[0] = append(head, meta...)
	b.size += len(b.pieces[0])
	b.add(protoTail)
	return b, nil
}
