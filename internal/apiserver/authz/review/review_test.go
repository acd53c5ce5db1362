package review

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// ear allows what jane asks and remembers what was asked.
type ear struct{ heard string }

func (e *ear) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	if a.OnResource() {
		e.heard = fmt.Sprintf("%s %s %s/%s/%s %s/%s", a.User.GetName(), a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name)
	} else {
		e.heard = fmt.Sprintf("%s %s %s", a.User.GetName(), a.Verb, a.Path)
	}
	if a.Fields != nil {
		e.heard += " " + a.Fields.String()
	}
	return a.User.GetName() == "jane", "because"
}

func (*ear) RulesFor(u user.Info, _ string) ([]rbacv1.PolicyRule, bool, error) {
	if u.GetName() == "node" {
		return nil, true, errors.New("not told")
	}
	return []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/api"}},
	}, false, nil
}

func answer(t *testing.T, resource, u string, obj runtime.Object) (*ear, runtime.Object, error) {
	t.Helper()
	e := &ear{}
	out, err := Access(e)[schema.GroupResource{Group: "authorization.k8s.io", Resource: resource}](t.Context(), &user.DefaultInfo{Name: u}, obj)
	return e, out, err
}

func TestAccess(t *testing.T) {
	pods := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Subresource: "log", Group: "g", Namespace: "ns", Name: "n"}
	e, out, _ := answer(t, "subjectaccessreviews", "root", &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: pods}})
	if s := out.(*authorizationv1.SubjectAccessReview).Status; e.heard != "jane list g/pods/log ns/n" || !s.Allowed || s.Denied || s.Reason != "because" {
		t.Errorf("%s: %+v", e.heard, s)
	}
	e, out, _ = answer(t, "localsubjectaccessreviews", "root", &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "joe", ResourceAttributes: pods}})
	if s := out.(*authorizationv1.LocalSubjectAccessReview).Status; s.Allowed || !strings.HasPrefix(e.heard, "joe ") {
		t.Errorf("%s: %+v", e.heard, s)
	}
	e, out, _ = answer(t, "selfsubjectaccessreviews", "jane", &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}})
	if s := out.(*authorizationv1.SelfSubjectAccessReview).Status; e.heard != "jane get /x" || !s.Allowed {
		t.Errorf("%s: %+v", e.heard, s)
	}
}

func TestSelectors(t *testing.T) {
	field := func(op metav1.FieldSelectorOperator, values ...string) metav1.FieldSelectorRequirement {
		return metav1.FieldSelectorRequirement{Key: "k", Operator: op, Values: values}
	}
	label := func(op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: "k", Operator: op, Values: values}
	}
	for name, c := range map[string]struct {
		fields *authorizationv1.FieldSelectorAttributes
		labels *authorizationv1.LabelSelectorAttributes
		heard  string
		fault  string
	}{
		"raw":       {&authorizationv1.FieldSelectorAttributes{RawSelector: "a=b,c!=d"}, &authorizationv1.LabelSelectorAttributes{RawSelector: "a in (b)"}, "a=b,c!=d", ""},
		"raw, odd":  {&authorizationv1.FieldSelectorAttributes{RawSelector: "a"}, &authorizationv1.LabelSelectorAttributes{RawSelector: "a in"}, "", "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"},
		"in, notin": {&authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{field("In", "v"), field("NotIn", "w")}}, nil, "k=v,k!=w", ""},
		"partly":    {&authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{field("In", "v"), field("In", "v", "w")}}, nil, "k=v", "spec.resourceAttributes.fieldSelector partially ignored due to parse error"},
		"unknown":   {&authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{field("Near", "v")}}, nil, "", "spec.resourceAttributes.fieldSelector ignored due to parse error"},
		"labels": {
			nil, &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{label("In", "v"), label("Near", "v")}}, "",
			"spec.resourceAttributes.labelSelector partially ignored due to parse error",
		},
	} {
		r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", FieldSelector: c.fields, LabelSelector: c.labels},
		}}
		e, out, _ := answer(t, "selfsubjectaccessreviews", "jane", r)
		heard := strings.TrimSpace(strings.TrimPrefix(e.heard, "jane list /pods/ /"))
		if fault := out.(*authorizationv1.SelfSubjectAccessReview).Status.EvaluationError; heard != c.heard || fault != c.fault {
			t.Errorf("%s: asked %q, said %q", name, heard, fault)
		}
	}
}

func TestRules(t *testing.T) {
	review := func(ns string) *authorizationv1.SelfSubjectRulesReview {
		return &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns}}
	}
	if _, _, err := answer(t, "selfsubjectrulesreviews", "jane", review("")); err == nil || err.Error() != "no namespace on request" {
		t.Error(err)
	}
	_, out, _ := answer(t, "selfsubjectrulesreviews", "jane", review("ns"))
	if s := out.(*authorizationv1.SelfSubjectRulesReview).Status; len(s.ResourceRules) != 1 || len(s.NonResourceRules) != 1 || s.Incomplete || s.ResourceRules[0].ResourceNames[0] != "a" {
		t.Errorf("%+v", s)
	}
	_, out, _ = answer(t, "selfsubjectrulesreviews", "node", review("ns"))
	if s := out.(*authorizationv1.SelfSubjectRulesReview).Status; !s.Incomplete || s.EvaluationError != "not told" || s.ResourceRules == nil {
		t.Errorf("%+v", s)
	}
}
