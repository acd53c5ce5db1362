package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// point is an extension point, named as its field in the configuration.
type point string

const (
	preEnqueue point = "preEnqueue"
	queueSort  point = "queueSort"
	preFilter  point = "preFilter"
	filter     point = "filter"
	postFilter point = "postFilter"
	preScore   point = "preScore"
	score      point = "score"
	reserve    point = "reserve"
	preBind    point = "preBind"
	bind       point = "bind"
	multiPoint point = "multiPoint"
)

// plugin is a configurable plug-in: its extension points, and its default weight among scores.
type plugin struct {
	name   string
	points []point
	weight int64
}

// known are the plug-ins in the order of upstream's default profile.
var known = []plugin{
	{"SchedulingGates", []point{preEnqueue}, 0},
	{"PrioritySort", []point{queueSort}, 0},
	{"NodeUnschedulable", []point{filter}, 0},
	{"NodeName", []point{filter}, 0},
	{"TaintToleration", []point{filter, preScore, score}, 3},
	{"NodeAffinity", []point{preFilter, filter, preScore, score}, 2},
	{"NodePorts", []point{preFilter, filter}, 0},
	{"NodeResourcesFit", []point{preFilter, filter, preScore, score}, 1},
	{"VolumeRestrictions", []point{preFilter, filter}, 0},
	{"NodeVolumeLimits", []point{preFilter, filter}, 0},
	{"VolumeBinding", []point{preFilter, filter, preScore, score, reserve, preBind}, 1},
	{"VolumeZone", []point{preFilter, filter}, 0},
	{"PodTopologySpread", []point{preFilter, filter, preScore, score}, 2},
	{"InterPodAffinity", []point{preFilter, filter, preScore, score}, 2},
	{"DefaultPreemption", []point{postFilter}, 0},
	{"NodeResourcesBalancedAllocation", []point{preScore, score}, 1},
	{"ImageLocality", []point{score}, 1},
	{"DefaultBinder", []point{bind}, 0},
	{"NodeDeclaredFeatures", []point{preFilter, filter}, 0},
}

// elsewhere are default plug-ins of upstream that do not exist here yet. A configuration may disable them.
var elsewhere = []string{"DynamicResources", "GangScheduling", "DeferredPodScheduling"}

// aboutVolumes are those of known that only exist where Given.Volumes provides them.
var aboutVolumes = []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}

func find(name string) *plugin {
	if i := slices.IndexFunc(known, func(p plugin) bool { return p.name == name }); i >= 0 {
		return &known[i]
	}
	return nil
}

// enabled are the plug-ins of an extension point with their weights, in order.
type enabled struct {
	names  []string
	weight map[string]int64
}

func (e *enabled) add(name string, weight int64) {
	if !slices.Contains(e.names, name) {
		e.names = append(e.names, name)
	}
	if e.weight == nil {
		e.weight = map[string]int64{}
	}
	e.weight[name] = weight
}

// weightOf is the weight of a plug-in that a configuration enables: 1 where it says none, whatever its default.
func weightOf(p configv1.Plugin) int64 {
	if p.Weight == nil {
		return 1
	}
	return max(int64(*p.Weight), 1)
}

func disables(set configv1.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Disabled, func(p configv1.Plugin) bool { return p.Name == name || p.Name == "*" })
}

// merge applies a profile's plug-ins to the default ones. multiPoint stands for every point of a plug-in; what a specific point
// says comes first and wins.
func (r *reader) merge(path *field.Path, c *configv1.Plugins) map[point]*enabled {
	sets := map[point]configv1.PluginSet{
		preEnqueue: c.PreEnqueue, queueSort: c.QueueSort, preFilter: c.PreFilter, filter: c.Filter, postFilter: c.PostFilter, preScore: c.PreScore,
		score: c.Score, reserve: c.Reserve, preBind: c.PreBind, bind: c.Bind, multiPoint: c.MultiPoint,
	}
	r.check(path, sets)
	for name, set := range map[string]configv1.PluginSet{
		"permit": c.Permit, "postBind": c.PostBind,
		"placementGenerate": c.PlacementGenerate, "placementScore": c.PlacementScore, "podGroupPostFilter": c.PodGroupPostFilter,
	} {
		for i, p := range set.Enabled {
			r.invalid(path.Child(name, "enabled").Index(i).Child("name"), p.Name, "no plug-in has this extension point: leave it out")
		}
	}
	everywhere := enabled{}
	for _, p := range known {
		if !disables(c.MultiPoint, p.name) {
			everywhere.add(p.name, p.weight)
		}
	}
	for _, p := range c.MultiPoint.Enabled {
		if find(p.Name) != nil {
			everywhere.add(p.Name, weightOf(p))
		}
	}
	out := map[point]*enabled{}
	for at, set := range sets {
		if at == multiPoint {
			continue
		}
		e := &enabled{}
		for _, p := range set.Enabled {
			if find(p.Name) != nil {
				e.add(p.Name, weightOf(p))
			}
		}
		for _, name := range everywhere.names {
			if slices.Contains(find(name).points, at) && !disables(set, name) && !slices.Contains(e.names, name) {
				e.add(name, everywhere.weight[name])
			}
		}
		out[at] = e
	}
	return out
}

