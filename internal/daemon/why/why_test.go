package why

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
	"podo.dev/podo/internal/view/viewtest"
)

// asking asks why, over a cluster of these objects and records.
func asking(t *testing.T, records []timeline.Record, objects ...runtime.Object) func(user, path string) *httptest.ResponseRecorder {
	t.Helper()
	objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	vw, store := viewtest.New(t, objects...)
	vb, err := verbs.New(verbs.Config{Store: store, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.New(recorder.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		rec.Append(r)
	}
	handler := Handler(vb, rec)
	return func(name, path string) *httptest.ResponseRecorder {
		t.Helper()
		u := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
		if name == "admin" {
			u.Groups = append(u.Groups, user.SystemPrivilegedGroup)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, Prefix+path, nil)
		handler.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), u)))
		return w
	}
}

// may lets a user do something with pods of the namespace "ns"; with names, only of those.
func may(name string, does []string, names ...string) []runtime.Object {
	m := metav1.ObjectMeta{Namespace: "ns", Name: name}
	return []runtime.Object{
		&rbacv1.Role{ObjectMeta: m, Rules: []rbacv1.PolicyRule{{Verbs: does, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: names}}},
		&rbacv1.RoleBinding{
			ObjectMeta: m, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		},
	}
}

// What is remembered of pods that are gone is told to those who may read these pods, and as RBAC would tell it: whoever may read pods by their
// names is not told the names.
func TestWhyTellsOfWhatTheAskerMayRead(t *testing.T) {
	began := time.Now()
	var records []timeline.Record
	for _, pod := range []timeline.PodRef{{Namespace: "ns", Name: "hidden", UID: "1"}, {Namespace: "other", Name: "foreign", UID: "2"}, {Namespace: "ns", Name: "known", UID: "3"}} {
		records = append(records, timeline.New(began, pod, timeline.Accepted).With("by", "maker"), timeline.New(began, pod, timeline.Deleted).With("by", "maker"))
	}
	taker := timeline.PodRef{Namespace: "other", Name: "taker", UID: "4"}
	records = append(
		records, timeline.New(began, timeline.PodRef{Namespace: "ns", Name: "known", UID: "3"}, timeline.Deleting).With("by", "scheduler"),
		timeline.New(began, taker, timeline.Attempt).Move("", "unschedulable").With("nodes", 1).With("victims", "ns/known"),
	)
	var rights []runtime.Object
	rights = append(rights, may("getter", []string{"get"})...)
	rights = append(rights, may("lister", []string{"get", "list"})...)
	rights = append(rights, may("acquaintance", []string{"get"}, "known")...)
	ask := asking(t, records, rights...)
	for _, c := range []struct {
		user, path string
		code       int
		has        string
	}{
		{"getter", "namespaces/ns/pods/known", 200, "known"},
		{"getter", "namespaces/ns/known", 200, "known"},
		{"getter", "namespaces/ns/pods/known", 200, "created by maker"}, // docs/decisions/0016
		{"getter", "namespaces/ns/pods/known", 200, "Whoever administers the cluster sees its whole story with `podo timeline -n ns pod/known`"},
		{"admin", "namespaces/ns/pods/known", 200, "Its whole story: `podo timeline -n ns pod/known`"},
		{"admin", "pods?since=1h", 200, "Its whole story: `podo timeline -n ns pod/known`"},
		{"getter", "namespaces/ns/pods/", 404, ""},
		{"getter", "namespaces/ns/pods/known/more", 404, ""},
		{"getter", "namespaces/ns/", 404, ""},
		{"getter", "", 404, ""},
		{"getter", "namespaces/ns/pods", 403, ""},
		{"getter", "namespaces/other/pods/foreign", 403, ""},
		{"getter", "pods/foreign", 403, ""},
		{"getter", "namespaces//pods/foreign", 403, ""},
		{"lister", "namespaces/ns/pods/?since=1h", 404, ""},
		{"lister", "namespaces/ns/pods?since=1h", 200, "hidden"},
		{"lister", "pods?since=1h", 403, ""},
		{"lister", "namespaces/ns/deployments/gone", 403, ""},
		{"acquaintance", "namespaces/ns/pods/known", 200, "known"},
		{"acquaintance", "namespaces/ns/pods/hidden", 403, ""},
		{"acquaintance", "namespaces/ns/pods/", 404, ""},
		{"stranger", "namespaces/ns/pods/known", 403, ""},
		{"admin", "namespaces/ns/pods/known", 200, "taker"},
		{"admin", "pods?since=1h", 200, "foreign"},
	} {
		got := ask(c.user, c.path)
		text := got.Body.String()
		if got.Code != c.code || !strings.Contains(text, c.has) {
			t.Errorf("%s asks %s: %d %s, want %d and %q", c.user, c.path, got.Code, text, c.code, c.has)
		}
		for _, name := range []string{"hidden", "foreign", "taker"} {
			if c.user != "admin" && name != c.has && !strings.Contains(c.path, name) && strings.Contains(text, name) {
				t.Errorf("%s asks %s and is told of %s: %s", c.user, c.path, name, text)
			}
		}
	}
}

