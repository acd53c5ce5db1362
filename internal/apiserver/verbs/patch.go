package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/check"
)

// maxPatchOperations bounds the operations of a JSON patch; maxPatchCopies, the bytes that all its "copy" operations may produce.
const (
	maxPatchOperations = 10000
	maxPatchCopies     = 3 << 20
)

func init() { jsonpatch.AccumulatedCopySizeLimit = maxPatchCopies } // the library keeps this in a variable

// Patch is a change described by the client.
type Patch struct {
	Type types.PatchType
	Data []byte
	// Validation says what happens to unknown and duplicate fields: metav1.FieldValidationIgnore, Warn (also "") or Strict.
	Validation string
	// Force lets an apply take fields that others own.
	Force bool
}

// Patch applies p to the object and writes the result. It is evaluated again when someone else wrote in between, unless the patch
// names a resourceVersion. created says that the name was free, and apply created the object.
func (v *Verbs) Patch(ctx context.Context, u user.Info, ref client.Ref, p Patch, o Options) (out runtime.Object, created bool, err error) {
	r, err := v.request(ctx, u, "patch", ref, o)
	if err != nil {
		return nil, false, err
	}
	k := r.kind
	if part, ok := k.Parts[ref.Subresource]; ok {
		out, err = v.patchPart(ctx, r, part, p)
		return out, false, err
	}
	rules, ok := k.Updates[ref.Subresource]
	if !ok {
		return nil, false, apierrors.NewMethodNotSupported(ref.Resource, "patch")
	}
	if p.Type == types.ApplyYAMLPatchType {
		return v.apply(ctx, r, rules, p)
	}
	apply, err := p.compile()
	if err != nil {
		return nil, false, err
	}
	out, err = v.guarded(ctx, r, guard{rules: rules}, func(cur runtime.Object) (runtime.Object, error) {
		obj, err := p.evaluate(apply, k, cur, &r.Options)
		if err != nil {
			return nil, err
		}
		want, err := revisionOf(accessor(obj).GetResourceVersion())
		if err != nil {
			return nil, err
		}
		if want == 0 && !rules.AllowUnconditional {
			return nil, noRevision(k, ref.Name)
		}
		if want != 0 && formatRev(want) != accessor(cur).GetResourceVersion() {
			return nil, conflict(k.GroupResource(), ref.Name)
		}
		return obj, nil
	})
	return out, false, err
}

// Apply is the patch as a function: what cur, of the kind k, becomes before any rule sees it, with the findings of strict
// decoding. cur is only read.
func (p Patch) Apply(k *registry.Kind, cur runtime.Object) (obj runtime.Object, warnings []string, err error) {
	apply, err := p.compile()
	if err != nil {
		return nil, nil, err
	}
	obj, err = p.evaluate(apply, k, cur, &Options{Warn: func(text string) { warnings = append(warnings, text) }})
	return obj, warnings, err
}

// evaluate applies the patch, compiled to apply.
func (p *Patch) evaluate(apply applied, k *registry.Kind, cur runtime.Object, o *Options) (runtime.Object, error) {
	if tame := check.Tame(p.Data); tame != nil {
		first := Patch{Type: p.Type, Data: tame, Validation: metav1.FieldValidationIgnore}
		if apply, err := first.compile(); err != nil {
			return nil, err
		} else if _, err := apply(k, k.Out(cur)); err != nil {
			return nil, err
		}
	}
	r, err := apply(k, k.Out(cur))
	if err != nil {
		return nil, err
	}
	if err := p.judge(r, o); err != nil {
		return nil, err
	}
	was := accessor(cur)
	return k.In(r.obj), samePlace(k, accessor(r.obj), was.GetNamespace(), was.GetName())
}

// samePlace refuses a patch that moves the object. A namespace that it removes is put back; a name is not.
func samePlace(k *registry.Kind, m metav1.Object, namespace, name string) error {
	if !k.Namespaced || m.GetNamespace() == "" {
		m.SetNamespace(namespace)
	}
	switch {
	case m.GetNamespace() != namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case m.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	case m.GetName() != name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), name))
	}
	return nil
}

// applied is a patch that has been parsed.
type applied func(k *registry.Kind, cur runtime.Object) (patched, error)

// patched is a patch's result.
type patched struct {
	obj    runtime.Object
	strict []error // findings of strict decoding
	shown  string  // what an error shows: the patched document, or a strategic patch as far as the merge has consumed it
}

func (p *Patch) strict() bool { return p.Validation != metav1.FieldValidationIgnore }

// judge passes strict findings on as warnings, or fails on them.
func (p *Patch) judge(r patched, o *Options) error {
	if len(r.strict) == 0 {
		return nil
	}
	if p.Validation == metav1.FieldValidationStrict {
		return invalidPatch(r.shown, runtime.NewStrictDecodingError(r.strict))
	}
	for _, e := range r.strict {
		o.warn([]string{e.Error()})
	}
	return nil
}

func invalidPatch(data string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), data, err.Error())})
}

// compile checks that there is a patch. It is parsed at its first use, since whether there is an object to change is asked before.
func (p *Patch) compile() (applied, error) {
	if !json.Valid(p.Data) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	switch p.Type {
	case types.JSONPatchType:
		return once(p.compileJSON), nil
	case types.MergePatchType:
		return once(p.compileMerge), nil
	case types.StrategicMergePatchType:
		return once(p.compileStrategic), nil
	}
	e := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "",
		fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s, %s, %s",
			types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType), 0, true)
	e.ErrStatus.Reason = metav1.StatusReasonUnsupportedMediaType
	e.ErrStatus.Message = fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s, %s",
		types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType)
	return nil, e
}

