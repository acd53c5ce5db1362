package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// IssuerConfig is what an Issuer is made of. All but Now are required.
type IssuerConfig struct {
	Keys   *Keys
	Issuer string
	// Audiences are the API server's names, for tokens that are requested without an audience.
	Audiences []string
	Now       func() time.Time
}

// Issuer makes tokens.
type Issuer struct{ c IssuerConfig }

// NewIssuer makes an Issuer.
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	if c.Keys == nil || c.Issuer == "" || len(c.Audiences) == 0 {
		return nil, errors.New("tokens: an Issuer needs Keys, Issuer and Audiences")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Issuer{c}, nil
}

// Request is a TokenRequest for an account.
type Request struct {
	Namespace, Name string
	// Object is filled in and is the answer.
	Object *authenticationv1.TokenRequest
	// Now is the cluster, as fresh as the request.
	Now view.Snapshot
	// Admit checks the request when it is complete and valid.
	Admit func() error
}

var requestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Issue makes a token as requested, or says why not in upstream's words.
func (i *Issuer) Issue(ctx context.Context, r Request) (*authenticationv1.TokenRequest, error) {
	o := r.Object
	if err := matches("name", "service account name", o.Name, r.Name, r.Name); err != nil {
		return nil, err
	}
	if err := matches("namespace", "service account namespace", o.Namespace, r.Namespace, r.Name); err != nil {
		return nil, err
	}
	obj, err := get[*v1.ServiceAccount](r.Now, client.ServiceAccounts, r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	if o.UID != "" && o.UID != obj.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: requestKind.Group, Resource: requestKind.Kind}, r.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", o.UID, obj.UID))
	}
	now := i.c.Now()
	if len(o.Spec.Audiences) == 0 {
		o.Spec.Audiences = slices.Clone(i.c.Audiences)
	}
	o.Name, o.Namespace, o.UID = obj.Name, obj.Namespace, obj.UID
	o.CreationTimestamp = metav1.NewTime(now)
	o.Status = authenticationv1.TokenRequestStatus{}
	if errs := registry.ValidateTokenRequest(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(requestKind.GroupKind(), "", errs)
	}
	if err := r.Admit(); err != nil {
		return nil, err
	}
	k, err := binding(r)
	if err != nil {
		return nil, err
	}
	k.Account = ref{obj.Name, string(obj.UID)}
	seconds := *o.Spec.ExpirationSeconds
	life := time.Duration(seconds) * time.Second
	if k.Pod != nil && seconds == extendable && i.ours(o.Spec.Audiences) {
		k.WarnAfter = jwt.NewNumericDate(now.Add(life))
		life = extended
	}
	o.Status.ExpirationTimestamp = metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
	id := string(uuid.NewUUID())
	o.Status.Token, err = i.c.Keys.sign(&claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.c.Issuer, Subject: serviceaccount.MakeUsername(obj.Namespace, obj.Name), Audience: o.Spec.Audiences,
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life)),
			ID: id,
		},
		Kubernetes: k,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, idPrefix+id)
	return o, nil
}

// ours tells whether a token is for the API server only.
func (i *Issuer) ours(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(i.c.Audiences, a) })
}

// matches checks that a request names the same account as its URL.
func matches(part, what, said, is, name string) error {
	if said == "" || said == is {
		return nil
	}
	return apierrors.NewInvalid(requestKind.GroupKind(), name, field.ErrorList{
		field.Invalid(field.NewPath("metadata").Child(part), said, "must match the "+what+" if specified"),
	})
}

// binding finds the object that the token shall be bound to.
func binding(r Request) (*bound, error) {
	k := &bound{Namespace: r.Namespace}
	to := r.Object.Spec.BoundObjectRef
	if to == nil {
		return k, nil
	}
	gvk := schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)
	var uid types.UID
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		pod, err := get[*v1.Pod](r.Now, client.Pods, r.Namespace, to.Name)
		if err != nil {
			return nil, err
		}
		if pod.Spec.ServiceAccountName != r.Name {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", r.Name))
		}
		uid = pod.UID
		k.Pod, k.Node = &ref{pod.Name, string(uid)}, nodeOf(r.Now, pod)
	case schema.GroupKind{Kind: "Node"}:
		node, err := get[*v1.Node](r.Now, client.Nodes, "", to.Name)
		if err != nil {
			return nil, err
		}
		uid = node.UID
		k.Node = &ref{node.Name, string(uid)}
	case schema.GroupKind{Kind: "Secret"}:
		secret, err := get[*v1.Secret](r.Now, client.Secrets, r.Namespace, to.Name)
		if err != nil {
			return nil, err
		}
		uid = secret.UID
		k.Secret = &ref{secret.Name, string(uid)}
	default:
		return nil, apierrors.NewBadRequest("cannot bind token to object of type " + gvk.String() + gated(gvk))
	}
	if to.UID != "" && to.UID != uid {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, to.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID))
	}
	return k, nil
}

// gated mentions kinds that are behind a feature gate which is off.
func gated(gvk schema.GroupVersionKind) string {
	if gvk.GroupVersion().String() == "admissionregistration.k8s.io/v1" &&
		(gvk.Kind == "ValidatingWebhookConfiguration" || gvk.Kind == "MutatingWebhookConfiguration") {
		return " (feature gate APIServerWebhookAuthenticationToken is disabled)"
	}
	return ""
}

// nodeOf is the node that a pod is on, by name alone when it has no object.
func nodeOf(now view.Snapshot, pod *v1.Pod) *ref {
	if pod.Spec.NodeName == "" {
		return nil
	}
	to := &ref{Name: pod.Spec.NodeName}
	if node, err := get[*v1.Node](now, client.Nodes, "", pod.Spec.NodeName); err == nil {
		to.UID = string(node.UID)
	}
	return to
}

func get[T any](now view.Snapshot, r client.Resource, namespace, name string) (T, error) {
	gr := schema.GroupResource(r)
	var none T
	if name == "" {
		return none, apierrors.NewBadRequest("Name parameter required.")
	}
	e := now.Get(gr, namespace, name)
	if e == nil {
		return none, apierrors.NewNotFound(gr, name)
	}
	return e.Object.(T), nil
}

// ForSecret makes the token of a Secret of type kubernetes.io/service-account-token. It does not expire by itself.
func (i *Issuer) ForSecret(account *v1.ServiceAccount, secret *v1.Secret) (string, error) {
	return i.c.Keys.sign(&claims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: serviceaccount.MakeUsername(account.Namespace, account.Name)},
		LegacyNamespace:  account.Namespace, LegacyAccount: account.Name, LegacyAccountUID: string(account.UID), LegacySecretNamed: secret.Name,
	})
}