// A question about everything is answered by the pods, and by what is in trouble for a reason of its own: what is only because its pods are is
// told by them, and what is well is not told. A namespace tells the same of what is not well.
func TestWhyOfEverything(t *testing.T) {
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}
	}
	waits := &v1.Pod{ObjectMeta: in("waits"), Status: v1.PodStatus{Phase: v1.PodPending}}
	waits.Labels = map[string]string{"app": "waits"}
	done := &v1.Pod{ObjectMeta: in("done"), Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	refused := &appsv1.ReplicaSet{ObjectMeta: in("refused"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1))}}
	refused.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: v1.ConditionTrue, Message: "exceeded quota: small, used"}}
	ask := asking(
		t, nil, waits, done, refused,
		&v1.Service{ObjectMeta: in("typo"), Spec: v1.ServiceSpec{Selector: map[string]string{"app": "wiats"}}},
		&v1.Service{ObjectMeta: in("leads"), Spec: v1.ServiceSpec{Selector: map[string]string{"app": "waits"}}},
		&v1.ResourceQuota{ObjectMeta: in("small")},
		&appsv1.ReplicaSet{ObjectMeta: in("nothing"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}},
	)
	for path, want := range map[string][]string{
		"namespaces/ns/all": {"Pod ns/waits waits", "Pod ns/done has succeeded", "ReplicaSet ns/refused has 0 of 1 pod ready", "Service ns/typo leads nowhere", "Pods there have app=waits"},
		"all":               {"Pod ns/waits waits", "Service ns/typo leads nowhere"},
		"namespaces/ns":     {"Namespace ns is active", "\n  Pod ns/waits waits", "\n  ReplicaSet ns/refused has", "\n  Service ns/typo leads nowhere"},
		"namespaces/other":  {"Namespace other is active.\n  Why  Nothing there that you may see is in trouble.\n"},
	} {
		got := ask("admin", path)
		for _, words := range want {
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), words) {
				t.Errorf("%s: %d, no %q in\n%s", path, got.Code, words, got.Body)
			}
		}
		for _, words := range []string{"Service ns/leads", "ReplicaSet ns/nothing", "ResourceQuota ns/"} {
			if strings.Contains(got.Body.String(), words) {
				t.Errorf("%s: %q in\n%s", path, words, got.Body)
			}
		}
	}
}

// Of a manifest of which a node makes no pod only the node's event tells: there is no pod to ask about. It may be from before the node knew its
// own UID.
func TestWhyThereIsNoStaticPod(t *testing.T) {
	said := func(name string, uid types.UID, message string) runtime.Object {
		return &v1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: v1.EventTypeWarning, Reason: "FailedStaticPod", Message: message,
			InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "N", UID: uid}, LastTimestamp: metav1.Now(),
		}
	}
	ready := v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}
	ask := asking(
		t, nil, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "N", UID: "n"}, Status: ready}, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: ready},
		said("e1", "n", "/m/a.yaml: static pods may not reference secrets: no pod is made of it"), said("e2", "", "/m/b.yaml: wrong"), said("e3", "n", "/m/b.yaml: wrong"),
	)
	for _, path := range []string{"nodes/N", "all", "namespaces/ns/pods/web-n"} {
		got := ask("admin", path)
		if text := got.Body.String(); got.Code != http.StatusOK || !strings.Contains(text, "A manifest cannot be used: /m/a.yaml: static pods may not reference secrets: no pod is made of it (told at ") ||
			strings.Count(text, "/m/b.yaml: wrong") != 1 || !strings.Contains(text, "Correct that file") {
			t.Errorf("%s: %d\n%s", path, got.Code, text)
		}
	}
	if got := ask("admin", "namespaces/ns/pods/web-other"); got.Code != http.StatusNotFound {
		t.Errorf("a pod of another node: %d %s", got.Code, got.Body)
	}
	if got := ask("admin", "nodes/other"); strings.Contains(got.Body.String(), "manifest") {
		t.Errorf("another node: %s", got.Body)
	}
}

