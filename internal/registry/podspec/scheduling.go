package podspec

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func (v *validator) labelName(p *field.Path, name string) {
	v.Add(metav1validation.ValidateLabelName(name, p))
}

func (v *validator) labelValues(p *field.Path, values []string) {
	for i, value := range values {
		v.Each(item(p, i), value, validation.IsValidLabelValue(value))
	}
}

func (v *validator) schedulingGates(p *field.Path) {
	seen := sets.New[string]()
	for i, g := range v.spec.SchedulingGates {
		v.Qualified(item(p, i), g.Name)
		if seen.Has(g.Name) {
			v.Duplicate(item(p, i), g.Name)
		}
		seen.Insert(g.Name)
	}
}

// Tolerations checks tolerations by themselves, as a pod's update does with those that it adds.
func Tolerations(p *field.Path, list []v1.Toleration, o Options) field.ErrorList {
	v := &validator{o: o}
	v.tolerations(p, list)
	return v.List()
}

func (v *validator) tolerations(p *field.Path, list []v1.Toleration) {
	for i, t := range list {
		at := item(p, i)
		if t.Key != "" {
			v.labelName(child(at, "key"), t.Key)
		} else if t.Operator != v1.TolerationOpExists {
			v.Invalid(child(at, "operator"), t.Operator, `operator must be Exists when `+"`key`"+` is empty, which means "match all values and all keys"`)
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			v.Invalid(child(at, "effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		v.tolerationOperator(at, t)
		if t.Effect != "" {
			check.OneOf(&v.Errors, child(at, "effect"), t.Effect,
				v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
		}
	}
}

func (v *validator) tolerationOperator(p *field.Path, t v1.Toleration) {
	at := child(p, "operator")
	switch t.Operator {
	case v1.TolerationOpEqual, "":
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			v.Invalid(at, t.Value, strings.Join(msgs, ";"))
		}
	case v1.TolerationOpExists:
		if t.Value != "" {
			v.Invalid(at, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case v1.TolerationOpLt, v1.TolerationOpGt:
		if !v.o.ComparisonTolerations {
			v.Put(field.NotSupported(at, t.Operator,
				[]v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt}))
			return
		}
		v.Each(child(p, "value"), t.Value, content.IsDecimalInteger(t.Value))
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			v.Invalid(child(p, "value"), t.Value, err.Error())
		}
	default:
		check.OneOf(&v.Errors, at, t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists)
	}
}

func (v *validator) affinity(p *field.Path) {
	a := v.spec.Affinity
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		at := child(p, "nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			v.nodeSelector(child(at, "requiredDuringSchedulingIgnoredDuringExecution"), n.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := item(child(at, "preferredDuringSchedulingIgnoredDuringExecution"), i)
			v.weight(at, t.Weight)
			// What is only preferred may name values that no label can have.
			v.nodeTerm(child(at, "preference"), t.Preference, true)
		}
	}
	if pa := a.PodAffinity; pa != nil {
		v.podTerms(child(p, "podAffinity"), pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pa := a.PodAntiAffinity; pa != nil {
		v.podTerms(child(p, "podAntiAffinity"), pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (v *validator) weight(p *field.Path, w int32) {
	if w < 1 || w > 100 {
		v.Invalid(child(p, "weight"), w, "must be in the range 1-100")
	}
}

func (v *validator) nodeSelector(p *field.Path, s *v1.NodeSelector) {
	p = child(p, "nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		v.Required(p, "must have at least one node selector term")
	}
	for i, t := range s.NodeSelectorTerms {
		v.nodeTerm(item(p, i), t, v.o.BadLabelValueInNodeTerm)
	}
}

func (v *validator) nodeTerm(p *field.Path, t v1.NodeSelectorTerm, anyValue bool) {
	for i, r := range t.MatchExpressions {
		v.nodeRequirement(item(child(p, "matchExpressions"), i), r, anyValue)
	}
	for i, r := range t.MatchFields {
		at := item(child(p, "matchFields"), i)
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			if len(r.Values) != 1 {
				v.Required(child(at, "values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
			}
		default:
			v.Invalid(child(at, "operator"), r.Operator, "not a valid selector operator")
		}
		if r.Key != metav1.ObjectNameField {
			v.Invalid(child(at, "key"), r.Key, "not a valid field selector key")
			continue
		}
		for j, value := range r.Values {
			v.ObjectName(item(child(at, "values"), j), value, false)
		}
	}
}

func (v *validator) nodeRequirement(p *field.Path, r v1.NodeSelectorRequirement, anyValue bool) {
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			v.Required(child(p, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			v.Forbidden(child(p, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			v.Required(child(p, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		v.Invalid(child(p, "operator"), r.Operator, "not a valid selector operator")
	}
	v.labelName(child(p, "key"), r.Key)
	if !anyValue {
		v.labelValues(child(p, "values"), r.Values)
	}
}

// podAffinityTerms are all terms about other pods, required and preferred, for and against.
func podAffinityTerms(a *v1.Affinity) []*v1.PodAffinityTerm {
	var out []*v1.PodAffinityTerm
	add := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, &required[i])
		}
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

func (v *validator) podTerms(p *field.Path, required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for i := range required {
		v.podTerm(item(child(p, "requiredDuringSchedulingIgnoredDuringExecution"), i), &required[i])
	}
	for i := range preferred {
		at := item(child(p, "preferredDuringSchedulingIgnoredDuringExecution"), i)
		v.weight(at, preferred[i].Weight)
		v.podTerm(child(at, "podAffinityTerm"), &preferred[i].PodAffinityTerm)
	}
}

func (v *validator) podTerm(p *field.Path, t *v1.PodAffinityTerm) {
	v.affinitySelectors(p, t)
	for _, ns := range t.Namespaces {
		v.Each(child(p, "namespace"), ns, apivalidation.ValidateNamespaceName(ns, false))
	}
	v.matchLabelKeys(p, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)
	if t.TopologyKey == "" {
		v.Required(child(p, "topologyKey"), "can not be empty")
	}
	v.labelName(child(p, "topologyKey"), t.TopologyKey)
}

func (v *validator) affinitySelectors(p *field.Path, t *v1.PodAffinityTerm) {
	o := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: v.o.BadLabelValueInSelector}
	v.Add(metav1validation.ValidateLabelSelector(t.LabelSelector, o, child(p, "labelSelector")))
	v.Add(metav1validation.ValidateLabelSelector(t.NamespaceSelector, o, child(p, "namespaceSelector")))
}

// matchLabelKeys checks keys whose values come from the pod's own labels. On create they were merged into the selector
// already, so a key that stands there twice was also given by the author.
func (v *validator) matchLabelKeys(p *field.Path, match, mismatch []string, s *metav1.LabelSelector) {
	keys := func(p *field.Path, keys []string) {
		if len(keys) > 0 && s == nil {
			v.Forbidden(p, "must not be specified when labelSelector is not set")
			return
		}
		for i, k := range keys {
			v.labelName(item(p, i), k)
		}
	}
	keys(child(p, "matchLabelKeys"), match)
	keys(child(p, "mismatchLabelKeys"), mismatch)
	if s != nil {
		index := make(map[string]int, len(match))
		for i, k := range match {
			index[k] = i
		}
		seen := sets.KeySet(s.MatchLabels)
		for _, e := range s.MatchExpressions {
			if i, ok := index[e.Key]; ok && seen.Has(e.Key) {
				v.Invalid(item(p, i), e.Key, "exists in both matchLabelKeys and labelSelector")
			}
			seen.Insert(e.Key)
		}
	}
	not := sets.New(mismatch...)
	for i, k := range match {
		if not.Has(k) {
			v.Invalid(item(child(p, "matchLabelKeys"), i), k, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

// unmergedLabelKeys is matchLabelKeys for objects stored before keys were merged into selectors.
func (v *validator) unmergedLabelKeys(p *field.Path, keys []string, s *metav1.LabelSelector) {
	if len(keys) == 0 {
		return
	}
	taken := sets.New[string]()
	if s == nil {
		v.Forbidden(p, "must not be specified when labelSelector is not set")
	} else {
		taken = sets.KeySet(s.MatchLabels)
		for _, e := range s.MatchExpressions {
			taken.Insert(e.Key)
		}
	}
	for i, k := range keys {
		v.labelName(item(p, i), k)
		if taken.Has(k) {
			v.Invalid(item(p, i), k, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func (v *validator) spreadConstraints(p *field.Path) {
	list := v.spec.TopologySpreadConstraints
	for i := range list {
		c, at := &list[i], item(p, i)
		v.Positive(child(at, "maxSkew"), int64(c.MaxSkew))
		if c.TopologyKey == "" {
			v.Required(child(at, "topologyKey"), "can not be empty")
		}
		check.OneOf(&v.Errors, child(at, "whenUnsatisfiable"), c.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)
		for _, other := range list[i+1:] {
			if c.TopologyKey == other.TopologyKey && c.WhenUnsatisfiable == other.WhenUnsatisfiable {
				v.Duplicate(child(at, "{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable))
				break
			}
		}
		if m := c.MinDomains; m != nil {
			v.Positive(child(at, "minDomains"), int64(*m))
			if c.WhenUnsatisfiable != v1.DoNotSchedule {
				v.Invalid(child(at, "minDomains"), m,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", v1.DoNotSchedule, c.WhenUnsatisfiable))
			}
		}
		v.inclusion(child(at, "nodeAffinityPolicy"), c.NodeAffinityPolicy)
		v.inclusion(child(at, "nodeTaintsPolicy"), c.NodeTaintsPolicy)
		if v.o.LegacySpreadKeys {
			v.unmergedLabelKeys(child(at, "matchLabelKeys"), c.MatchLabelKeys, c.LabelSelector)
		} else {
			v.matchLabelKeys(at, c.MatchLabelKeys, nil, c.LabelSelector)
		}
		if !v.o.BadSpreadSelector {
			v.labelSelector(child(at, "labelSelector"), c.LabelSelector)
		}
	}
}

func (v *validator) inclusion(p *field.Path, policy *v1.NodeInclusionPolicy) {
	if policy != nil {
		check.OneOf(&v.Errors, p, *policy, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
	}
}
