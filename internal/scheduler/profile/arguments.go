package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// arguments are the plug-ins that take arguments, made with theirs.
type arguments struct {
	fit        plugins.NodeResourcesFit
	balanced   plugins.BalancedAllocation
	affinity   plugins.NodeAffinity
	spread     plugins.PodTopologySpread
	interPod   plugins.InterPodAffinity
	preemption plugins.Preemption
	volumes    []framework.Relation
}

func (r *reader) arguments(path *field.Path, list []configv1.PluginConfig) arguments {
	out := arguments{
		spread: plugins.PodTopologySpread{Like: r.given.Like}, interPod: plugins.InterPodAffinity{HardWeight: 1},
		preemption: plugins.Preemption{Percent: 10, AtLeast: 100},
	}
	volumes := Volumes{BindTimeout: 10 * time.Minute}
	for i := range list {
		c, p := &list[i], path.Index(i)
		if slices.ContainsFunc(list[:i], func(o configv1.PluginConfig) bool { return o.Name == c.Name }) {
			r.errs = append(r.errs, field.Duplicate(p, c.Name))
			continue
		}
		read := map[string]func(*field.Path, []byte){
			"NodeResourcesFit":                func(p *field.Path, raw []byte) { r.fit(p, raw, &out.fit) },
			"NodeResourcesBalancedAllocation": func(p *field.Path, raw []byte) { r.balanced(p, raw, &out.balanced) },
			"NodeAffinity":                    func(p *field.Path, raw []byte) { r.affinity(p, raw, &out.affinity) },
			"PodTopologySpread":               func(p *field.Path, raw []byte) { r.spread(p, raw, &out.spread) },
			"InterPodAffinity":                func(p *field.Path, raw []byte) { r.interPod(p, raw, &out.interPod) },
			"DefaultPreemption":               func(p *field.Path, raw []byte) { r.preemption(p, raw, &out.preemption) },
			"VolumeBinding":                   func(p *field.Path, raw []byte) { r.volumes(p, raw, &volumes) },
		}[c.Name]
		if read == nil {
			r.errs = append(r.errs, field.NotSupported(p.Child("name"), c.Name, []string{
				"DefaultPreemption", "InterPodAffinity", "NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread", "VolumeBinding",
			}))
			continue
		}
		raw := c.Args.Raw
		if len(raw) == 0 {
			raw = []byte("{}")
		}
		read(p.Child("args"), raw)
	}
	if len(r.ignore) > 0 {
		out.fit.Ignored = ignores(r.ignore, out.fit.Ignored)
	}
	if r.given.Volumes != nil {
		out.volumes = r.given.Volumes(volumes)
	}
	return out
}

// ignores adds names to the ignored resources; or may be nil.
func ignores(names []string, or func(v1.ResourceName) bool) func(v1.ResourceName) bool {
	return func(name v1.ResourceName) bool { return slices.Contains(names, string(name)) || or != nil && or(name) }
}

func (r *reader) volumes(p *field.Path, raw []byte, out *Volumes) {
	c := configv1.VolumeBindingArgs{}
	if !r.decode(p, raw, &c) {
		return
	}
	if s := c.BindTimeoutSeconds; s != nil {
		if out.BindTimeout = time.Duration(*s) * time.Second; *s < 0 {
			r.invalid(p.Child("bindTimeoutSeconds"), *s, "invalid BindTimeoutSeconds, should not be a negative value")
		}
	}
	if len(c.Shape) > 0 {
		out.Capacity = r.curve(p.Child("shape"), c.Shape)
	}
}

// decode reads arguments and tells whether they are usable.
func (r *reader) decode(p *field.Path, raw []byte, into any) bool {
	if err := strictly(raw, into); err != nil {
		r.invalid(p, string(raw), err.Error())
		return false
	}
	return true
}

