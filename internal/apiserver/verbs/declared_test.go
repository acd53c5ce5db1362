package verbs

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

// A pod is changed only in ways that its node says that it can carry out.
func TestANodeHasToDeclareWhatAnUpdateNeeds(t *testing.T) {
	room := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}
	node := func(name string, declared ...string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: room, DeclaredFeatures: declared}}
	}
	w := newWorld(t, node("older"), node("newer", "InPlacePodLevelResourcesVerticalScaling"))
	for _, on := range []string{"older", "newer", "gone", ""} {
		p := pod("on-" + on + "x")
		p.Spec.NodeName = on
		p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}
		w.create(p)
	}
	for _, c := range []struct{ pod, sub, patch, want string }{
		{"on-olderx", "resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, `pods "on-olderx" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "older"`},
		{"on-olderx", "resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`, ""},
		{"on-olderx", "", `{"metadata":{"labels":{"x":"y"}}}`, ""},
		{"on-newerx", "resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, ""},
		{"on-gonex", "resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, `pods "on-gonex" is forbidden: node "gone" not found`},
		{"on-x", "resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, ""},
	} {
		ref := client.Pods.At("default", c.pod)
		ref.Subresource = c.sub
		_, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.StrategicMergePatchType, Data: []byte(c.patch)}, Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s/%s %s: %v, want %q", c.pod, c.sub, c.patch, err, c.want)
		}
	}
}

// Who is refused by a rule that judges is warned all the same.
func TestWarnedThoughRefused(t *testing.T) {
	quota := &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}},
		Status:     v1.ResourceQuotaStatus{Hard: v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}, Used: v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}},
	}
	w := newWorld(t, quota)
	p := pod("a")
	p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"}
	var warned []string
	_, err := w.Create(w.ctx, admin, client.Pods.At("default", ""), p, Options{Warn: func(s string) { warned = append(warned, s) }})
	if !apierrors.IsForbidden(err) || !slices.ContainsFunc(warned, func(s string) bool { return strings.Contains(s, "beta.kubernetes.io/os") }) {
		t.Errorf("%v, warned %q", err, warned)
	}
}
