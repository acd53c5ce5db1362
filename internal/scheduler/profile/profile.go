// Package profile reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): the profiles of a scheduler, their plug-ins, weights
// and arguments. Each field is honoured, or refused by its path. It is pure.
package profile

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// Profile is how the pods that name one scheduler are placed.
type Profile struct {
	Name string // the name in pods' spec.schedulerName
	Set  plugins.Set
	// Percent of the nodes are looked for and scored; 0: a share that falls with their number.
	Percent int
}

// Config is what a scheduler is told.
type Config struct {
	Profiles                 []Profile
	FirstBackoff, MaxBackoff time.Duration
	// Extenders serve all profiles.
	Extenders []configv1.Extender
}

// Given is what the scheduler's owner provides for plug-ins.
type Given struct {
	// Like is described at plugins.PodTopologySpread.
	Like func(*v1.Pod) labels.Selector
	// Volumes makes the plug-ins about volumes, each under upstream's name; nil: there are none. It is called for each profile,
	// and all of them must share one store of reservations.
	Volumes func(Volumes) []framework.Relation
}

// Volumes are the arguments of VolumeBinding.
type Volumes struct {
	BindTimeout time.Duration
	// Capacity scores the use of storage in percent, 0..100; nil: upstream's default.
	Capacity func(used int64) int64
}

// Default is upstream's configuration: one profile.
func Default(given Given) Config {
	r := reader{given: given}
	set := r.set(field.NewPath("profiles"), &configv1.Plugins{}, r.arguments(field.NewPath("profiles"), nil))
	return Config{
		Profiles:     []Profile{{Name: v1.DefaultSchedulerName, Set: set}},
		FirstBackoff: time.Second, MaxBackoff: 10 * time.Second,
	}
}

// Read makes a Config of a file's text. The error names every field that is wrong.
func Read(text []byte, given Given) (Config, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return Config{}, err
	}
	var c configv1.KubeSchedulerConfiguration
	if err := strictly(raw, &c); err != nil {
		return Config{}, err
	}
	if c.APIVersion != configv1.SchemeGroupVersion.String() || c.Kind != "KubeSchedulerConfiguration" {
		return Config{}, fmt.Errorf("apiVersion %q and kind %q are not those of a scheduler's configuration: write apiVersion: %s and kind: KubeSchedulerConfiguration",
			c.APIVersion, c.Kind, configv1.SchemeGroupVersion)
	}
	r := reader{given: given}
	out := r.config(&c)
	return out, r.errs.ToAggregate()
}

// strictly decodes JSON, refusing fields that are unknown or there twice.
func strictly(raw []byte, into any) error {
	strict, err := json.UnmarshalStrict(raw, into)
	if err != nil {
		return err
	}
	if len(strict) > 0 {
		return fmt.Errorf("%w", strict[0])
	}
	return nil
}

// reader collects what is wrong.
type reader struct {
	given Given
	errs  field.ErrorList
	// ignore are the resources that extenders manage.
	ignore []string
}

func (r *reader) invalid(p *field.Path, value any, why string) {
	r.errs = append(r.errs, field.Invalid(p, value, why))
}

func (r *reader) config(c *configv1.KubeSchedulerConfiguration) Config {
	out := Default(r.given)
	r.ignore = ignored(c.Extenders)
	if c.Parallelism != nil && *c.Parallelism <= 0 {
		r.invalid(field.NewPath("parallelism"), *c.Parallelism, "should be an integer value greater than zero")
	}
	out.Extenders = r.extenders(field.NewPath("extenders"), c.Extenders)
	r.inProcess(c)
	percent := r.percent(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore, 0)
	if s := c.PodInitialBackoffSeconds; s != nil {
		if out.FirstBackoff = time.Duration(*s) * time.Second; *s <= 0 {
			r.invalid(field.NewPath("podInitialBackoffSeconds"), *s, "must be greater than 0")
		}
	}
	if s := c.PodMaxBackoffSeconds; s != nil {
		out.MaxBackoff = time.Duration(*s) * time.Second
	}
	if out.MaxBackoff < out.FirstBackoff {
		r.invalid(field.NewPath("podMaxBackoffSeconds"), int64(out.MaxBackoff/time.Second), "must be greater than or equal to PodInitialBackoffSeconds")
	}
	if len(c.Profiles) == 0 {
		c.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	out.Profiles = nil
	for i := range c.Profiles {
		p := r.profile(field.NewPath("profiles").Index(i), &c.Profiles[i], len(c.Profiles) == 1, percent)
		if slices.ContainsFunc(out.Profiles, func(o Profile) bool { return o.Name == p.Name }) {
			r.errs = append(r.errs, field.Duplicate(field.NewPath("profiles").Index(i).Child("schedulerName"), p.Name))
		}
		out.Profiles = append(out.Profiles, p)
	}
	return out
}

// inProcess refuses what a scheduler of its own process would need.
func (r *reader) inProcess(c *configv1.KubeSchedulerConfiguration) {
	forbid := func(name, why string) {
		r.errs = append(r.errs, field.Forbidden(field.NewPath(name), why+": remove it"))
	}
	election := c.LeaderElection
	if election.LeaderElect != nil && *election.LeaderElect {
		election.LeaderElect = nil // that is so
	}
	if election != zero(election) {
		forbid("leaderElection", "servers on one store elect their leader by themselves")
	}
	if c.ClientConnection != zero(c.ClientConnection) {
		forbid("clientConnection", "the scheduler is in the server's process")
	}
	if c.EnableProfiling != nil || c.EnableContentionProfiling != nil {
		forbid("enableProfiling", "the scheduler has no port of its own")
	}
	if c.DelayCacheUntilActive {
		forbid("delayCacheUntilActive", "a server that stands by keeps its view up to date for its API")
	}
}

func zero[T any](T) (z T) { return z }

func (r *reader) percent(p *field.Path, value *int32, or int) int {
	if value == nil {
		return or
	}
	if *value < 0 || *value > 100 {
		r.invalid(p, *value, "not in valid range [0-100]")
	}
	return int(*value)
}

func (r *reader) profile(path *field.Path, c *configv1.KubeSchedulerProfile, only bool, percent int) Profile {
	out := Profile{Percent: r.percent(path.Child("percentageOfNodesToScore"), c.PercentageOfNodesToScore, percent)}
	switch {
	case c.SchedulerName != nil && *c.SchedulerName != "":
		out.Name = *c.SchedulerName
	case only && c.SchedulerName == nil:
		out.Name = v1.DefaultSchedulerName
	default:
		r.errs = append(r.errs, field.Required(path.Child("schedulerName"), ""))
	}
	made := r.arguments(path.Child("pluginConfig"), c.PluginConfig)
	if c.Plugins == nil {
		c.Plugins = &configv1.Plugins{}
	}
	out.Set = r.set(path.Child("plugins"), c.Plugins, made)
	return out
}
