package verbs

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
)

// unsafely is the verb of who may delete what cannot be read.
const unsafely = "unsafe-delete-ignore-read-errors"

var unreadField = field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")

// unread says that a deletion is meant for an object that cannot be read.
func unread(d *metav1.DeleteOptions) bool {
	return d.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *d.IgnoreStoreReadErrorWithClusterBreakingPotential
}

// deleteUnreadable takes an object out of the store that cannot be read: nobody knows its finalizers or who depends on it, so that this
// needs a right of its own. What can be read is not deleted so.
func (v *Verbs) deleteUnreadable(ctx context.Context, u user.Info, k *registry.Kind, ref client.Ref, o Options) error {
	audit.AddAuditAnnotation(ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	ask := &authz.Attributes{User: u, Verb: unsafely, Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name}
	if ref.Resource == namespaces {
		ask.Namespace = ref.Name
	}
	if ok, reason := v.c.Authorizer.Authorize(ctx, ask); !ok {
		return apierrors.NewForbidden(ref.Resource, ref.Name, fmt.Errorf("not permitted to do %q, reason: %s", unsafely, reason))
	}
	key := k.Key(ref.Namespace, ref.Name)
	for range writeTries {
		kv, err := v.store.Get(ctx, key)
		switch {
		case isNotFound(err):
			return apierrors.NewNotFound(k.GroupResource(), ref.Name)
		case err != nil:
			return storeError(err)
		}
		if _, err := decode(k, kv); err == nil {
			return unmet(k, ref, errors.New("unsafe deletion is not allowed because the object is decodable from storage"))
		}
		if o.DryRun {
			return nil
		}
		res, err := v.store.Txn(ctx, []store.Cond{{Key: key, Revision: kv.ModRevision}}, []store.Op{{Key: key, Delete: true}})
		if err != nil || res.OK {
			return storeError(err)
		}
	}
	return conflict(k.GroupResource(), ref.Name)
}
