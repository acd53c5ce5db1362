package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry/check"
)

// maxBody bounds a request's body, as upstream does.
const maxBody = 3 << 20

// readBody reads a bounded body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, apierrors.NewBadRequest("the request's body ended early")
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the request's body: %v", err))
	}
	return buf.Bytes(), nil
}

// bodyMedia is the media type of the request's body.
func bodyMedia(r *http.Request) (string, error) {
	h := r.Header.Get("Content-Type")
	if h == "" {
		return jsonType, nil
	}
	media, _, err := mime.ParseMediaType(h)
	if err == nil {
		switch media {
		case jsonType, yamlType, protoType:
			return media, nil
		}
	}
	return "", unsupportedMedia(jsonType, yamlType, protoType)
}

// decodeInto reads obj, which must be of the wanted kind, from data. accepts are other group versions that the data may name.
// strict are the errors that lenient decoding overlooks: unknown and duplicate fields.
func decodeInto(media string, data []byte, want schema.GroupVersionKind, obj runtime.Object, accepts ...schema.GroupVersion) (strict []error, err error) {
	var got schema.GroupVersionKind
	if media == protoType {
		var raw []byte
		if got, raw, err = openEnvelope(data); err != nil {
			return nil, unrecognized(want, err, data)
		}
		if err := expect(got, want, accepts, nil); err != nil {
			return nil, err
		}
		m, ok := obj.(interface{ Unmarshal([]byte) error })
		if !ok {
			return nil, unsupportedMedia(jsonType, yamlType)
		}
		if tame := check.Tame(raw); tame != nil {
			if err := fresh(obj).(interface{ Unmarshal([]byte) error }).Unmarshal(tame); err != nil {
				return nil, cannotHandle(got, want, err)
			}
		}
		if err := m.Unmarshal(raw); err != nil {
			return nil, cannotHandle(got, want, err)
		}
		obj.GetObjectKind().SetGroupVersionKind(want)
		return nil, nil
	}
	if media == yamlType {
		if strict, data, err = fromYAML(data); err != nil {
			return nil, unrecognized(want, err, data)
		}
	}
	if got, err = typeOf(data, want); err != nil {
		return nil, unrecognized(want, err, data)
	}
	tame := check.Tame(data)
	first := data // the beginning of the data, before it is known to be safe to decode
	if tame != nil {
		first = tame
	}
	if err := expect(got, want, accepts, first); err != nil {
		return nil, err
	}
	if tame != nil {
		if _, err := kjson.UnmarshalStrict(tame, fresh(obj)); err != nil {
			return nil, cannotHandle(got, want, err)
		}
	}
	found, err := kjson.UnmarshalStrict(data, obj)
	if err != nil {
		return nil, cannotHandle(got, want, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return append(strict, found...), nil
}

// decodeOptions reads the options of a deletion, of any group and version. Only the library decodes them, so that its errors
// about other data are upstream's.
func decodeOptions(media string, data []byte, o *metav1.DeleteOptions) error {
	info, ok := runtime.SerializerInfoForMediaType(internalscheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		return unsupportedMedia(jsonType, yamlType, protoType)
	}
	gvk := metaGV.WithKind("DeleteOptions")
	_, got, err := internalscheme.Codecs.DecoderToVersion(info.Serializer, metaGV).Decode(data, &gvk, o)
	if err != nil {
		if runtime.IsNotRegisteredError(err) { // the library's error names its scheme by its own source's path
			err = fmt.Errorf("no kind %q is registered for version %q in scheme %q", got.Kind, got.GroupVersion(), "pkg/apis/meta/internalversion/scheme/register.go:27")
		}
		return apierrors.NewBadRequest(err.Error())
	}
	o.SetGroupVersionKind(gvk)
	return nil
}

// fresh is a new object of obj's type.
func fresh(obj runtime.Object) any { return reflect.New(reflect.TypeOf(obj).Elem()).Interface() }

// fromYAML converts YAML to JSON; strict are its duplicate keys.
func fromYAML(data []byte) (strict []error, out []byte, err error) {
	if out, err = yaml.YAMLToJSON(data); err != nil {
		return nil, data, err
	}
	if err := yaml.UnmarshalStrict(data, &map[string]any{}); err != nil {
		strict = append(strict, errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")))
	}
	return strict, out, nil
}

func typeOf(data []byte, want schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	var t struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return want, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return want, err
	}
	got := gv.WithKind(t.Kind)
	if t.APIVersion == "" {
		got.Group, got.Version = want.Group, want.Version
	}
	if t.Kind == "" {
		got.Kind = want.Kind
	}
	return got, nil
}

// expect refuses data of another kind or version than the URL names; data is its JSON, if it is JSON.
func expect(got, want schema.GroupVersionKind, accepts []schema.GroupVersion, data []byte) error {
	if got == want {
		return nil
	}
	for _, gv := range accepts {
		if got.Kind == want.Kind && got.GroupVersion() == gv {
			return nil
		}
	}
	if err := verbs.Other(got, want, data); err != nil {
		return cannotHandle(got, want, err)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion()))
}

func cannotHandle(got, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want.Kind, err))
}

func unrecognized(want schema.GroupVersionKind, err error, data []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(data)))
}

// summary shows the first bytes of a body that cannot be decoded.
func summary(data []byte) string {
	const limit = 30
	var more string
	if len(data) > limit {
		data, more = data[:limit], " ..."
	}
	switch {
	case len(data) == 0:
		return "<empty>"
	case data[0] == '{':
		return string(data) + more
	}
	return hex.EncodeToString(data) + more
}

func openEnvelope(data []byte) (schema.GroupVersionKind, []byte, error) {
	rest, ok := bytes.CutPrefix(data, protoMagic)
	if !ok {
		return schema.GroupVersionKind{}, nil, errors.New("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
	}
	var u runtime.Unknown
	if err := u.Unmarshal(rest); err != nil {
		return schema.GroupVersionKind{}, nil, err
	}
	return u.GroupVersionKind(), u.Raw, nil
}

// judge applies the fieldValidation directive to what strict decoding found.
func judge(strict []error, directive string, got schema.GroupVersionKind, warn func(string)) error {
	if len(strict) == 0 || directive == metav1.FieldValidationIgnore {
		return nil
	}
	if directive == metav1.FieldValidationStrict {
		return cannotHandle(got, got, runtime.NewStrictDecodingError(strict))
	}
	for _, e := range strict {
		for _, text := range verbs.Findings(e.Error()) {
			warn(text)
		}
	}
	return nil
}
