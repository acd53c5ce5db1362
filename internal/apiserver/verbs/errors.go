package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// errModified is the error of a writer whose object is no longer the stored one.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// errNoSpace is the error of a writer while the store is full. Upstream gives it no reason either.
var errNoSpace = errors.New("etcdserver: mvcc: database space exceeded")

// errTooLarge is the error of a writer whose object does not fit into one transaction of the store.
var errTooLarge = errors.New("etcdserver: request is too large")

func isTooLarge(err error) bool { return errors.Is(err, errTooLarge) }

// Findings splits a strict decoder's text into single findings: YAML's come together, on lines.
func Findings(text string) []string {
	for _, head := range []string{"yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"} {
		if rest, ok := strings.CutPrefix(text, head); ok {
			lines := strings.Split(rest, "\n")
			for i := range lines {
				lines[i] = strings.TrimSpace(lines[i])
			}
			return lines
		}
	}
	return []string{text}
}

func conflict(r schema.GroupResource, name string) error {
	return apierrors.NewConflict(r, name, errModified)
}

// storeError turns a store's error into an API error.
func storeError(err error) error {
	var refused *apierrors.StatusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // refused by a rule that took part in the transaction
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0)
	case errors.Is(err, context.Canceled):
		return apierrors.NewTimeoutError("request was canceled: context canceled", 0)
	case errors.Is(err, store.ErrNoSpace):
		return errNoSpace
	case errors.Is(err, store.ErrTooLarge):
		return errTooLarge
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case errors.Is(err, store.ErrUnavailable):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the store does not answer: %v", err))
	}
	return apierrors.NewInternalError(err)
}

// viewError is storeError for the view's own errors too.
func viewError(err error) error {
	if errors.Is(err, view.ErrGone) {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return storeError(err)
}

// errVersioned is the error for creating an object that has a resourceVersion. Upstream gives it no reason either.
var errVersioned = errors.New("resourceVersion should not be set on objects to be created")

// sameUID refuses, before anything else, to write to another object of the same name than the one that is meant. have is empty
// when there is none.
func sameUID(k *registry.Kind, ref client.Ref, want, have types.UID) error {
	if want == "" || want == have {
		return nil
	}
	return unmet(k, ref, otherUID(want, have))
}

// What upstream's store says of an object, or a version of it, other than the one that is meant.
const (
	otherUIDText     = "Precondition failed: UID in precondition: %v, UID in object meta: %v"
	otherVersionText = "Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v"
)

func otherUID(want, have types.UID) error {
	//lint:ignore ST1005 upstream's text
	return fmt.Errorf(otherUIDText, want, have)
}

// unmet is the error for a precondition that does not hold of the stored object, in the words of upstream's store.
func unmet(k *registry.Kind, ref client.Ref, err error) error {
	err = fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %w", k.Key(ref.Namespace, ref.Name), err)
	return apierrors.NewConflict(k.GroupResource(), ref.Name, err)
}