func (r *reader) fit(p *field.Path, raw []byte, out *plugins.NodeResourcesFit) {
	var c configv1.NodeResourcesFitArgs
	if !r.decode(p, raw, &c) {
		return
	}
	for i, name := range c.IgnoredResources {
		r.errs = append(r.errs, validation.ValidateLabelName(name, p.Child("ignoredResources").Index(i))...)
	}
	for i, g := range c.IgnoredResourceGroups {
		at := p.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(g, "/") {
			r.invalid(at, g, "resource group name can't contain '/'")
		}
		r.errs = append(r.errs, validation.ValidateLabelName(g, at)...)
	}
	if len(c.IgnoredResources)+len(c.IgnoredResourceGroups) > 0 {
		out.Ignored = func(name v1.ResourceName) bool {
			group, _, grouped := strings.Cut(string(name), "/")
			return slices.Contains(c.IgnoredResources, string(name)) || grouped && slices.Contains(c.IgnoredResourceGroups, group)
		}
	}
	if c.ScoringStrategy == nil {
		return
	}
	s, at := c.ScoringStrategy, p.Child("scoringStrategy")
	out.Strategy.Resources = r.resources(at.Child("resources"), s.Resources)
	if s.RequestedToCapacityRatio != nil && s.Type != configv1.RequestedToCapacityRatio {
		r.errs = append(r.errs, field.Forbidden(at.Child("requestedToCapacityRatio"), "must be nil when type is not RequestedToCapacityRatio"))
	}
	switch s.Type {
	case configv1.LeastAllocated:
	case configv1.MostAllocated:
		out.Strategy.Score, out.Strategy.Beyond = func(used int64) int64 { return used }, framework.MaxScore
	case configv1.RequestedToCapacityRatio:
		if s.RequestedToCapacityRatio == nil {
			r.errs = append(r.errs, field.Required(at.Child("requestedToCapacityRatio"), "must be specified when type is RequestedToCapacityRatio"))
			return
		}
		curve := r.curve(at.Child("requestedToCapacityRatio", "shape"), s.RequestedToCapacityRatio.Shape)
		out.Strategy.Score, out.Strategy.LeaveOutZero = curve, true
		if curve != nil {
			out.Strategy.Beyond = curve(framework.MaxScore)
		}
	default:
		r.errs = append(r.errs, field.NotSupported(at.Child("type"), s.Type, []configv1.ScoringStrategyType{
			configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio,
		}))
	}
}

func (r *reader) resources(p *field.Path, list []configv1.ResourceSpec) []plugins.Resource {
	var out []plugins.Resource
	for i, x := range list {
		if x.Weight == 0 {
			x.Weight = 1
		}
		if x.Weight < 1 || x.Weight > 100 {
			r.invalid(p.Index(i).Child("weight"), x.Weight, fmt.Sprintf("resource weight of %s not in valid range (0, 100]", x.Name))
		}
		out = append(out, plugins.Resource{Name: v1.ResourceName(x.Name), Weight: x.Weight})
	}
	return out
}

// maxShapeScore is the highest score in a shape, as in extenders' answers.
const maxShapeScore = 10

// curve joins the points of a shape by straight lines: use in percent -> 0..100.
func (r *reader) curve(p *field.Path, shape []configv1.UtilizationShapePoint) func(int64) int64 {
	if len(shape) == 0 {
		r.errs = append(r.errs, field.Required(p, "at least one point must be specified"))
		return nil
	}
	for i := range shape[1:] {
		if x := shape[i+1]; x.Utilization <= shape[i].Utilization {
			r.invalid(p.Index(i+1).Child("utilization"), x.Utilization, "values must be sorted in increasing order")
			break // it is said once
		}
	}
	for i, x := range shape {
		if x.Utilization < 0 || x.Utilization > 100 {
			r.invalid(p.Index(i).Child("utilization"), x.Utilization, "not in valid range [0, 100]")
		}
		if x.Score < 0 || x.Score > maxShapeScore {
			r.invalid(p.Index(i).Child("score"), x.Score, "not in valid range [0, 10]")
		}
	}
	value := func(i int) int64 { return int64(shape[i].Score) * (framework.MaxScore / maxShapeScore) }
	return func(used int64) int64 {
		for i, x := range shape {
			if used > int64(x.Utilization) {
				continue
			}
			if i == 0 {
				return value(0)
			}
			from, to := int64(shape[i-1].Utilization), int64(x.Utilization)
			return value(i-1) + (value(i)-value(i-1))*(used-from)/(to-from)
		}
		return value(len(shape) - 1)
	}
}

func (r *reader) balanced(p *field.Path, raw []byte, out *plugins.BalancedAllocation) {
	var c configv1.NodeResourcesBalancedAllocationArgs
	if !r.decode(p, raw, &c) {
		return
	}
	for i, x := range c.Resources {
		if slices.Contains(out.Resources, v1.ResourceName(x.Name)) {
			r.errs = append(r.errs, field.Duplicate(p.Child("resources").Index(i).Child("name"), x.Name))
		}
		if x.Weight != 0 && x.Weight != 1 {
			r.invalid(p.Child("resources").Index(i).Child("weight"), x.Weight, "must be 1")
		}
		out.Resources = append(out.Resources, v1.ResourceName(x.Name))
	}
}