func once(parse func() (applied, error)) applied {
	parse = sync.OnceValues(parse)
	return func(k *registry.Kind, cur runtime.Object) (patched, error) {
		apply, err := parse()
		if err != nil {
			return patched{}, err
		}
		return apply(k, cur)
	}
}

// jsonPatchOp has the fields of an operation.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *Patch) compileJSON() (applied, error) {
	var strict []error
	if p.strict() {
		var err error
		if strict, err = kjson.UnmarshalStrict(p.Data, &[]jsonPatchOp{}); err != nil {
			text := strings.ReplaceAll(err.Error(), "verbs.jsonPatchOp", "handlers.jsonPatchOp") // as it is called upstream
			return nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for i, e := range strict {
			strict[i] = fmt.Errorf("json patch %v", e)
		}
	}
	patch, err := jsonpatch.DecodePatch(p.Data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(patch) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(patch)))
	}
	return p.overJSON(strict, func(doc []byte) ([]byte, error) {
		out, err := applyJSON(patch, doc)
		if err != nil {
			return nil, unprocessable(err)
		}
		return out, nil
	}), nil
}

// applyJSON calls the library, which panics when the whole document is replaced by no value.
func applyJSON(patch jsonpatch.Patch, doc []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the patch cannot be applied: %v", p)
		}
	}()
	return patch.Apply(doc)
}

func (p *Patch) compileMerge() (applied, error) {
	var strict []error
	if p.strict() {
		var err error
		if strict, err = kjson.UnmarshalStrict(p.Data, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	return p.overJSON(strict, func(doc []byte) ([]byte, error) {
		out, err := jsonpatch.MergePatch(doc, p.Data)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return out, err
	}), nil
}

// overJSON patches the object's JSON text and reads the result back.
func (p *Patch) overJSON(patchStrict []error, patch func([]byte) ([]byte, error)) applied {
	return func(k *registry.Kind, cur runtime.Object) (patched, error) {
		doc, err := json.Marshal(cur)
		if err != nil {
			return patched{}, apierrors.NewInternalError(err)
		}
		if doc, err = patch(doc); err != nil {
			return patched{}, err
		}
		r := patched{obj: k.NewServed(), shown: string(doc)}
		strict, err := kjson.UnmarshalStrict(doc, r.obj)
		if err == nil {
			err = r.sameType(k)
		}
		if err != nil {
			return r, invalidPatch(r.shown, err)
		}
		if p.strict() {
			r.strict = append(patchStrict[:len(patchStrict):len(patchStrict)], strict...)
		}
		return r, nil
	}
}

func (p *Patch) compileStrategic() (applied, error) {
	var strict []error
	parse := func() (map[string]any, error) {
		m := map[string]any{}
		if !p.strict() {
			return m, kjson.UnmarshalCaseSensitivePreserveInts(p.Data, &m)
		}
		var err error
		strict, err = kjson.UnmarshalStrict(p.Data, &m)
		return m, err
	}
	if _, err := parse(); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(k *registry.Kind, cur runtime.Object) (patched, error) {
		original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cur)
		if err != nil {
			return patched{}, apierrors.NewInternalError(err)
		}
		patch, err := parse() // the merge edits it
		if err != nil {
			return patched{}, apierrors.NewBadRequest(err.Error())
		}
		merged, err := mergeStrategic(original, patch, k.NewServed())
		if err != nil {
			return patched{}, strategicError(err)
		}
		r := patched{obj: k.NewServed(), shown: fmt.Sprintf("%+v", patch), strict: strict}
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, r.obj, p.strict())
		if s, ok := runtime.AsStrictDecodingError(err); ok {
			r.strict = append(strict[:len(strict):len(strict)], s.Errors()...)
		} else if err != nil {
			return r, invalidPatch(r.shown, err)
		}
		r.obj.GetObjectKind().SetGroupVersionKind(k.GVK) // whatever kind the patch names
		return r, nil
	}, nil
}

// mergeStrategic calls the library's merge, which panics on some patches: when a list's key is neither text nor number.
func mergeStrategic(original, patch map[string]any, of runtime.Object) (merged map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = apierrors.NewBadRequest(fmt.Sprintf("the patch cannot be merged: %v", p))
		}
	}()
	return strategicpatch.StrategicMergeMapPatch(original, patch, of)
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return unprocessable(err)
	}
	return err // as upstream, an internal error with its own text
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// sameType refuses a document that has become another kind. Without a kind it keeps its kind; without an apiVersion it has none
// of the version's fields.
func (r *patched) sameType(k *registry.Kind) error {
	gvk := r.obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		gvk.Kind = k.GVK.Kind
	}
	switch {
	case gvk == k.GVK:
	case gvk == schema.GroupVersionKind{Kind: k.GVK.Kind}:
		r.obj = k.NewServed()
	default:
		if err := Other(gvk, k.GVK, []byte(r.shown)); err != nil {
			return err
		}
		return notRegistered(gvk) // the version is not served; upstream would decode it
	}
	r.obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	return nil
}
