package verbs

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
)

// Mutate lets change edit a private copy of the object and writes the result, deciding again when someone else wrote in
// between. change returning false writes nothing. It counts as an update to authorization.
func (v *Verbs) Mutate(ctx context.Context, u user.Info, ref client.Ref, change func(runtime.Object) (bool, error), o Options) (runtime.Object, error) {
	r, err := v.request(ctx, u, "update", ref, o)
	if err != nil {
		return nil, err
	}
	rules, err := endpoint(r.kind, ref)
	if err != nil {
		return nil, err
	}
	return v.guarded(ctx, r, guard{rules: rules}, func(cur runtime.Object) (runtime.Object, error) {
		obj := cur.DeepCopyObject()
		changed, err := change(obj)
		if err != nil || !changed {
			return nil, err
		}
		return obj, nil
	})
}
