package verbs

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/check"
)

// apply is server-side apply: the patch is what its manager wants of the object. It is merged into the present object. Fields
// that the manager applied before and no longer does are removed unless others own them too. If the name is free, the object is
// created.
func (v *Verbs) apply(ctx context.Context, r request, rules registry.Update, p Patch) (out runtime.Object, created bool, err error) {
	k, ref := r.kind, r.ref
	if err := p.isYAML(); err != nil {
		return nil, false, err
	}
	for range writeTries {
		out, err = v.guarded(ctx, r, guard{rules: rules, owns: settled}, func(cur runtime.Object) (runtime.Object, error) {
			obj, err := v.applied(r, cur, p)
			if err != nil {
				return nil, err
			}
			want, err := revisionOf(accessor(obj).GetResourceVersion())
			if err != nil {
				return nil, err
			}
			if want != 0 && formatRev(want) != accessor(cur).GetResourceVersion() {
				return nil, conflict(k.GroupResource(), ref.Name)
			}
			return obj, samePlace(k, accessor(obj), ref.Namespace, ref.Name)
		})
		if !apierrors.IsNotFound(err) || ref.Subresource != "" {
			return out, false, err
		}
		if out, err = v.applyNew(ctx, r, p); !apierrors.IsAlreadyExists(err) {
			return out, err == nil, err
		}
		// Somebody else has created it meanwhile: apply to that object.
	}
	return nil, false, conflict(k.GroupResource(), ref.Name)
}

func (p *Patch) isYAML() error {
	if _, err := yaml.ToJSON(p.Data); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	return nil
}

// applied is cur with the patch applied.
func (v *Verbs) applied(r request, cur runtime.Object, p Patch) (runtime.Object, error) {
	return p.merge(&r.Options, func(config map[string]any) (runtime.Object, error) {
		return v.owners.Applied(r.kind, r.ref.Subresource, cur, config, r.Manager, p.Force)
	})
}

// merge reads the patch, lets apply merge it, and then judges strict decoding's findings.
func (p *Patch) merge(o *Options, apply func(config map[string]any) (runtime.Object, error)) (runtime.Object, error) {
	if tame := check.Tame(p.Data); tame != nil {
		if _, err := mergeData(tame, apply); err != nil {
			return nil, err
		}
	}
	obj, err := mergeData(p.Data, apply)
	if err != nil {
		return nil, err
	}
	if p.strict() {
		if err := yaml.UnmarshalStrict(p.Data, &map[string]any{}); err != nil {
			if p.Validation == metav1.FieldValidationStrict {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
			}
			o.warn(Findings(err.Error()))
		}
	}
	return obj, nil
}

func mergeData(data []byte, apply func(config map[string]any) (runtime.Object, error)) (runtime.Object, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return apply(config)
}

// applyNew creates what the patch describes.
func (v *Verbs) applyNew(ctx context.Context, r request, p Patch) (runtime.Object, error) {
	k, ref := r.kind, r.ref
	obj, err := v.applied(r, k.New(), p)
	if err != nil {
		return nil, err
	}
	m := accessor(obj)
	if uid := m.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(k.GroupResource(), ref.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := samePlace(k, m, ref.Namespace, ref.Name); err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, r.user, "create", ref, nil); err != nil {
		return nil, err
	}
	m.SetResourceVersion("")
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	return v.createOwned(ctx, r, obj, settled)
}
