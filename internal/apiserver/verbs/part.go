package verbs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/apiserver/owners"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// partOf is an entry's part, as an entry.
func partOf(part registry.Part, e *view.Entry) *view.Entry {
	obj := part.Of(e.Object)
	return &view.Entry{Key: e.Key, Rev: e.Rev, Object: obj, Meta: accessor(obj)}
}

// changePart writes a part (a Scale): change gets the part of the present object, with the owners of its fields, and returns the
// wanted part, in which the owners are settled. The object is then changed by its own rules. The part's resourceVersion is the
// object's.
func (v *Verbs) changePart(ctx context.Context, r request, change partChange) (runtime.Object, error) {
	k, ref := r.kind, r.ref
	part := k.Parts[ref.Subresource]
	out, err := v.guarded(ctx, r, guard{rules: k.Updates[""], owns: settled}, func(cur runtime.Object) (runtime.Object, error) {
		was := part.Of(cur)
		owns, err := v.owners.PartOf(k, ref.Subresource, cur, was)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		wanted, err := change(owns, was)
		if err != nil {
			return nil, err
		}
		obj := cur.DeepCopyObject()
		if err := checkPart(k, ref, part, wanted, cur); err != nil {
			return nil, err
		}
		entries, err := owns.Whole(wanted)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		part.Into(wanted, obj)
		accessor(obj).SetManagedFields(entries)
		return obj, nil
	})
	if err != nil {
		return nil, err
	}
	return part.Of(out), nil
}

// partChange makes the wanted part. It may change cur.
type partChange func(owns *owners.Part, cur runtime.Object) (runtime.Object, error)

func checkPart(k *registry.Kind, ref client.Ref, part registry.Part, wanted, cur runtime.Object) error {
	if errs := part.Validate(wanted); len(errs) > 0 {
		return apierrors.NewInvalid(part.Kind.GVK.GroupKind(), ref.Name, errs)
	}
	m, was := accessor(wanted), accessor(cur)
	if uid := m.GetUID(); uid != "" && uid != was.GetUID() {
		r := k.GroupResource()
		r.Resource += "/" + ref.Subresource
		return apierrors.NewConflict(r, ref.Name, otherUID(uid, was.GetUID()))
	}
	if rv := m.GetResourceVersion(); rv != "" && rv != was.GetResourceVersion() {
		return conflict(k.GroupResource(), ref.Name)
	}
	return nil
}

func (v *Verbs) updatePart(ctx context.Context, r request, part registry.Part, obj runtime.Object) (runtime.Object, error) {
	m := accessor(obj)
	if err := r.placeIn(m); err != nil {
		return nil, err
	}
	if err := sameName(r.ref, m.GetName(), m.GetNamespace()); err != nil {
		return nil, err
	}
	return v.changePart(ctx, r, func(owns *owners.Part, cur runtime.Object) (runtime.Object, error) {
		if err := sameUID(r.kind, r.ref, m.GetUID(), accessor(cur).GetUID()); err != nil {
			return nil, err
		}
		if _, err := revisionOf(m.GetResourceVersion()); err != nil {
			return nil, err
		}
		obj := obj.DeepCopyObject()
		owns.Updated(cur, obj, r.Manager)
		return obj, nil
	})
}

func (v *Verbs) patchPart(ctx context.Context, r request, part registry.Part, p Patch) (runtime.Object, error) {
	if p.Type == types.ApplyYAMLPatchType {
		return v.applyPart(ctx, r, p)
	}
	apply, err := p.compile()
	if err != nil {
		return nil, err
	}
	return v.changePart(ctx, r, func(owns *owners.Part, cur runtime.Object) (runtime.Object, error) {
		obj, err := p.evaluate(apply, part.Kind, cur, &r.Options)
		if err == nil {
			owns.Updated(cur, obj, r.Manager)
		}
		return obj, err
	})
}

func (v *Verbs) applyPart(ctx context.Context, r request, p Patch) (runtime.Object, error) {
	if err := p.isYAML(); err != nil {
		return nil, err
	}
	return v.changePart(ctx, r, func(owns *owners.Part, cur runtime.Object) (runtime.Object, error) {
		obj, err := p.merge(&r.Options, func(config map[string]any) (runtime.Object, error) {
			return owns.Applied(cur, config, r.Manager, p.Force)
		})
		if err != nil {
			return nil, err
		}
		return obj, samePlace(r.kind, accessor(obj), r.ref.Namespace, r.ref.Name)
	})
}