// Objects may say that they own themselves, or each other, or stand in a long row.
func TestWhyOfACircle(t *testing.T) {
	set := func(name, owner string) runtime.Object {
		of := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}
		m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{of}}
		return &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1))}}
	}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "scaler", UID: "scaler"}}
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "scaler"}
	objects := []runtime.Object{set("own", "own"), set("one", "two"), set("two", "one"), scaler}
	for i := range 20 {
		objects = append(objects, set(fmt.Sprint("row-", i), fmt.Sprint("row-", i-1)))
	}
	ask := asking(t, nil, objects...)
	for path, want := range map[string][]string{"rs/own": {"own"}, "rs/one": {"one", "two"}, "rs/two": {"one", "two"}, "rs": {"own", "one", "two"}, "hpa/scaler": {"scaler"}, "rs/row-0": {"row-0", "row-7"}} {
		got := ask("admin", "namespaces/ns/"+path)
		for _, name := range want {
			if got.Code != 200 || !strings.Contains(got.Body.String(), name) {
				t.Errorf("%s: %d %s", path, got.Code, got.Body)
			}
		}
		if path == "rs/row-0" && strings.Contains(got.Body.String(), "row-8") {
			t.Errorf("there is no end of it: %s", got.Body)
		}
	}
}

// A question about all objects of a kind costs as much as there are of them, not as much as that times what else the namespace has: anybody
// may ask it. What is allocated is what is counted, since it is the same on every machine.
func TestWhyOfManyIsLinear(t *testing.T) {
	cost := func(n int, path, has string) float64 {
		var objects []runtime.Object
		for i := range n {
			name := fmt.Sprintf("it-%03d", i)
			m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("set-" + name)}
			of := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: m.UID, Controller: new(true)}
			labels, alike := map[string]string{"app": name, "tier": "all"}, map[string]string{"alike": "yes"}
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("budget-" + name)}}
			budget.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{name}}, {Key: "tier", Operator: metav1.LabelSelectorOpExists},
			}}
			claim := v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
			objects = append(
				objects, &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1))}},
				&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)}},
				&v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-pod", UID: types.UID("pod-" + name), OwnerReferences: []metav1.OwnerReference{of}, Labels: labels},
					Spec:       v1.PodSpec{Volumes: []v1.Volume{claim, claim}}, Status: v1.PodStatus{Phase: v1.PodPending},
				},
				&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("service-" + name)}, Spec: v1.ServiceSpec{Selector: labels}},
				budget,
				&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all-" + name, UID: types.UID("all-" + name)}, Spec: v1.ServiceSpec{Selector: alike}},
				&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "alike-" + name, UID: types.UID("alike-" + name), Labels: alike}, Status: v1.PodStatus{Phase: v1.PodPending}},
				&v1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: v1.EventTypeWarning, Message: "said of " + name,
					InvolvedObject: v1.ObjectReference{Namespace: "ns", Name: name, UID: m.UID}, LastTimestamp: metav1.Now(),
				},
			)
		}
		ask := asking(t, nil, objects...)
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		allocated := func() float64 {
			metrics.Read(sample)
			return float64(sample[0].Value.Uint64())
		}
		ask("admin", "namespaces/ns/"+path)
		before := allocated()
		got := ask("admin", "namespaces/ns/"+path)
		after := allocated()
		text := got.Body.String()
		for i := range n {
			if want := fmt.Sprintf(has, i); got.Code != http.StatusOK || strings.Count(text, want) != 1 {
				t.Fatalf("%s of %d: %d, %q stands %d times in\n%s", path, n, got.Code, want, strings.Count(text, want), text[:min(len(text), 2000)])
			}
		}
		return after - before
	}
	for path, has := range map[string]string{
		"rs":       "said of it-%03[1]d.\n  Pod ns/it-%03[1]d-pod waits",
		"pvc":      "Pod ns/it-%03d-pod waits",
		"services": "Service ns/it-%03[1]d leads to 0 ready pods of the 1 that it selects.\n  Why  None of its pods is ready; what keeps them is below.\n  Pod ns/it-%03[1]d-pod waits",
		"pdb":      "PodDisruptionBudget ns/it-%03d allows",
	} {
		few, many := cost(100, path, has), cost(800, path, has)
		t.Logf("%s: %.0f bytes for 100, %.0f for 800", path, few, many)
		if many > 20*few {
			t.Errorf("%s: %.0f bytes for 100 objects, %.0f for 800: that is more than in proportion", path, few, many)
		}
	}
}
