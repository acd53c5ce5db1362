package certificateapproval

import (
	"context"
	"crypto/x509"
	"log/slog"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry/certificates"
	"podo.dev/podo/internal/view"
)

var (
	requests = client.Resource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}
	reviews  = client.Resource{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}
	nodes    = schema.GroupResource(client.Nodes)
)

// Config is what the controller is made of.
type Config struct {
	View   *view.View
	Client client.Client
	// Reserved are the API server's names and addresses, which no node may serve at.
	Reserved func() []string
	Logger   *slog.Logger // may be nil
}

// forgiven is after how long who asks may have got the permission that was missing.
const forgiven = time.Minute

// ofNode is the namespace, which requests have none of, of keys that mean all requests of a node.
const ofNode = "node"

// New makes the controller, whose keys are requests, and nodes whose addresses changed.
func New(c Config) (*loop.Loop, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "csr-approving", View: c.View, Reconcile: k.reconcile, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(requests), Keys: func(c view.Change) []view.Key {
				if c.New == nil || Decided(c.New.Object.(*certificatesv1.CertificateSigningRequest)) {
					return nil
				}
				return []view.Key{c.New.Key}
			}},
			{Resource: nodes, Keys: func(c view.Change) []view.Key {
				if c.New == nil || c.Old != nil && slices.Equal(Addresses(c.Old.Object.(*v1.Node)), Addresses(c.New.Object.(*v1.Node))) {
					return nil
				}
				return []view.Key{{Namespace: ofNode, Name: c.New.Key.Name}}
			}},
		},
	})
}

type controller struct{ Config }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	if key.Namespace != ofNode {
		if e := s.Get(schema.GroupResource(requests), "", key.Name); e != nil {
			return k.judge(ctx, s, e.Object.(*certificatesv1.CertificateSigningRequest))
		}
		return res, nil
	}
	for e := range s.All(schema.GroupResource(requests), "", view.Key{}) {
		r := e.Object.(*certificatesv1.CertificateSigningRequest)
		if ServingNode(r) != key.Name {
			continue
		}
		if one, err := k.judge(ctx, s, r); err != nil {
			return res, err
		} else if one.Wrote > 0 {
			res.Wrote = one.Wrote
		}
	}
	return res, nil
}

func (k *controller) judge(ctx context.Context, s view.Snapshot, r *certificatesv1.CertificateSigningRequest) (res loop.Result, err error) {
	if Decided(r) {
		return res, nil
	}
	parsed, err := certificates.ParseRequest(r.Spec.Request)
	if err != nil {
		return res, nil //nolint:nilerr // validation lets none such in; it will not get better
	}
	message, err := k.verdict(ctx, s, r, parsed)
	if message == "" && err == nil && len(Client(r, parsed)) > 0 {
		res.Again = forgiven // a role or a binding may change
	}
	if message == "" || err != nil {
		return res, err
	}
	obj, err := k.Client.Mutate(ctx, requests.At("", r.Name).Sub("approval"), func(o runtime.Object) (bool, error) {
		now := o.(*certificatesv1.CertificateSigningRequest)
		if now.UID != r.UID || Decided(now) {
			return false, nil
		}
		Approve(now, message)
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	return loop.Result{Wrote: loop.Revision(obj)}, err
}

// verdict is the message of an approval, "" for none.
func (k *controller) verdict(ctx context.Context, s view.Snapshot, r *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) (string, error) {
	for _, ask := range Client(r, parsed) {
		if ok, err := k.may(ctx, r, ask.Subresource); ok || err != nil {
			return ask.Message, err
		}
	}
	node := ServingNode(r)
	if node == "" {
		return "", nil
	}
	others := map[string]string{}
	for _, a := range k.Reserved() {
		others[a] = "the API server"
	}
	var own *v1.Node
	for e := range s.All(nodes, "", view.Key{}) {
		n := e.Object.(*v1.Node)
		if n.Name == node {
			own = n
			continue
		}
		for _, a := range Addresses(n) {
			others[a] = "node " + n.Name
		}
	}
	if why := Serving(r, parsed, own, others); why != "" {
		k.Logger.Info("a kubelet's serving certificate is not approved", "csr", r.Name, "node", node, "why", why)
		return "", nil
	}
	return ServingMessage, nil
}

func (k *controller) may(ctx context.Context, r *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range r.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	obj, err := k.Client.Create(ctx, reviews.At("", ""), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Resource: requests.Resource, Verb: "create", Subresource: subresource, Version: "*",
		},
	}})
	if err != nil {
		return false, err
	}
	return obj.(*authorizationv1.SubjectAccessReview).Status.Allowed, nil
}
