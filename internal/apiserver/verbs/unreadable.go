package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// unsafely is the verb that permits deleting an unreadable object.
const unsafely = "unsafe-delete-ignore-read-errors"

var unreadField = field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")

// maxUnread bounds how many unreadable objects a list names.
const maxUnread = 100

// unread refuses a page of the view's objects when some in its range cannot be read: leaving them out would mean that they are
// gone.
func (v *Verbs) unread(p *page, l *List) error {
	prefix := p.kind.Prefix()
	one := p.name != "" && (p.namespace != "" || !p.kind.Namespaced)
	switch {
	case one:
		prefix = p.kind.Key(p.namespace, p.name)
	case p.namespace != "":
		prefix += p.namespace + "/"
	}
	all := v.c.View.UndecodableUnder(prefix)
	if len(all) == 0 {
		return nil
	}
	after, last := "", ""
	if p.after != (view.Key{}) {
		after = p.kind.Key(p.after.Namespace, p.after.Name)
	}
	if l.Continue != "" {
		k := l.Items[len(l.Items)-1].Key
		last = p.kind.Key(k.Namespace, k.Name)
	}
	all = slices.DeleteFunc(all, func(u view.Undecodable) bool {
		return one && u.Key != prefix || u.Key <= after || last != "" && u.Key > last || p.exact > 0 && u.Rev > p.exact
	})
	return unreadable(p.kind, all[:min(len(all), maxUnread)])
}

// corrupt is the error of upstream's store for a value that cannot be read.
func corrupt(key string, rev int64, err error) error {
	return fmt.Errorf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=%d: %w", key, rev, err)
}

// unreadable names the objects that cannot be read; nil when there are none.
func unreadable(k *registry.Kind, all []view.Undecodable) error {
	if len(all) == 0 {
		return nil
	}
	r := k.GroupResource()
	st := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Details: &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, Name: "list"},
	}
	for _, u := range all {
		st.Details.Causes = append(st.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeUnexpectedServerResponse, Field: u.Key,
			Message: corrupt(u.Key, u.Rev, u.Err).Error(),
		})
	}
	st.Message = fmt.Sprintf("failed to read one or more %s from the storage: %s", r, st.Details.Causes[0].Message)
	if len(all) > 1 {
		st.Message += fmt.Sprintf(" (and %d more)", len(all)-1)
	}
	if len(all) == maxUnread {
		st.Details.Causes = append(st.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: "too many errors, the list is truncated"})
	}
	return &apierrors.StatusError{ErrStatus: st}
}

// toUnread tells whether a deletion is meant for an unreadable object.
func toUnread(d *metav1.DeleteOptions) bool {
	return d.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *d.IgnoreStoreReadErrorWithClusterBreakingPotential
}

// deleteUnreadable deletes an object that cannot be read. Its finalizers and dependents are unknown, so this needs a right of its
// own. Readable objects are not deleted this way.
func (v *Verbs) deleteUnreadable(ctx context.Context, r request) error {
	k, ref := r.kind, r.ref
	audit.AddAuditAnnotation(ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	ask := &authz.Attributes{User: r.user, Verb: unsafely, Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name}
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
		if r.DryRun {
			return nil
		}
		res, err := v.store.Txn(ctx, []store.Cond{{Key: key, Revision: kv.ModRevision}}, []store.Op{{Key: key, Delete: true}})
		if err != nil || res.OK {
			return storeError(err)
		}
	}
	return conflict(k.GroupResource(), ref.Name)
}
