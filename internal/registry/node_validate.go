package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// taintsAnnotation held taints before spec.taints did.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// validateNode judges a node whole. Taints stand under metadata.taints in findings, as upstream has it.
func validateNode(n *v1.Node) field.ErrorList {
	var e check.Errors
	nodeAnnotations(&e, n)
	taints(&e, metaPath.Child("taints"), n.Spec.Taints)
	nodeResources(&e, n)
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil {
		e.Positive(metaPath.Child("nodeSwapStatus", "capacity"), *s.Capacity)
	}
	declaredFeatures(&e, n.Status.DeclaredFeatures)
	p := specPath.Child("podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		e.CIDR(p.Index(i), cidr, nil)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil {
			e.Put(field.InternalError(p, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%v", err)))
		}
		if !dual || len(n.Spec.PodCIDRs) > 2 {
			e.Invalid(p, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family")
		}
	}
	return e.List()
}

func nodeAnnotations(e *check.Errors, n *v1.Node) {
	p := metaPath.Child("annotations")
	if text := n.Annotations[taintsAnnotation]; text != "" {
		var list []v1.Taint
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			e.Invalid(p, taintsAnnotation, err.Error())
		} else {
			taints(e, p.Child(taintsAnnotation), list)
		}
	}
	if text := n.Annotations[v1.PreferAvoidPodsAnnotationKey]; text != "" {
		var avoid v1.AvoidPods
		if err := json.Unmarshal([]byte(text), &avoid); err != nil {
			e.Invalid(p.Child("AvoidPods"), v1.PreferAvoidPodsAnnotationKey, err.Error())
			return
		}
		for i, entry := range avoid.PreferAvoidPods {
			at := p.Child(v1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
			if c := entry.PodSignature.PodController; c == nil {
				e.Required(at, "")
			} else if c.Controller == nil || !*c.Controller {
				e.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller")
			}
		}
	}
}

func taints(e *check.Errors, p *field.Path, list []v1.Taint) {
	type pair struct{ key, effect string }
	seen := sets.New[pair]()
	for i, t := range list {
		at := p.Index(i)
		e.Add(metav1validation.ValidateLabelName(t.Key, at.Child("key")))
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			e.Invalid(at.Child("value"), t.Value, strings.Join(msgs, ";"))
		}
		check.RequiredOneOf(e, at.Child("effect"), t.Effect,
			v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
		if one := (pair{t.Key, string(t.Effect)}); seen.Has(one) {
			err := field.Duplicate(at, check.Shown(t))
			err.Detail = "taints must be unique by key and effect pair"
			e.Put(err)
		} else {
			seen.Insert(one)
		}
	}
}

func nodeResources(e *check.Errors, n *v1.Node) {
	for _, l := range []struct {
		name string
		list v1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, name := range check.Sorted(l.list) {
			e.Quantity(statusPath.Child(l.name, string(name)), name, l.list[name])
		}
	}
}

var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$`)

// declaredFeatures must be sorted, each once.
func declaredFeatures(e *check.Errors, list []string) {
	p := statusPath.Child("declaredFeatures")
	for i, f := range list {
		switch {
		case len(f) > validation.DNS1123SubdomainMaxLength:
			e.Invalid(p.Index(i), f, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", f, validation.DNS1123SubdomainMaxLength))
		case !featureName.MatchString(f):
			e.Invalid(p.Index(i), f, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments "+
				"separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", f))
		}
		if i+1 == len(list) {
			continue
		}
		if next := list[i+1]; f == next {
			e.Duplicate(p.Index(i+1), next)
		} else if f > next {
			e.Invalid(p.Index(i+1), next, "list must be sorted alphabetically")
		}
	}
}

// validateNodeUpdate judges a change: where a node gets its pods' addresses and who it is cannot change once said.
func validateNodeUpdate(n, old *v1.Node) field.ErrorList {
	var e check.Errors
	nodeAnnotations(&e, n)
	nodeResources(&e, n)
	declaredFeatures(&e, n.Status.DeclaredFeatures)
	seen := sets.New[v1.NodeAddress]()
	for i, a := range n.Status.Addresses {
		if seen.Has(a) {
			e.Duplicate(statusPath.Child("addresses").Index(i), a)
		}
		seen.Insert(a)
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs) {
		e.Forbidden(specPath.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`)
	}
	if was, is := old.Spec.ProviderID, n.Spec.ProviderID; was != "" && is == "" {
		e.Invalid(specPath.Child("providerID"), nil, "field cannot be cleared once set")
	} else if was != "" && is != was {
		e.Invalid(specPath.Child("providerID"), nil, "field cannot be modified once set")
	}
	taints(&e, metaPath.Child("taints"), n.Spec.Taints)
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		e.Forbidden(specPath.Child("externalID"), "may not be updated")
	}
	return e.List()
}
