package verbs

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Review answers the creation of an object of an unstored kind. It fills in obj, which has been defaulted and validated; u may
// create it.
type Review func(ctx context.Context, u user.Info, obj runtime.Object) (runtime.Object, error)

// review serves the creation of a kind that is not stored. A dry run is no different, since nothing is changed.
func (v *Verbs) review(ctx context.Context, r request, obj runtime.Object) (runtime.Object, error) {
	k := r.kind
	answer := v.c.Reviews[k.GroupResource()]
	if answer == nil {
		return nil, apierrors.NewInternalError(errors.New("nobody answers " + k.Resource + " here"))
	}
	m := accessor(obj)
	if err := r.placeIn(m); err != nil {
		return nil, err
	}
	if k.Default != nil {
		k.Default(obj)
	}
	asNew(m)
	v.owners.Created(k, obj, r.Manager)
	if k.Validate != nil {
		if errs := k.Validate(obj); len(errs) > 0 {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: k.GVK.Group}, "", errs) // upstream's error has no kind either
		}
	}
	out, err := answer(ctx, r.user, obj)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(k.GVK)
	return out, nil
}