func (r *reader) affinity(p *field.Path, raw []byte, out *plugins.NodeAffinity) {
	var c configv1.NodeAffinityArgs
	if !r.decode(p, raw, &c) || c.AddedAffinity == nil {
		return
	}
	at := p.Child("addedAffinity")
	if s := c.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		added, err := nodeaffinity.NewNodeSelector(s, field.WithPath(at.Child("requiredDuringSchedulingIgnoredDuringExecution")))
		r.also(err)
		out.Added = added
	}
	if list := c.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(list) > 0 {
		added, err := nodeaffinity.NewPreferredSchedulingTerms(list, field.WithPath(at.Child("preferredDuringSchedulingIgnoredDuringExecution")))
		r.also(err)
		out.AddedPreferred = added
	}
}

// also adds an error that holds several, each with its path.
func (r *reader) also(err error) {
	var many utilerrors.Aggregate
	switch {
	case err == nil:
	case errors.As(err, &many):
		for _, err := range many.Errors() {
			r.also(err)
		}
	default:
		var one *field.Error
		if !errors.As(err, &one) {
			one = field.InternalError(nil, err)
		}
		r.errs = append(r.errs, one)
	}
}

func (r *reader) spread(p *field.Path, raw []byte, out *plugins.PodTopologySpread) {
	c := configv1.PodTopologySpreadArgs{}
	if !r.decode(p, raw, &c) {
		return
	}
	switch c.DefaultingType {
	case "", configv1.SystemDefaulting:
		if len(c.DefaultConstraints) > 0 {
			r.invalid(p.Child("defaultingType"), configv1.SystemDefaulting, "when .defaultConstraints are not empty")
		}
		return
	case configv1.ListDefaulting:
	default:
		r.errs = append(r.errs, field.NotSupported(p.Child("defaultingType"), c.DefaultingType, []configv1.PodTopologySpreadConstraintsDefaulting{
			configv1.SystemDefaulting, configv1.ListDefaulting,
		}))
	}
	out.Defaults = []v1.TopologySpreadConstraint{} // none of the system's
	for i, x := range c.DefaultConstraints {
		at := p.Child("defaultConstraints").Index(i)
		if x.MaxSkew <= 0 {
			r.invalid(at.Child("maxSkew"), x.MaxSkew, "not in valid range (0, inf)")
		}
		if x.TopologyKey == "" {
			r.errs = append(r.errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		} else {
			r.errs = append(r.errs, validation.ValidateLabelName(x.TopologyKey, at.Child("topologyKey"))...)
		}
		switch x.WhenUnsatisfiable {
		case v1.DoNotSchedule, v1.ScheduleAnyway:
		case "":
			r.errs = append(r.errs, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
		default:
			r.errs = append(r.errs, field.NotSupported(at.Child("whenUnsatisfiable"), x.WhenUnsatisfiable, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}))
		}
		if x.LabelSelector != nil {
			r.errs = append(r.errs, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
		}
		if slices.ContainsFunc(out.Defaults, func(o v1.TopologySpreadConstraint) bool {
			return o.TopologyKey == x.TopologyKey && o.WhenUnsatisfiable == x.WhenUnsatisfiable
		}) {
			r.errs = append(r.errs, field.Duplicate(at, fmt.Sprintf("{%v, %v}", x.TopologyKey, x.WhenUnsatisfiable)))
		}
		out.Defaults = append(out.Defaults, x)
	}
}

func (r *reader) interPod(p *field.Path, raw []byte, out *plugins.InterPodAffinity) {
	c := configv1.InterPodAffinityArgs{}
	if !r.decode(p, raw, &c) {
		return
	}
	if w := c.HardPodAffinityWeight; w != nil {
		if out.HardWeight = int64(*w); *w < 0 || *w > 100 {
			r.invalid(p.Child("hardPodAffinityWeight"), *w, "not in valid range [0, 100]")
		}
	}
	out.OwnPreferencesOnly = c.IgnorePreferredTermsOfExistingPods
}

func (r *reader) preemption(p *field.Path, raw []byte, out *plugins.Preemption) {
	c := configv1.DefaultPreemptionArgs{}
	if !r.decode(p, raw, &c) {
		return
	}
	if v := c.MinCandidateNodesPercentage; v != nil {
		if out.Percent = int(*v); *v < 0 || *v > 100 {
			r.invalid(p.Child("minCandidateNodesPercentage"), *v, "not in valid range [0, 100]")
		}
	}
	if v := c.MinCandidateNodesAbsolute; v != nil {
		if out.AtLeast = int(*v); *v < 0 {
			r.invalid(p.Child("minCandidateNodesAbsolute"), *v, "not in valid range [0, inf)")
		}
	}
	if out.Percent == 0 && out.AtLeast == 0 {
		r.invalid(p.Child("minCandidateNodesPercentage"), 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
		r.invalid(p.Child("minCandidateNodesAbsolute"), 0, "cannot be zero at the same time as minCandidateNodesPercentage")
	}
}
