// Package delegate asks the API server who sends a request to the kubelet's port (TokenReview) and what that user may do with the
// node (SubjectAccessReview). Answers are cached, refusals for a shorter time. While the API server does not answer, only users
// with a cached answer get in.
package delegate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Reviewer asks the API server; the answer is read into the review.
type Reviewer interface {
	Review(ctx context.Context, resource schema.GroupResource, review runtime.Object) error
}

// How long answers count, as upstream's kubelet configures by default, and how many are remembered.
const (
	knownFor   = 2 * time.Minute
	allowedFor = 5 * time.Minute
	refusedFor = 30 * time.Second
	maxAnswers = 1024
)

var (
	tokenReviews  = schema.GroupResource{Group: authenticationv1.GroupName, Resource: "tokenreviews"}
	accessReviews = schema.GroupResource{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}
)

// Delegate is described at the top of the package.
type Delegate struct {
	api  Reviewer
	node string
	now  func() time.Time

	mu      sync.Mutex
	users   map[[sha256.Size]byte]answer[user.Info]
	allowed map[string]answer[bool]
}

type answer[T any] struct {
	value T
	until time.Time
}

// New makes a Delegate of a node.
func New(api Reviewer, node string, now func() time.Time) *Delegate {
	return &Delegate{api: api, node: node, now: now, users: map[[sha256.Size]byte]answer[user.Info]{}, allowed: map[string]answer[bool]{}}
}

// Authenticate names the user of a bearer token; false without one, or with one that nobody knows.
func (d *Delegate) Authenticate(r *http.Request) (user.Info, bool, error) {
	kind, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !ok || !strings.EqualFold(kind, "bearer") || token == "" {
		return nil, false, nil
	}
	key := sha256.Sum256([]byte(token))
	if u, ok := remembered(d, d.users, key); ok {
		return u, u != nil, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := d.api.Review(r.Context(), tokenReviews, review); err != nil {
		return nil, false, err
	}
	if !review.Status.Authenticated {
		remember(d, d.users, key, nil, refusedFor)
		return nil, false, nil
	}
	s := review.Status.User
	u := &user.DefaultInfo{Name: s.Username, UID: s.UID, Groups: s.Groups, Extra: map[string][]string{}}
	for k, v := range s.Extra {
		u.Extra[k] = v
	}
	remember(d, d.users, key, user.Info(u), knownFor)
	return u, true, nil
}

// Authorize tells whether u may do what the verb says with a part of this node.
func (d *Delegate) Authorize(ctx context.Context, u user.Info, verb, subresource, _ string) (bool, error) {
	key := fmt.Sprintf("%q %q %q %q %q", u.GetName(), u.GetUID(), u.GetGroups(), verb, subresource)
	if len(u.GetExtra()) > 0 {
		key += fmt.Sprintf(" %q", u.GetExtra())
	}
	if yes, ok := remembered(d, d.allowed, key); ok {
		return yes, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: d.node},
	}}
	for k, v := range u.GetExtra() {
		review.Spec.Extra[k] = v
	}
	if err := d.api.Review(ctx, accessReviews, review); err != nil {
		return false, err
	}
	yes := review.Status.Allowed && !review.Status.Denied
	limit := refusedFor
	if yes {
		limit = allowedFor
	}
	remember(d, d.allowed, key, yes, limit)
	return yes, nil
}

func remembered[K comparable, T any](d *Delegate, in map[K]answer[T], key K) (value T, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := in[key]
	if !ok || !d.now().Before(a.until) {
		return value, false
	}
	return a.value, true
}

func remember[K comparable, T any](d *Delegate, in map[K]answer[T], key K, value T, limit time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(in) >= maxAnswers {
		clear(in)
	}
	in[key] = answer[T]{value, d.now().Add(limit)}
}