// check refuses unknown plug-ins, and those that do not have the point.
func (r *reader) check(path *field.Path, sets map[point]configv1.PluginSet) {
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		set, p := sets[at], path.Child(string(at))
		for i, x := range set.Enabled {
			here := p.Child("enabled").Index(i)
			k := find(x.Name)
			switch {
			case k == nil && slices.Contains(elsewhere, x.Name), slices.Contains(aboutVolumes, x.Name) && r.given.Volumes == nil:
				r.invalid(here.Child("name"), x.Name, "this plug-in is not supported yet: leave it out")
			case k == nil:
				r.errs = append(r.errs, field.NotSupported(here.Child("name"), x.Name, names()))
			case at != multiPoint && !slices.Contains(k.points, at):
				r.invalid(here.Child("name"), x.Name, fmt.Sprintf("plugin %q does not extend %s: it has %s", x.Name, at, join(k.points)))
			case slices.ContainsFunc(set.Enabled[:i], func(o configv1.Plugin) bool { return o.Name == x.Name }):
				r.errs = append(r.errs, field.Duplicate(here.Child("name"), x.Name))
			}
			if x.Weight != nil && *x.Weight < 0 {
				r.invalid(here.Child("weight"), *x.Weight, "must not be negative")
			}
		}
		for i, x := range set.Disabled {
			if x.Name != "*" && find(x.Name) == nil && !slices.Contains(elsewhere, x.Name) {
				r.errs = append(r.errs, field.NotSupported(p.Child("disabled").Index(i).Child("name"), x.Name, append(names(), "*")))
			}
		}
	}
}

func names() (out []string) {
	for _, p := range known {
		out = append(out, p.name)
	}
	return out
}

func join(points []point) string {
	var out []string
	for _, p := range points {
		out = append(out, string(p))
	}
	return strings.Join(out, ", ")
}

// set makes the plug-ins that the points name. A plug-in that filters needs its preFilter enabled too, and one that scores its
// preScore.
func (r *reader) set(path *field.Path, c *configv1.Plugins, with arguments) plugins.Set {
	at := r.merge(path, c)
	out := plugins.Set{Sort: plugins.PrioritySort{}, Preemption: with.preemption}
	if len(at[queueSort].names) != 1 {
		r.invalid(path.Child("queueSort"), at[queueSort].names, "exactly one plug-in must be enabled: PrioritySort")
	}
	if len(at[bind].names) == 0 {
		r.errs = append(r.errs, field.Required(path.Child("bind"), "at least one bind plugin is needed: DefaultBinder"))
	}
	if len(at[preEnqueue].names) > 0 {
		out.PreEnqueue = []framework.PreEnqueue{plugins.SchedulingGates{}}
	}
	out.Preemption.Off = len(at[postFilter].names) == 0
	if slices.Contains(at[preFilter].names, with.affinity.Name()) {
		out.PreFilters = []framework.PreFilter{with.affinity}
	}
	filters := map[string]framework.Filter{}
	for _, f := range []framework.Filter{
		plugins.NodeUnschedulable{},
		plugins.NodeName{},
		plugins.TaintToleration{},
		with.affinity,
		plugins.NodePorts{},
		with.fit,
		plugins.NodeDeclaredFeatures{},
	} {
		filters[f.Name()] = f
	}
	last := 0 // relation
	relations := append(with.volumes, with.spread, with.interPod, plugins.ImageLocality{})
	for i, name := range at[filter].names {
		if slices.ContainsFunc(relations, func(x framework.Relation) bool { return x.Name() == name }) {
			last = i
		}
	}
	for i, name := range at[filter].names {
		switch f := filters[name]; {
		case f == nil:
		case last > 0 && i > last:
			out.Last = append(out.Last, f)
		default:
			out.Filters = append(out.Filters, f)
		}
	}
	scores := map[string]framework.Score{}
	for _, s := range []framework.Score{plugins.TaintToleration{}, with.affinity, with.fit, with.balanced} {
		scores[s.Name()] = s
	}
	for _, name := range at[score].names {
		if s := scores[name]; s != nil {
			out.Scores = append(out.Scores, plugins.Score{Score: s, Weight: at[score].weight[name]})
		}
	}
	for _, x := range relations {
		one := plugins.Relation{Relation: x, Filters: slices.Contains(at[filter].names, x.Name())}
		if slices.Contains(at[score].names, x.Name()) {
			one.Weight = at[score].weight[x.Name()]
		}
		if one.Filters || one.Weight > 0 {
			out.Relations = append(out.Relations, one)
		}
	}
	return out
}
