package review

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// attributes are the question, with the errors of selectors that cannot be parsed. A requirement that is left out makes the
// question wider and never narrower, so the answer is safe.
func attributes(u user.Info, r *authorizationv1.ResourceAttributes) (*authz.Attributes, []string) {
	a := &authz.Attributes{
		User: u, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
	var faults []string
	fault := func(selector string, some bool) {
		how := "ignored"
		if some {
			how = "partially ignored"
		}
		faults = append(faults, "spec.resourceAttributes."+selector+" "+how+" due to parse error")
	}
	if s := r.FieldSelector; s != nil {
		sel, ok := fieldSelector(s)
		a.Fields = sel
		if !ok {
			fault("fieldSelector", sel != nil)
		}
	}
	if s := r.LabelSelector; s != nil {
		if some, ok := labelSelector(s); !ok {
			fault("labelSelector", some)
		}
	}
	return a, faults
}

func fieldSelector(s *authorizationv1.FieldSelectorAttributes) (sel fields.Selector, ok bool) {
	if len(s.Requirements) == 0 {
		sel, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, false
		}
		return sel, true
	}
	var terms []fields.Selector
	ok = true
	for _, r := range s.Requirements {
		switch {
		case r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1:
			terms = append(terms, fields.OneTermEqualSelector(r.Key, r.Values[0]))
		case r.Operator == metav1.FieldSelectorOpNotIn && len(r.Values) == 1:
			terms = append(terms, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
		default:
			ok = false
		}
	}
	if len(terms) == 0 {
		return nil, ok
	}
	return fields.AndSelectors(terms...), ok
}

// labelSelector only says what can be parsed: no authorizer here looks at labels.
func labelSelector(s *authorizationv1.LabelSelectorAttributes) (some, ok bool) {
	if len(s.Requirements) == 0 {
		_, err := labels.Parse(s.RawSelector)
		return false, err == nil
	}
	ok = true
	for _, r := range s.Requirements {
		one := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			ok = false
		} else {
			some = true
		}
	}
	return some, ok
}
