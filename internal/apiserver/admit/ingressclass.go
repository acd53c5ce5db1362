package admit

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// DefaultIngressClass gives an Ingress without a class the default one, if there is one: of several, the newest.
type DefaultIngressClass struct{ View *view.View }

var ingressClasses = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ingressclasses"}

// Name implements Named.
func (*DefaultIngressClass) Name() string { return "DefaultIngressClass" }

// Mutate implements Mutator.
func (d *DefaultIngressClass) Mutate(_ context.Context, a *Attributes) error {
	in, ok := a.Object.(*networkingv1.Ingress)
	if !ok || a.Op != Create || a.Ref.Subresource != "" || in.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := in.Annotations[registry.IngressClassAnnotation]; named {
		return nil
	}
	var newest *networkingv1.IngressClass
	for e := range d.View.Snapshot().All(ingressClasses, "", view.Key{}) {
		// They come in the order of their names, so that of two equally new ones the first wins.
		if c := e.Object.(*networkingv1.IngressClass); registry.DefaultIngressClass(c) && (newest == nil || newest.CreationTimestamp.Before(&c.CreationTimestamp)) {
			newest = c
		}
	}
	if newest != nil {
		in.Spec.IngressClassName = new(newest.Name)
	}
	return nil
}
