package authz

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
)

// bound are the pods that the tests' nodes have.
type bound map[string][]*v1.Pod

func (b bound) NodeOf(namespace, name string) (string, bool) {
	for node, pods := range b {
		for _, p := range pods {
			if p.Namespace == namespace && p.Name == name {
				return node, true
			}
		}
	}
	return "", false
}

func (b bound) OnNode(node string) []*v1.Pod { return b[node] }

func podUsing(name string, spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func TestRules(t *testing.T) {
	ref := func(n string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: n} }
	z := &Rules{Pods: bound{
		"n1": {podUsing("p1", v1.PodSpec{
			ImagePullSecrets: []v1.LocalObjectReference{ref("pull")},
			Volumes: []v1.Volume{
				{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "vol"}}},
				{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("projected")}}}}}},
			},
			InitContainers: []v1.Container{{Env: []v1.EnvVar{{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref("env")}}}}}},
			Containers:     []v1.Container{{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref("from")}}}}},
		})},
		"n2": {podUsing("p2", v1.PodSpec{})},
	}}
	as := func(name string, groups ...string) user.Info {
		return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
	}
	var (
		master    = as("x", user.SystemPrivilegedGroup)
		jane      = as("jane")
		nobody    = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
		node      = as("system:node:n1", user.NodesGroup)
		fake      = as("system:node:n1") // the name alone, without the group, is nobody's proof
		scheduler = as(user.KubeScheduler)
		control   = as(user.KubeControllerManager)
	)
	res := func(u user.Info, verb, group, resource, sub, ns, name string) *Attributes {
		return &Attributes{User: u, Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: ns, Name: name}
	}
	path := func(u user.Info, verb, p string) *Attributes { return &Attributes{User: u, Verb: verb, Path: p} }
	selecting := func(a *Attributes, s string) *Attributes { a.Fields = fields.ParseSelectorOrDie(s); return a }
	const leases = "coordination.k8s.io"
	for _, c := range []struct {
		a    *Attributes
		want bool
	}{
		{res(master, "delete", "any", "thing", "", "", "x"), true},
		{path(master, "post", "/anything"), true},
		{res(jane, "get", "", "pods", "", "ns", "p1"), false},
		{path(jane, "get", "/api/v1"), true},
		{path(jane, "get", "/openapi/v3/api/v1"), true},
		{path(jane, "get", "/metrics"), false},
		{path(jane, "post", "/version"), false},
		{path(nobody, "get", "/readyz"), true},
		{path(nobody, "get", "/api"), false},
		{path(nobody, "get", "/readyz-not"), false},
		{res(fake, "get", "", "nodes", "", "", "n1"), false},
		{res(node, "get", "", "nodes", "", "", "n1"), true},
		{res(node, "get", "", "nodes", "", "", "n2"), false},
		{res(node, "list", "", "nodes", "", "", ""), false},
		{selecting(res(node, "list", "", "nodes", "", "", ""), "metadata.name=n1"), true},
		{res(node, "patch", "", "nodes", "status", "", "n1"), true},
		{res(node, "patch", "", "nodes", "status", "", "n2"), false},
		{res(node, "delete", "", "nodes", "", "", "n1"), false},
		{res(node, "get", "", "pods", "", "ns", "p1"), true},
		{res(node, "get", "", "pods", "", "ns", "p2"), false},
		{res(node, "get", "", "pods", "", "ns", "gone"), true},
		{res(node, "list", "", "pods", "", "", ""), false},
		{selecting(res(node, "watch", "", "pods", "", "", ""), "spec.nodeName=n1"), true},
		{selecting(res(node, "watch", "", "pods", "", "", ""), "spec.nodeName=n2"), false},
		{selecting(res(node, "watch", "", "pods", "", "", ""), "spec.nodeName!=n2"), false},
		{res(node, "create", "", "pods", "exec", "ns", "p1"), false},
		{res(node, "create", "", "pods", "binding", "ns", "p1"), false},
		{res(node, "get", "", "secrets", "", "ns", "pull"), true},
		{res(node, "get", "", "secrets", "", "ns", "vol"), true},
		{res(node, "get", "", "secrets", "", "ns", "env"), true},
		{res(node, "get", "", "secrets", "", "ns", "projected"), false}, // that is a ConfigMap's name
		{res(node, "get", "", "configmaps", "", "ns", "projected"), true},
		{res(node, "watch", "", "configmaps", "", "ns", "from"), true},
		{res(node, "get", "", "configmaps", "", "other", "from"), false},
		{res(node, "list", "", "secrets", "", "ns", ""), false},
		{res(node, "update", "", "secrets", "", "ns", "vol"), false},
		{res(node, "create", "", "events", "", "ns", ""), true},
		{res(node, "delete", "", "events", "", "ns", "e"), false},
		{res(node, "update", leases, "leases", "", "kube-node-lease", "n1"), true},
		{res(node, "update", leases, "leases", "", "kube-node-lease", "n2"), false},
		{res(node, "update", leases, "leases", "", "kube-system", "n1"), false},
		{res(scheduler, "create", "", "pods", "binding", "ns", "p1"), true},
		{res(scheduler, "create", "", "pods", "", "ns", ""), false},
		{res(scheduler, "list", "", "secrets", "", "ns", ""), false},
		{res(control, "delete", "", "configmaps", "", "ns", "x"), true},
		{res(control, "create", "", "pods", "exec", "ns", "p1"), false},
		{res(control, "create", "", "serviceaccounts", "", "ns", ""), true},
		{res(control, "create", "", "configmaps", "", "ns", ""), true},
		{res(control, "update", "", "configmaps", "", "ns", "kube-root-ca.crt"), true},
		{res(control, "create", "", "serviceaccounts", "token", "ns", "default"), false},
		{res(node, "get", "", "serviceaccounts", "", "ns", "default"), false},
		{res(node, "create", "", "serviceaccounts", "token", "ns", "default"), false},
		{res(control, "impersonate", "", "users", "", "", "x"), false},
	} {
		if got, reason := z.Authorize(t.Context(), c.a); got != c.want {
			t.Errorf("%s: %s %s %s/%s %s: %v (%s)", c.a.User.GetName(), c.a.Verb, c.a.Path, c.a.Resource, c.a.Subresource, c.a.Name, got, reason)
		}
	}
	// Without pods to ask, what depends on them is denied.
	if ok, _ := (&Rules{}).Authorize(t.Context(), res(node, "get", "", "secrets", "", "ns", "vol")); ok {
		t.Error("allowed without knowing")
	}
}
