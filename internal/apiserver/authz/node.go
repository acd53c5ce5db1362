package authz

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
)

// NodePods tells which pods are bound to a node.
type NodePods interface {
	// NodeOf is the node that a pod is bound to; ok is false when there is no such pod.
	NodeOf(namespace, name string) (node string, ok bool)
	// OnNode are the pods bound to a node; read-only.
	OnNode(node string) []*v1.Pod
}

const nodeUserPrefix = "system:node:"

// NodeName is the node that a user is the kubelet of.
func NodeName(u user.Info) (string, bool) {
	if !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return strings.CutPrefix(u.GetName(), nodeUserPrefix)
}

// node is what a kubelet may do: with its Node, its lease, the pods bound to it and what those refer to.
func (z *Rules) node(a *Attributes, node string) (bool, string) {
	on := a.Resource
	if a.Group != "" {
		on += "." + a.Group
	}
	if a.Subresource != "" {
		on += "/" + a.Subresource
	}
	reads := slices.Contains(read, a.Verb)
	changes := a.Verb == "update" || a.Verb == "patch"
	switch on {
	case "nodes":
		// A create has no name in its URL: the object's name is checked at admission (NodeRestriction).
		if a.Verb == "create" {
			return true, ""
		}
		if (reads || changes) && named(a, node) {
			return true, ""
		}
		return false, "node '" + node + "' cannot read '" + a.Name + "', only its own Node object"
	case "nodes/status":
		return changes && a.Name == node, ""
	case "events":
		return a.Verb == "create" || changes, ""
	case "leases.coordination.k8s.io":
		if a.Namespace != v1.NamespaceNodeLease {
			return false, `can only access leases in the "kube-node-lease" system namespace`
		}
		if a.Verb == "create" {
			return true, ""
		}
		if (a.Verb == "get" || changes || a.Verb == "delete") && a.Name == node {
			return true, ""
		}
		return false, "can only access node lease with the same name as the requesting node"
	case "pods":
		return z.nodePods(a, node, reads)
	case "pods/status":
		return changes, "" // which pods: admission sees the object
	case "pods/eviction":
		return a.Verb == "create", ""
	case "configmaps", "secrets":
		if !reads || a.Name == "" {
			return false, "No Object name found"
		}
		if z.Pods != nil && refers(z.Pods.OnNode(node), a) {
			return true, ""
		}
		return false, "no relationship found between node '" + node + "' and this object"
	case "services":
		return reads, ""
	}
	return false, ""
}

func (z *Rules) nodePods(a *Attributes, node string, reads bool) (bool, string) {
	switch {
	case a.Verb == "create", a.Verb == "delete":
		return true, "" // which pods: admission sees the object
	case a.Verb == "get" || reads && a.Name != "":
		if z.Pods != nil {
			if on, ok := z.Pods.NodeOf(a.Namespace, a.Name); !ok || on == node {
				return true, "" // of a pod that is gone, the answer 404 says no more than the kubelet knew
			}
		}
		return false, "no relationship found between node '" + node + "' and this object"
	case reads:
		if requires(a.Fields, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	}
	return false, ""
}

// named says that one object is asked for, of that name: by URL, or by the only field selector that list and watch use for it.
func named(a *Attributes, name string) bool {
	if a.Name != "" {
		return a.Name == name
	}
	return requires(a.Fields, "metadata.name", name)
}

func requires(s fields.Selector, field, value string) bool {
	if s == nil {
		return false
	}
	for _, r := range s.Requirements() {
		if r.Field == field && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) {
			return true
		}
	}
	return false
}

// refers says that one of the pods uses the ConfigMap or Secret that a names.
func refers(pods []*v1.Pod, a *Attributes) bool {
	name := a.Name
	for _, p := range pods {
		if p.Namespace != a.Namespace {
			continue
		}
		if a.Resource == "secrets" && usesSecret(p, name) || a.Resource == "configmaps" && usesConfigMap(p, name) {
			return true
		}
	}
	return false
}

func usesSecret(p *v1.Pod, name string) bool {
	for _, s := range p.Spec.ImagePullSecrets {
		if s.Name == name {
			return true
		}
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Secret != nil && v.Secret.SecretName == name || v.CSI != nil && v.CSI.NodePublishSecretRef != nil && v.CSI.NodePublishSecretRef.Name == name {
			return true
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.Secret != nil && s.Secret.Name == name {
					return true
				}
			}
		}
	}
	return anyEnv(p, func(from *v1.EnvFromSource, value *v1.EnvVarSource) bool {
		return from != nil && from.SecretRef != nil && from.SecretRef.Name == name ||
			value != nil && value.SecretKeyRef != nil && value.SecretKeyRef.Name == name
	})
}

func usesConfigMap(p *v1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && s.ConfigMap.Name == name {
					return true
				}
			}
		}
	}
	return anyEnv(p, func(from *v1.EnvFromSource, value *v1.EnvVarSource) bool {
		return from != nil && from.ConfigMapRef != nil && from.ConfigMapRef.Name == name ||
			value != nil && value.ConfigMapKeyRef != nil && value.ConfigMapKeyRef.Name == name
	})
}

// anyEnv asks is about every source of environment of every container.
func anyEnv(p *v1.Pod, is func(*v1.EnvFromSource, *v1.EnvVarSource) bool) bool {
	check := func(env []v1.EnvVar, from []v1.EnvFromSource) bool {
		return slices.ContainsFunc(env, func(e v1.EnvVar) bool { return is(nil, e.ValueFrom) }) ||
			slices.ContainsFunc(from, func(f v1.EnvFromSource) bool { return is(&f, nil) })
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if check(list[i].Env, list[i].EnvFrom) {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return check(c.Env, c.EnvFrom) })
}
