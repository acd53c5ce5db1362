package modes

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/rbac"
	"podo.dev/podo/internal/view/viewtest"
)

func pod(node, name string, spec v1.PodSpec) *v1.Pod {
	spec.NodeName = node
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func as(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

// ask reads "verb [group/]resource[/subresource] [namespace/]name [field=value]", or "verb /path". "-" is no name; the core group has none.
func ask(u user.Info, line string) *authz.Attributes {
	words := strings.Fields(line)
	a := &authz.Attributes{User: u, Verb: words[0]}
	if strings.HasPrefix(words[1], "/") {
		a.Path = words[1]
		return a
	}
	what := words[1]
	if g, rest, ok := strings.Cut(what, "/"); ok && strings.Contains(g, ".") {
		a.Group, what = g, rest
	}
	a.Resource, a.Subresource, _ = strings.Cut(what, "/")
	a.Name = words[2]
	if ns, name, ok := strings.Cut(words[2], "/"); ok {
		a.Namespace, a.Name = ns, name
	}
	a.Name = strings.TrimPrefix(a.Name, "-")
	if len(words) > 3 {
		a.Fields = fields.ParseSelectorOrDie(words[3])
	}
	return a
}

// TestDecisions asks both modes. A refusal's reason is upstream's text behind the mode's name; "no" alone gives none.
func TestDecisions(t *testing.T) {
	ref := func(n string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: n} }
	objs := []runtime.Object{
		pod("n1", "p1", v1.PodSpec{
			ServiceAccountName: "sa",
			ImagePullSecrets:   []v1.LocalObjectReference{ref("pull")},
			Volumes: []v1.Volume{
				{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "vol"}}},
				{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
				{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("projected")}}}}}},
			},
			InitContainers: []v1.Container{{Env: []v1.EnvVar{{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref("env")}}}}}},
			Containers:     []v1.Container{{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref("from")}}}}},
		}),
		pod("n2", "p2", v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "theirs"}}}}}),
		&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "disk"}},
		&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: v1.PersistentVolumeSpec{
			ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "claim"},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				NodeStageSecretRef:         &v1.SecretReference{Namespace: "store", Name: "stage"},
				ControllerPublishSecretRef: &v1.SecretReference{Namespace: "store", Name: "publish"},
			}},
		}},
		&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "other", Name: "claim"}}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "reader"}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}},
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}},
			{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"*/scale"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "readers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}, {Kind: "Group", Name: "ops"}, {Kind: "ServiceAccount", Name: "bot"}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gone"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}, {Kind: "ServiceAccount", Name: "nowhere"}},
		},
	}
	vw, _ := viewtest.New(t, objs...)
	z := New(vw)
	var (
		master    = as("x", user.SystemPrivilegedGroup)
		jane      = as("jane")
		joe       = as("joe", "ops")
		ann       = as("ann")
		bot       = as("system:serviceaccount:ns:bot", "system:serviceaccounts", "system:serviceaccounts:ns")
		other     = as("system:serviceaccount:other:bot", "system:serviceaccounts", "system:serviceaccounts:other")
		nobody    = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
		node      = as("system:node:n1", user.NodesGroup)
		fake      = as("system:node:n1") // the name alone, without the group, is nobody's proof
		nameless  = as("system:node:", user.NodesGroup)
		scheduler = as(user.KubeScheduler)
		control   = as(user.KubeControllerManager)
	)
	const unrelated = "node: no relationship found between node 'n1' and this object"
	for _, c := range []struct {
		u    user.Info
		line string
		want string // "yes", "no", or a part of the reason
	}{
		{master, "delete any.io/thing -", "yes"},
		{master, "post /anything", "yes"},
		{jane, "get pods ns/p1", `yes RBAC: allowed by RoleBinding "readers/ns" of Role "reader" to User "jane"`},
		{joe, "list pods ns/-", `yes RBAC: allowed by RoleBinding "readers/ns" of Role "reader" to Group "ops"`},
		{bot, "get pods/log ns/p1", `yes RBAC: allowed by RoleBinding "readers/ns" of Role "reader" to ServiceAccount "bot/ns"`},
		{other, "get pods ns/p1", "no"},
		{jane, "get pods other/p1", "no"},
		{jane, "list pods -", "no"},
		{jane, "get pods/exec ns/p1", "no"},
		{jane, "get secrets ns/one", "yes"},
		{jane, "get secrets ns/two", "no"},
		{jane, "list secrets ns/-", "no"},
		{jane, "patch apps/v1/x ns/x", "no"},
		{jane, "update apps.x/deployments/scale ns/d", "no"},
		{jane, "get /api/v1", `yes RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"`},
		{jane, "get /openapi/v3/api/v1", "yes"},
		{jane, "get /metrics", "no"},
		{jane, "post /version", "no"},
		{jane, "create authorization.k8s.io/selfsubjectaccessreviews -", "yes"},
		{jane, "create authorization.k8s.io/subjectaccessreviews -", "no"},
		{ann, "get pods ns/p1", `rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{nobody, "get /readyz", "yes"},
		{nobody, "get /api", "no"},
		{nobody, "get /readyz-not", "no"},
		{fake, "get nodes n1", "no"},
		{nameless, "get nodes n1", `node: unknown node for user "system:node:"`},
		{node, "get nodes n1", "yes"},
		{node, "get nodes n2", "node: node 'n1' cannot read 'n2', only its own Node object"},
		{node, "list nodes -", "node: node 'n1' cannot read all nodes, only its own Node object"},
		{node, "patch nodes/status n1", "yes"},
		{node, "delete nodes n1", "no"},
		{node, "get pods ns/p1", "yes"},
		{node, "get pods ns/p2", unrelated},
		{node, "list pods -", "node: can only list/watch pods with spec.nodeName field selector"},
		{node, "watch pods - spec.nodeName=n1", "yes"},
		{node, "watch pods - spec.nodeName=n2", "can only list/watch pods"},
		{node, "watch pods - spec.nodeName=n2,spec.nodeName=n1", "yes"}, // which selects none
		{node, "watch pods - spec.nodeName!=n2", "can only list/watch pods"},
		{node, "create pods/exec ns/p1", "no"},
		{node, "create pods/binding ns/p1", "no"},
		{node, "get secrets ns/pull", "yes"},
		{node, "get secrets ns/vol", "yes"},
		{node, "watch secrets ns/env", "yes"},
		{node, "get secrets ns/theirs", unrelated},
		{node, "get secrets ns/projected", unrelated}, // that is a ConfigMap's name
		{node, "get secrets other/vol", unrelated},
		{node, "get configmaps ns/projected", "yes"},
		{node, "watch configmaps ns/from", "yes"},
		{node, "get configmaps other/from", unrelated},
		{node, "list secrets ns/-", "node: No Object name found"},
		{node, "list secrets -", "node: can only read namespaced object of this type"},
		{node, "update secrets ns/vol", "node: can only read resources of this type"},
		{node, "get persistentvolumeclaims ns/claim", "yes"},
		{node, "update persistentvolumeclaims/status ns/claim", "yes"},
		{node, "get persistentvolumeclaims ns/x", unrelated},
		{node, "list persistentvolumeclaims ns/claim", "node: can only get individual resources of this type"},
		{node, "get persistentvolumes disk", "yes"},
		{node, "get persistentvolumes theirs", unrelated},
		{node, "get persistentvolumes x", unrelated},
		{node, "get secrets store/stage", "yes"},
		{node, "get secrets store/publish", unrelated},
		{node, "create serviceaccounts/token ns/sa", "yes"},
		{node, "get serviceaccounts ns/sa", "yes"},
		{node, "create serviceaccounts/token ns/default", unrelated},
		{node, "create serviceaccounts ns/sa", "node: can only create token subresource of serviceaccount"},
		{node, "create events ns/-", "yes"},
		{node, "delete events ns/e", "no"},
		{node, "update coordination.k8s.io/leases kube-node-lease/n1", "yes"},
		{node, "update coordination.k8s.io/leases kube-node-lease/n2", "node: can only access node lease with the same name as the requesting node"},
		{node, "update coordination.k8s.io/leases kube-system/n1", `node: can only access leases in the "kube-node-lease" system namespace`},
		{node, "list coordination.k8s.io/leases kube-node-lease/-", "node: can only get, create, update, patch, or delete a node lease"},
		{node, "create authentication.k8s.io/tokenreviews -", "yes"},
		{node, "watch services -", "yes"},
		{node, "get /api", "yes"}, // as anyone authenticated
		{scheduler, "create pods/binding ns/p1", "yes"},
		{scheduler, "create pods ns/-", "no"},
		{scheduler, "list secrets ns/-", "no"},
		{control, "delete configmaps ns/x", "yes"},
		{control, "create pods/exec ns/p1", "no"},
		{control, "create serviceaccounts ns/-", "yes"},
		{control, "create namespaces -", "yes"},
		{control, "update configmaps ns/kube-root-ca.crt", "yes"},
		{control, "impersonate users x", "no"},
		{control, "create rbac.authorization.k8s.io/clusterrolebindings -", "no"},
	} {
		ok, reason := z.Authorize(t.Context(), ask(c.u, c.line))
		got := "no " + reason
		if ok {
			got = "yes " + reason
		}
		if strings.HasPrefix(c.want, "yes") && strings.HasPrefix(got, c.want) || c.want == "no" && got == "no " ||
			!strings.HasPrefix(c.want, "yes") && c.want != "no" && !ok && strings.Contains(got, c.want) {
			continue
		}
		t.Errorf("%s: %s: %s, want %s", c.u.GetName(), c.line, got, c.want)
	}
}

// Once the policy has been written, it is what is in the store that counts: roles there can be narrowed.
func TestEnsured(t *testing.T) {
	vw, _ := viewtest.New(t)
	z := New(vw)
	question := ask(as("jane"), "get /api")
	if ok, _ := z.Authorize(t.Context(), question); !ok {
		t.Error("the default policy does not hold before it is written")
	}
	z.Ensured()
	if ok, _ := z.Authorize(t.Context(), question); ok {
		t.Error("the default policy holds although the store has none")
	}
}

// BenchmarkRBAC is one decision for a service account among thousands of bindings.
func BenchmarkRBAC(b *testing.B) {
	objs := []runtime.Object{&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edit"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments", "services"}},
		{Verbs: []string{"create", "update"}, APIGroups: []string{""}, Resources: []string{"configmaps", "pods"}},
	}}}
	for i := range 5000 {
		objs = append(objs, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", i%500), Name: fmt.Sprint("b", i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: fmt.Sprint("sa", i%10)}},
		})
	}
	vw, _ := viewtest.New(b, objs...)
	z := New(vw)
	z.Ensured()
	u := as("system:serviceaccount:ns7:sa7", "system:serviceaccounts", "system:serviceaccounts:ns7")
	yes, no := ask(u, "create pods ns7/-"), ask(u, "create secrets ns7/-")
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := z.Authorize(b.Context(), yes); !ok {
			b.Fatal("refused")
		}
		if ok, _ := z.Authorize(b.Context(), no); ok {
			b.Fatal("allowed")
		}
	}
}

// Who is asked about while the policy comes to the view is refused nothing that it allows: it is one or the other that allows it.
func TestNoRefusalWhileThePolicyIsEnsured(t *testing.T) {
	vw, _ := viewtest.New(t)
	z := New(vw)
	*z.RBAC = *rbac.New(func() rbac.Source {
		defer z.Ensured() // just after the view was looked at, which had nothing yet
		return rbac.NewFixed(nil, nil, nil, nil)
	})
	if ok, _ := z.Authorize(t.Context(), ask(as("system:kube-controller-manager"), "create namespaces -")); !ok {
		t.Error("refused")
	}
}
