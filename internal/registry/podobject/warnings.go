package podobject

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podspec"
)

// oldLabels are labels of nodes that were renamed or dropped.
var oldLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// OldNodeLabel tells what is said of a node's label that was renamed or dropped.
func OldNodeLabel(key string) (msg string, old bool) {
	msg, old = oldLabels[key]
	return msg, old
}

// warner collects what is accepted but unwise, of a pod or of a template; spec and notes are where these have their spec and
// annotations.
type warner struct {
	spec, notes *field.Path
	template    bool
	out         []string
}

func (w *warner) at(p *field.Path, format string, args ...any) {
	w.out = append(w.out, p.String()+": "+fmt.Sprintf(format, args...))
}

// Warnings tells what is accepted of a new pod but unwise.
func Warnings(pod *v1.Pod) []string {
	w := &warner{spec: specPath, notes: annotationsPath}
	if msgs := validation.IsDNS1123Label(pod.Name); len(msgs) > 0 {
		w.at(metaPath.Child("name"), "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", msgs)
	}
	w.pod(pod)
	return w.out
}

func (w *warner) pod(pod *v1.Pod) {
	spec := &pod.Spec
	w.placement(spec)
	w.annotations(pod.Annotations)
	w.volumes(spec)
	hosts, secrets := sets.New[string](), sets.New[string]()
	for i, a := range spec.HostAliases {
		if hosts.Has(a.IP) {
			w.at(w.spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		hosts.Insert(a.IP)
	}
	for i, s := range spec.ImagePullSecrets {
		if secrets.Has(s.Name) {
			w.at(w.spec.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets.Insert(s.Name)
	}
	for i, s := range spec.ImagePullSecrets {
		if s.Name == "" {
			w.at(w.spec.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
	w.fractions(w.spec.Child("overhead"), spec.Overhead)
	w.profiles(pod)
	for p, c := range podspec.WithPaths(spec, w.spec) {
		w.fractions(p.Child("resources", "limits"), c.Resources.Limits)
		w.fractions(p.Child("resources", "requests"), c.Resources.Requests)
		w.env(p.Child("env"), c.Env)
	}
	w.ports(spec)
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.at(w.spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.nullSelectors(spec)
	if spec.DNSConfig != nil {
		for i, ns := range spec.DNSConfig.Nameservers {
			w.out = append(w.out, validation.GetWarningsForIP(w.spec.Child("dnsConfig", "nameservers").Index(i), ns)...)
		}
	}
	for i, a := range spec.HostAliases {
		w.out = append(w.out, validation.GetWarningsForIP(w.spec.Child("hostAliases").Index(i).Child("ip"), a.IP)...)
	}
}

func (w *warner) placement(spec *v1.PodSpec) {
	for _, k := range check.Sorted(spec.NodeSelector) {
		if msg, ok := oldLabels[k]; ok {
			w.at(w.spec.Child("nodeSelector").Key(k), "%s", msg)
		}
	}
	term := func(p *field.Path, t v1.NodeSelectorTerm, values bool) {
		for i, r := range t.MatchExpressions {
			at := p.Child("matchExpressions").Index(i)
			if msg, ok := oldLabels[r.Key]; ok {
				w.at(at.Child("key"), "%s is %s", r.Key, msg)
			}
			if !values {
				continue
			}
			for j, value := range r.Values {
				for _, msg := range validation.IsValidLabelValue(value) {
					w.at(at.Child("values").Index(j), "%s is invalid, %s", value, msg)
				}
			}
		}
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		p := w.spec.Child("affinity", "nodeAffinity")
		if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i, t := range r.NodeSelectorTerms {
				term(p.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i), t, false)
			}
		}
		for i, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			term(p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"), t.Preference, true)
		}
	}
	for i, c := range spec.TopologySpreadConstraints {
		at := w.spec.Child("topologySpreadConstraints").Index(i)
		if msg, ok := oldLabels[c.TopologyKey]; ok {
			w.at(at.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		if c.LabelSelector == nil {
			w.at(at.Child("labelSelector"), "a null labelSelector results in matching no pod")
		}
	}
}

// annotations of earlier times that do nothing any more.
func (w *warner) annotations(given map[string]string) {
	for _, old := range []struct{ key, field, since string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", "priorityClassName", "v1.16"},
		{"security.alpha.kubernetes.io/sysctls", "sysctls", "v1.11"},
		{"security.alpha.kubernetes.io/unsafe-sysctls", "sysctls", "v1.11"},
	} {
		if _, ok := given[old.key]; ok {
			w.at(w.notes.Key(old.key), "non-functional in %s+; use the %q field instead", old.since, old.field)
		}
	}
}

func (w *warner) volumes(spec *v1.PodSpec) {
	for i := range spec.Volumes {
		v, p := &spec.Volumes[i], w.spec.Child("volumes").Index(i)
		for _, old := range []struct {
			set        bool
			name, text string
		}{
			{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
			{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
			{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
			{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
			{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
			{v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
			{v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if old.set {
				w.at(p.Child(old.name), "%s", old.text)
			}
		}
		if e := v.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			sizes, at := e.VolumeClaimTemplate.Spec.Resources, p.Child("ephemeral", "volumeClaimTemplate", "spec", "resources")
			w.fraction(at.Child("requests"), sizes.Requests, v1.ResourceStorage)
			w.fraction(at.Child("limits"), sizes.Limits, v1.ResourceStorage)
		}
	}
	for i := range spec.Volumes {
		w.overlaps(&spec.Volumes[i])
	}
}

// fractions: there is no half byte.
func (w *warner) fractions(p *field.Path, list v1.ResourceList) {
	w.fraction(p, list, v1.ResourceMemory)
	w.fraction(p, list, v1.ResourceEphemeralStorage)
}

func (w *warner) fraction(p *field.Path, list v1.ResourceList, name v1.ResourceName) {
	if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
		w.at(p.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

// profiles: security annotations of earlier times do nothing by themselves any more.
func (w *warner) profiles(pod *v1.Pod) {
	const gone = `non-functional in v1.27+; use the "seccompProfile" field instead`
	if sc := pod.Spec.SecurityContext; sc == nil || sc.SeccompProfile == nil {
		if _, ok := pod.Annotations[seccompPodKey]; ok {
			w.at(w.notes.Key(seccompPodKey), gone)
		}
	}
	for c := range podspec.Containers(&pod.Spec) {
		key := seccompPrefix + c.Name
		if _, ok := pod.Annotations[key]; ok && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			w.at(w.notes.Key(key), gone)
		}
		if w.template {
			w.appArmor(pod, c)
		}
	}
}

// oldAppArmor: a container's profile stands in an annotation.
func (w *warner) oldAppArmor(container string) {
	w.at(w.notes.Key(appArmorPrefix+container), `deprecated since v1.30; use the "appArmorProfile" field instead`)
}

// appArmor: a pod's own annotation is turned into the field, and Outdated tells of it.
func (w *warner) appArmor(pod *v1.Pod, c *v1.Container) {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return
	}
	text, ok := pod.Annotations[appArmorPrefix+c.Name]
	if !ok {
		return
	}
	if sc := pod.Spec.SecurityContext; sc != nil && sc.AppArmorProfile != nil && sameProfile(sc.AppArmorProfile, appArmorFromAnnotation(text)) {
		return
	}
	w.oldAppArmor(c.Name)
}

// env: a name that is given again hides the first, unless its value builds on it.
func (w *warner) env(p *field.Path, vars []v1.EnvVar) {
	seen := sets.New[string]()
	for i, e := range vars {
		ref := "$(" + e.Name + ")"
		if seen.Has(e.Name) && (e.ValueFrom != nil || e.Value == ref || !strings.Contains(e.Value, ref)) {
			w.at(p.Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen.Insert(e.Name)
	}
}

func (w *warner) ports(spec *v1.PodSpec) {
	type placed struct {
		at   *field.Path
		port v1.ContainerPort
	}
	all := map[string][]placed{}
	names := map[string]*field.Path{}
	for p, c := range podspec.WithPaths(spec, w.spec) {
		for i, port := range c.Ports {
			at := p.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.at(at, "hostIP set without hostPort: %+v", port)
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range all[key] {
				switch o := other.port; {
				case port.HostIP == o.HostIP && port.HostPort == o.HostPort:
					w.at(at, "duplicate port definition with %s", other.at)
				case port.HostPort == 0 || o.HostPort == 0:
					w.at(at, "overlapping port definition with %s", other.at)
				case port.HostPort == o.HostPort && (port.HostIP == "") != (o.HostIP == ""):
					w.at(at, "dangerously ambiguous port definition with %s", other.at)
				}
			}
			all[key] = append(all[key], placed{at, port})
		}
	}
	for p, c := range podspec.WithPaths(spec, w.spec) {
		for i, port := range c.Ports {
			at := p.Child("ports").Index(i)
			if port.Name == "" {
				continue
			}
			if other, ok := names[port.Name]; ok {
				w.at(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, other, other)
			} else {
				names[port.Name] = at
			}
		}
	}
}

func (w *warner) nullSelectors(spec *v1.PodSpec) {
	if spec.Affinity == nil {
		return
	}
	const text = "a null labelSelector results in matching no pod"
	terms := func(name string, required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		p := w.spec.Child("affinity", name)
		for i := range required {
			if required[i].LabelSelector == nil {
				w.at(p.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"), text)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.at(p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"), text)
			}
		}
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		terms("podAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		terms("podAntiAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// StatusWarnings tells what of a reported status is accepted but unwise: addresses in an unusual form.
func StatusWarnings(pod *v1.Pod) []string {
	var out []string
	for i, ip := range pod.Status.PodIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range pod.Status.HostIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return out
}
