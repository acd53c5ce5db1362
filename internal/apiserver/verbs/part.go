package verbs

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// partOf is an entry's part, as an entry.
func partOf(part registry.Part, e *view.Entry) *view.Entry {
	obj := part.Of(e.Object)
	return &view.Entry{Key: e.Key, Rev: e.Rev, Object: obj, Meta: accessor(obj)}
}

// changePart writes a part (a Scale): change gets the part of the object as it is and returns the wanted one. The object is then
// changed by its own rules. A resourceVersion in the part is the object's.
func (v *Verbs) changePart(ctx context.Context, u user.Info, k *registry.Kind, ref client.Ref, part registry.Part, o Options, change func(cur runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	out, err := v.guarded(ctx, u, k, ref, guard{rules: k.Updates[""], Options: o}, func(cur runtime.Object) (runtime.Object, error) {
		wanted, err := change(part.Of(cur))
		if err != nil {
			return nil, err
		}
		if errs := part.Validate(wanted); len(errs) > 0 {
			return nil, apierrors.NewInvalid(part.Kind.GVK.GroupKind(), ref.Name, errs)
		}
		m, was := accessor(wanted), accessor(cur)
		if uid := m.GetUID(); uid != "" && uid != was.GetUID() {
			r := k.GroupResource()
			r.Resource += "/" + ref.Subresource
			return nil, apierrors.NewConflict(r, ref.Name, otherUID(uid, was.GetUID()))
		}
		if rv := m.GetResourceVersion(); rv != "" && rv != was.GetResourceVersion() {
			return nil, conflict(k.GroupResource(), ref.Name)
		}
		obj := cur.DeepCopyObject()
		part.Into(wanted, obj)
		return obj, nil
	})
	if err != nil {
		return nil, err
	}
	return part.Of(out), nil
}

func (v *Verbs) updatePart(ctx context.Context, u user.Info, k *registry.Kind, ref client.Ref, part registry.Part, obj runtime.Object, o Options) (runtime.Object, error) {
	m := accessor(obj)
	if err := placeIn(k, &ref, m); err != nil {
		return nil, err
	}
	if err := sameName(ref, m.GetName(), m.GetNamespace()); err != nil {
		return nil, err
	}
	if rv := m.GetResourceVersion(); rv != "" {
		if _, err := strconv.ParseUint(rv, 10, 63); err != nil {
			_, err := revisionOf(part.Kind, rv)
			return nil, err
		}
	}
	return v.changePart(ctx, u, k, ref, part, o, func(runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil })
}

func (v *Verbs) patchPart(ctx context.Context, u user.Info, k *registry.Kind, ref client.Ref, part registry.Part, p Patch, o Options) (runtime.Object, error) {
	if p.Type == types.ApplyYAMLPatchType {
		p.Type = types.MergePatchType // nobody owns anything of a part but what the object says
	}
	apply, err := p.compile()
	if err != nil {
		return nil, err
	}
	return v.changePart(ctx, u, k, ref, part, o, func(cur runtime.Object) (runtime.Object, error) {
		return p.evaluate(apply, part.Kind, cur, &o)
	})
}
