package trustbundle

import (
	"context"
	"errors"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var bundles = client.Resource{Group: certificatesv1.GroupName, Resource: "clustertrustbundles"}

// New makes the controller, which has one key. ca is the authority's certificate in PEM. log may be nil.
func New(v *view.View, c client.Client, ca []byte, log *slog.Logger) (*loop.Loop, error) {
	if len(ca) == 0 {
		return nil, errors.New("trustbundle: the authority's certificate is required")
	}
	k := &controller{c, Wanted(string(ca)), loop.NewPublications("clustertrustbundle_publisher", "the signer's bundle")}
	only := []view.Key{{Name: k.wanted.Name}}
	return loop.New(loop.Config{
		Name: "trust-bundle", View: v, Reconcile: k.reconcile, Logger: log, Metrics: k.publications.All(),
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(bundles), Keys: func(c view.Change) []view.Key {
				if ours(c.New) || ours(c.Old) {
					return only
				}
				return nil
			}},
			// kube-system is there from the beginning: it gives the first look.
			{Resource: schema.GroupResource(client.Namespaces), Keys: func(c view.Change) []view.Key {
				if c.New != nil && c.Old == nil && c.New.Key.Name == metav1.NamespaceSystem {
					return only
				}
				return nil
			}},
		},
	})
}

func ours(e *view.Entry) bool {
	return e != nil && e.Object.(*certificatesv1.ClusterTrustBundle).Spec.SignerName == Signer
}

type controller struct {
	client client.Client
	wanted *certificatesv1.ClusterTrustBundle

	publications loop.Publications
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	defer func(began time.Time) { k.publications.Done(err, time.Since(began)) }(time.Now())
	var there []*certificatesv1.ClusterTrustBundle
	for e := range s.All(schema.GroupResource(bundles), "", view.Key{}) {
		if ours(e) {
			there = append(there, e.Object.(*certificatesv1.ClusterTrustBundle))
		}
	}
	create, mend, remove := Plan(k.wanted, there)
	var obj runtime.Object
	switch {
	case create:
		obj, err = k.client.Create(ctx, bundles.At("", ""), k.wanted.DeepCopy())
	case mend:
		obj, err = k.client.Mutate(ctx, bundles.At("", k.wanted.Name), func(o runtime.Object) (bool, error) {
			o.(*certificatesv1.ClusterTrustBundle).Spec.TrustBundle = k.wanted.Spec.TrustBundle
			return true, nil
		})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return res, err
	}
	res.Wrote = loop.Revision(obj)
	for _, name := range remove {
		if err := k.client.Delete(ctx, bundles.At("", name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return res, err
		}
	}
	return res, nil
}
