// Package objects is how the kubelet's modules read what pods refer to (ConfigMaps, Secrets, claims and their volumes): from the
// process's one decoded copy, with the errors that users of upstream's kubelet know. What is handed out is shared and must not be changed.
package objects

import (
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/view"
)

// Kind is the kind of an object that a pod may refer to, as error messages call it.
type Kind string

// The kinds.
const (
	ConfigMap        Kind = "configmap"
	Secret           Kind = "secret"
	Claim            Kind = "persistentvolumeclaims"
	PersistentVolume Kind = "persistentvolumes" // they have no namespace
	// TrustBundle changes are reported without a name, since a volume may show all bundles that a selector selects.
	TrustBundle Kind = "clustertrustbundles"
	// PodCertificate changes are reported under the UID of the pod that the request is for, without a namespace.
	PodCertificate Kind = "podcertificaterequests"
)

// Ref names an object.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

var resources = map[Kind]schema.GroupResource{
	ConfigMap:        {Resource: "configmaps"},
	Secret:           {Resource: "secrets"},
	Claim:            {Resource: "persistentvolumeclaims"},
	PersistentVolume: {Resource: "persistentvolumes"},
	TrustBundle:      {Group: certificatesv1.GroupName, Resource: "clustertrustbundles"},
	PodCertificate:   {Group: certificatesv1.GroupName, Resource: "podcertificaterequests"},
}

// Reader reads from a view.
type Reader struct{ v *view.View }

// New returns a reader.
func New(v *view.View) Reader { return Reader{v} }

// ConfigMap returns a ConfigMap, or the API's NotFound error.
func (r Reader) ConfigMap(namespace, name string) (*v1.ConfigMap, error) {
	e := r.v.Snapshot().Get(resources[ConfigMap], namespace, name)
	if e == nil {
		return nil, notFound(ConfigMap, name)
	}
	return e.Object.(*v1.ConfigMap), nil
}

// Secret returns a Secret, or the API's NotFound error.
func (r Reader) Secret(namespace, name string) (*v1.Secret, error) {
	e := r.v.Snapshot().Get(resources[Secret], namespace, name)
	if e == nil {
		return nil, notFound(Secret, name)
	}
	return e.Object.(*v1.Secret), nil
}

// PersistentVolumeClaim returns a claim, or the API's NotFound error.
func (r Reader) PersistentVolumeClaim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	e := r.v.Snapshot().Get(resources[Claim], namespace, name)
	if e == nil {
		return nil, notFound(Claim, name)
	}
	return e.Object.(*v1.PersistentVolumeClaim), nil
}

// PersistentVolume returns a volume of the cluster, or the API's NotFound error.
func (r Reader) PersistentVolume(name string) (*v1.PersistentVolume, error) {
	e := r.v.Snapshot().Get(resources[PersistentVolume], "", name)
	if e == nil {
		return nil, notFound(PersistentVolume, name)
	}
	return e.Object.(*v1.PersistentVolume), nil
}

// TrustBundle returns a bundle of trust anchors, or the API's NotFound error.
func (r Reader) TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error) {
	e := r.v.Snapshot().Get(resources[TrustBundle], "", name)
	if e == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: certificatesv1.GroupName, Resource: "clustertrustbundle"}, name)
	}
	return e.Object.(*certificatesv1.ClusterTrustBundle), nil
}

// TrustBundles are those of a signer that the selector selects.
func (r Reader) TrustBundles(signer string, selector labels.Selector) []*certificatesv1.ClusterTrustBundle {
	var out []*certificatesv1.ClusterTrustBundle
	for e := range r.v.Snapshot().All(resources[TrustBundle], "", view.Key{}) {
		if b := e.Object.(*certificatesv1.ClusterTrustBundle); b.Spec.SignerName == signer && selector.Matches(labels.Set(b.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

// PodCertificateRequest is a request for a pod's certificate; nil when it is not there.
func (r Reader) PodCertificateRequest(namespace, name string) *certificatesv1.PodCertificateRequest {
	e := r.v.Snapshot().Get(resources[PodCertificate], namespace, name)
	if e == nil {
		return nil
	}
	return e.Object.(*certificatesv1.PodCertificateRequest)
}

// RuntimeHandler is what the runtime calls a RuntimeClass, or the API's NotFound error.
func (r Reader) RuntimeHandler(class string) (string, error) {
	e := r.v.Snapshot().Get(schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclasses"}, "", class)
	if e == nil {
		return "", apierrors.NewNotFound(schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclass"}, class)
	}
	return e.Object.(*nodev1.RuntimeClass).Handler, nil
}

// Services are those of a namespace, and the API server's.
func (r Reader) Services(namespace string) []*v1.Service {
	s, kind := r.v.Snapshot(), schema.GroupResource{Resource: "services"}
	var out []*v1.Service
	if e := s.Get(kind, metav1.NamespaceDefault, "kubernetes"); e != nil && namespace != metav1.NamespaceDefault {
		out = append(out, e.Object.(*v1.Service))
	}
	for e := range s.All(kind, namespace, view.Key{}) {
		out = append(out, e.Object.(*v1.Service))
	}
	return out
}

// notFound names the kind as users know it from this error: `configmap "x" not found`.
func notFound(k Kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: string(k)}, name)
}

// Follow reports written and deleted objects until ctx ends: resync first and whenever changes may have been missed, changed
// after that. Both are called from one goroutine.
func (r Reader) Follow(ctx context.Context, resync func(), changed func([]Ref)) error {
	for {
		err := r.follow(ctx, resync, changed)
		if !errors.Is(err, view.ErrGone) {
			return err
		}
	}
}

func (r Reader) follow(ctx context.Context, resync func(), changed func([]Ref)) error {
	rev := r.v.Snapshot().Rev()
	watches := map[Kind]*view.Watcher{}
	for kind, resource := range resources {
		w, err := r.v.Watch(resource, rev)
		if err != nil {
			return err
		}
		defer w.Close()
		watches[kind] = w
	}
	resync()
	for {
		var kind Kind
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-watches[ConfigMap].Ready():
			kind = ConfigMap
		case <-watches[Secret].Ready():
			kind = Secret
		case <-watches[Claim].Ready():
			kind = Claim
		case <-watches[PersistentVolume].Ready():
			kind = PersistentVolume
		case <-watches[TrustBundle].Ready():
			kind = TrustBundle
		case <-watches[PodCertificate].Ready():
			kind = PodCertificate
		}
		changes, _, err := watches[kind].Next(ctx)
		if err != nil {
			return err
		}
		if refs := told(kind, changes); len(refs) > 0 {
			changed(refs)
		}
	}
}

// told translates changes to the references that are reported, as each kind says.
func told(kind Kind, changes []view.Change) []Ref {
	if kind == TrustBundle && len(changes) > 0 {
		return []Ref{{Kind: TrustBundle}}
	}
	refs := make([]Ref, 0, len(changes))
	for _, c := range changes {
		e := c.New
		if e == nil {
			e = c.Old
		}
		if r, ok := e.Object.(*certificatesv1.PodCertificateRequest); ok {
			refs = append(refs, Ref{Kind: kind, Name: string(r.Spec.PodUID)})
			continue
		}
		refs = append(refs, Ref{kind, e.Key.Namespace, e.Key.Name})
	}
	return refs
}
