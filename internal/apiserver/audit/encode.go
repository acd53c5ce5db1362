package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// plain writes objects as the JSON of their Go types. Unlike the scheme's encoders it never touches the object, which others may be
// reading.
type plain struct{}

var (
	_ runtime.NegotiatedSerializer = plain{}
	_ runtime.Serializer           = plain{}
)

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (p plain) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON, EncodesAsText: true, Serializer: p}}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (p plain) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder { return p }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (p plain) DecoderToVersion(runtime.Decoder, runtime.GroupVersioner) runtime.Decoder { return p }

// Identifier implements runtime.Encoder.
func (plain) Identifier() runtime.Identifier { return "audit" }

// Encode implements runtime.Encoder.
func (plain) Encode(obj runtime.Object, w io.Writer) error {
	raw, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// Decode implements runtime.Decoder. Nobody reads here.
func (plain) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, errors.New("the audit log is not read")
}

// withoutManagedFields takes the managed fields out of an object, a list's objects and a table's. What cannot be read stays as it is.
func withoutManagedFields(raw []byte) []byte {
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return raw
	}
	strip := func(obj any) {
		o, _ := obj.(map[string]any)
		if m, ok := o["metadata"].(map[string]any); ok {
			delete(m, "managedFields")
		}
	}
	strip(tree)
	items, _ := tree["items"].([]any)
	for _, item := range items {
		strip(item)
	}
	rows, _ := tree["rows"].([]any)
	for _, row := range rows {
		if r, ok := row.(map[string]any); ok {
			strip(r["object"])
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return raw
	}
	return out
}
