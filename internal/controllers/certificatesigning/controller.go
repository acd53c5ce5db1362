package certificatesigning

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var requests = client.Resource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}

// Authority signs. A pki.Bundle is one.
type Authority interface {
	// Authority is its certificate.
	Authority() *x509.Certificate
	// Sign makes a certificate of the template, for its PublicKey, in PEM.
	Sign(template *x509.Certificate) ([]byte, error)
}

// New makes the controller, whose keys are requests. log may be nil.
func New(v *view.View, c client.Client, ca Authority, log *slog.Logger) (*loop.Loop, error) {
	if ca == nil {
		return nil, errors.New("certificatesigning: the authority is required")
	}
	k := &controller{c, ca}
	return loop.New(loop.Config{
		Name: "csr-signing", View: v, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{{Resource: schema.GroupResource(requests), Keys: func(c view.Change) []view.Key {
			if c.New == nil || !Due(c.New.Object.(*certificatesv1.CertificateSigningRequest)) {
				return nil
			}
			return []view.Key{c.New.Key}
		}}},
	})
}

type controller struct {
	client client.Client
	ca     Authority
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(schema.GroupResource(requests), "", key.Name)
	if e == nil {
		return res, nil
	}
	r := e.Object.(*certificatesv1.CertificateSigningRequest)
	if !Due(r) {
		return res, nil
	}
	template, invalid, err := Template(r, time.Now(), k.ca.Authority().NotAfter)
	if err != nil {
		return res, err
	}
	var chain []byte
	if invalid == nil {
		if chain, err = k.ca.Sign(template); err != nil {
			return res, err
		}
	}
	obj, err := k.client.Mutate(ctx, requests.At("", key.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		now := o.(*certificatesv1.CertificateSigningRequest)
		if now.UID != r.UID || !Due(now) {
			return false, nil
		}
		if invalid != nil {
			Fail(now, invalid)
		} else {
			now.Status.Certificate = chain
		}
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	return loop.Result{Wrote: loop.Revision(obj)}, err
}
