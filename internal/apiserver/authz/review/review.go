// Package review answers the questions of authorization.k8s.io: whether somebody may do something, and what oneself may do.
package review

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// Authorizer is what the answers come from.
type Authorizer interface {
	authz.Authorizer
	RulesFor(u user.Info, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error)
}

// Answer fills in the status of a review that u has created.
type Answer = func(ctx context.Context, u user.Info, obj runtime.Object) (runtime.Object, error)

// Access are the answers to each kind of review of access, by resource.
func Access(z Authorizer) map[schema.GroupResource]Answer {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: authorizationv1.GroupName, Resource: resource}
	}
	return map[schema.GroupResource]Answer{
		of("subjectaccessreviews"): func(ctx context.Context, _ user.Info, obj runtime.Object) (runtime.Object, error) {
			r := obj.(*authorizationv1.SubjectAccessReview)
			r.Status = decide(ctx, z, subject(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
			return r, nil
		},
		of("localsubjectaccessreviews"): func(ctx context.Context, _ user.Info, obj runtime.Object) (runtime.Object, error) {
			r := obj.(*authorizationv1.LocalSubjectAccessReview)
			r.Status = decide(ctx, z, subject(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
			return r, nil
		},
		of("selfsubjectaccessreviews"): func(ctx context.Context, u user.Info, obj runtime.Object) (runtime.Object, error) {
			r := obj.(*authorizationv1.SelfSubjectAccessReview)
			r.Status = decide(ctx, z, u, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
			return r, nil
		},
		of("selfsubjectrulesreviews"): func(_ context.Context, u user.Info, obj runtime.Object) (runtime.Object, error) {
			return rules(z, u, obj.(*authorizationv1.SelfSubjectRulesReview))
		},
	}
}

func subject(s *authorizationv1.SubjectAccessReviewSpec) user.Info {
	u := &user.DefaultInfo{Name: s.User, Groups: s.Groups, UID: s.UID}
	for k, v := range s.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = v
	}
	return u
}

func decide(ctx context.Context, z authz.Authorizer, u user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) (out authorizationv1.SubjectAccessReviewStatus) {
	var a *authz.Attributes
	var faults []string
	if r != nil {
		a, faults = attributes(u, r)
	} else {
		a = &authz.Attributes{User: u, Path: n.Path, Verb: n.Verb}
	}
	out.Allowed, out.Reason = z.Authorize(ctx, a)
	out.EvaluationError = strings.Join(faults, "; ")
	return out
}

func rules(z Authorizer, u user.Info, r *authorizationv1.SelfSubjectRulesReview) (runtime.Object, error) {
	if r.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	list, incomplete, err := z.RulesFor(u, r.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{}, Incomplete: incomplete,
	}}
	for _, x := range list {
		if len(x.Resources) > 0 {
			out.Status.ResourceRules = append(out.Status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: x.Verbs, APIGroups: x.APIGroups, Resources: x.Resources, ResourceNames: x.ResourceNames,
			})
		}
		if len(x.NonResourceURLs) > 0 {
			out.Status.NonResourceRules = append(out.Status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: x.Verbs, NonResourceURLs: x.NonResourceURLs,
			})
		}
	}
	if err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}
