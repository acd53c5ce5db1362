package admit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
)

// NamespaceLifecycle lets objects be created only in namespaces that exist and are not being deleted, and keeps the
// namespaces that a cluster cannot be without. The write then commits only if the namespace is as it was read here, so nothing
// appears in a namespace after its deletion began.
type NamespaceLifecycle struct {
	// Get reads a namespace with its key and revision in the store; nil only when there certainly is none.
	Get func(ctx context.Context, name string) (ns *v1.Namespace, key string, revision int64, err error)
}

var immortal = map[string]bool{metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true}

// Mutate refuses early, as upstream does: before the object is defaulted and validated.
func (p *NamespaceLifecycle) Mutate(ctx context.Context, a *Attributes) error {
	isNamespace := a.Ref.Resource == client.Namespaces.At("", "").Resource
	if isNamespace {
		if a.Op == Delete && a.Ref.Subresource == "" && immortal[a.Ref.Name] {
			return apierrors.NewForbidden(a.Ref.Resource, a.Ref.Name, fmt.Errorf("this namespace may not be deleted"))
		}
		return nil
	}
	if a.Op != Create || a.Ref.Namespace == "" {
		return nil
	}
	ns, key, revision, err := p.Get(ctx, a.Ref.Namespace)
	if err != nil {
		return err
	}
	if ns == nil {
		return apierrors.NewNotFound(client.Namespaces.At("", "").Resource, a.Ref.Namespace)
	}
	if ns.Status.Phase == v1.NamespaceTerminating || ns.DeletionTimestamp != nil {
		e := forbidden(a, fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", ns.Name)).(*apierrors.StatusError)
		e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    v1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", ns.Name),
			Field:   "metadata.namespace",
		})
		return e
	}
	a.Require(key, revision)
	return nil
}
