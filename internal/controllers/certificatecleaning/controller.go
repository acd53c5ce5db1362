package certificatecleaning

import (
	"context"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	requests    = client.Resource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}
	podRequests = client.Resource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}
)

// New makes the controller, whose keys are requests: those of pods have a namespace, the others none. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c}
	keys := loop.Itself
	return loop.New(loop.Config{
		Name: "csr-cleaner", View: v, ByClock: true, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{{Resource: schema.GroupResource(requests), Keys: keys}, {Resource: schema.GroupResource(podRequests), Keys: keys}},
	})
}

type controller struct{ client client.Client }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	resource := requests
	if key.Namespace != "" {
		resource = podRequests
	}
	e := s.Get(schema.GroupResource(resource), key.Namespace, key.Name)
	if e == nil {
		return res, nil
	}
	var end time.Time
	ends := true
	switch r := e.Object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		end, ends = End(r)
	case *certificatesv1.PodCertificateRequest:
		end = PodRequestEnd(r)
	}
	if !ends {
		return res, nil
	}
	if left := time.Until(end); left > 0 {
		return loop.Result{Again: left}, nil
	}
	uid := e.Meta.GetUID()
	err = k.client.Delete(ctx, resource.At(key.Namespace, key.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // it has gone, or is another
	}
	return res, err
}
