//lint:file-ignore SA1019 the bytes themselves are looked at.

package view

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry"
)

func alikePod(name, owner, path string, toleration int64) *v1.Pod {
	text := strings.Clone
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("u-" + name), Labels: map[string]string{text("app"): text("web"), text("index"): text(name)},
			OwnerReferences: []metav1.OwnerReference{{Kind: text("ReplicaSet"), Name: text(owner), UID: types.UID(text(owner)), Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: text("m"), Time: &metav1.Time{Time: time.Unix(7, 0)}, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}},
				{Manager: text("kubelet"), Subresource: text("status"), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)}},
			},
		},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: text("token"), VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: text(path)}}},
			}}}},
			Containers: []v1.Container{{Name: text("c"), Image: text("image"), Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{"cpu": resource.MustParse("100m")}, Limits: v1.ResourceList{"cpu": *resource.NewQuantity(toleration, resource.DecimalSI)},
			}}},
			Tolerations: []v1.Toleration{{Key: text("k"), Operator: v1.TolerationOpExists, TolerationSeconds: new(toleration)}},
		},
	}
}

func alikeEntry(obj *v1.Pod) *Entry {
	return &Entry{path: obj.Namespace + "/" + obj.Name, Key: Key{obj.Namespace, obj.Name}, Object: obj, Meta: obj}
}

// Objects that are alike share memory, and every one says what it said before; what is equal is shared, what is almost equal is not.
func TestShare(t *testing.T) {
	a, pods := alike{}, &table{kind: &registry.Kind{Namespaced: true}}
	kept := []*Entry{} // what is alive can be shared
	share := func(p *v1.Pod, old *Entry) *v1.Pod {
		want, e := p.DeepCopy(), alikeEntry(p)
		a.share(pods, e, old)
		kept = append(kept, e)
		if !equality.Semantic.DeepEqual(p, want) {
			t.Fatalf("%s says something else: %+v", p.Name, p)
		}
		return p
	}
	first, second := share(alikePod("a", "r", "token", 300), nil), share(alikePod("b", "r", "token", 300), nil)
	if &first.ManagedFields[0] != &second.ManagedFields[0] || &first.Spec.Volumes[0] != &second.Spec.Volumes[0] ||
		&first.Spec.Containers[0] != &second.Spec.Containers[0] || &first.Spec.Tolerations[0] != &second.Spec.Tolerations[0] ||
		&first.OwnerReferences[0] != &second.OwnerReferences[0] || reflect.ValueOf(first.Labels).Pointer() == reflect.ValueOf(second.Labels).Pointer() {
		t.Error("of two pods alike something is not shared, or something that differs is")
	}
	third := share(alikePod("c", "r", "other", 200), nil)
	c, d := &first.Spec.Containers[0], &third.Spec.Containers[0]
	if &third.Spec.Volumes[0] == &first.Spec.Volumes[0] || &third.Spec.Tolerations[0] == &first.Spec.Tolerations[0] || c == d ||
		reflect.ValueOf(c.Resources.Limits).Pointer() == reflect.ValueOf(d.Resources.Limits).Pointer() {
		t.Error("what differs is shared")
	}
	if reflect.ValueOf(c.Resources.Requests).Pointer() != reflect.ValueOf(d.Resources.Requests).Pointer() || unsafe.StringData(c.Image) != unsafe.StringData(d.Image) {
		t.Error("of two containers that differ the rest is not shared")
	}
	if other := share(alikePod("d", "s", "token", 300), nil); &other.Spec.Volumes[0] == &first.Spec.Volumes[0] {
		t.Error("a pod of another owner was taken for alike")
	}
	changed := first.DeepCopy()
	changed.Status.Phase = v1.PodRunning
	if again := share(changed, kept[0]); &again.Spec.Containers[0] != &first.Spec.Containers[0] || reflect.ValueOf(again.Labels).Pointer() != reflect.ValueOf(first.Labels).Pointer() {
		t.Error("the version before is not shared")
	}
	for i := range 2 * maxFieldSets {
		p := alikePod("d", fmt.Sprint(i), "token", 300)
		p.ManagedFields[0].FieldsV1.Raw = fmt.Appendf(nil, `{"f:spec":{"f:%d":{}}}`, i)
		share(p, nil)
	}
	if len(a.fields) > maxFieldSets || len(a.models) > maxModels {
		t.Errorf("%d sets of fields and %d objects are remembered", len(a.fields), len(a.models))
	}
}

// Whatever two objects, and a third for what the second does not have, say: afterwards all say what they said, the sharer knows whether the first
// two say the same, and what one is given later does not show in the others.
func TestShareAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		into, from, other := anyPod(t, "into"), anyPod(t, "from"), anyPod(t, "other")
		switch rapid.IntRange(0, 3).Draw(t, "same") {
		case 0:
			into = from.DeepCopy()
		case 1:
			into = other.DeepCopy()
		}
		said, there, elsewhere := into.DeepCopy(), from.DeepCopy(), other.DeepCopy()
		third := reflect.Value{}
		if rapid.Bool().Draw(t, "third") {
			third = reflect.ValueOf(other).Elem()
		}
		same := sharerOf(reflect.TypeFor[v1.Pod]())(new(own), reflect.ValueOf(into).Elem(), reflect.ValueOf(from).Elem(), third)
		if !reflect.DeepEqual(into, said) || !reflect.DeepEqual(from, there) || !reflect.DeepEqual(other, elsewhere) {
			t.Fatalf("sharing changed what is said:\n%+v\n%+v\n%+v", into, from, other)
		}
		if same != reflect.DeepEqual(said, there) {
			t.Fatalf("same is %v of\n%+v\n%+v", same, into, from)
		}
		_ = append(into.Spec.Tolerations, v1.Toleration{Key: "more"})
		for _, p := range []*v1.Pod{from, other} {
			if full := p.Spec.Tolerations[:cap(p.Spec.Tolerations)]; len(full) > len(p.Spec.Tolerations) && full[len(p.Spec.Tolerations)].Key == "more" {
				t.Fatal("what was appended to one is in another's memory")
			}
		}
	})
}

// What comes to a pod later is another pod's of its owner, too, and its words are everybody's, however much later they come.
func TestWhatComesLaterIsShared(t *testing.T) {
	var a alike
	pods := &table{kind: &registry.Kind{Namespaced: true}}
	run := func(name, owner string) *v1.Pod {
		first := alikeEntry(alikePod(name, owner, "token", 300))
		a.share(pods, first, nil)
		running := first.Object.(*v1.Pod).DeepCopy()
		running.Status = v1.PodStatus{
			HostIPs: []v1.HostIP{{IP: strings.Clone("192.0.2.1")}}, QOSClass: v1.PodQOSClass(strings.Clone("Burstable")),
			Conditions:        []v1.PodCondition{{Type: v1.PodConditionType(strings.Clone("Ready")), Message: name}},
			ContainerStatuses: []v1.ContainerStatus{{Name: name, Image: strings.Clone("image")}},
		}
		e := alikeEntry(running)
		a.share(pods, e, first)
		t.Cleanup(func() { runtime.KeepAlive(e) })
		return running
	}
	p, q := run("p", "r"), run("q", "r")
	for range 3 {
		runtime.GC()
	}
	stranger := run("x", "s")
	if &p.Status.HostIPs[0] != &q.Status.HostIPs[0] || unsafe.StringData(p.Status.ContainerStatuses[0].Image) != unsafe.StringData(q.Status.ContainerStatuses[0].Image) {
		t.Error("of two pods alike what came later is not shared")
	}
	if ready := unsafe.StringData(string(p.Status.Conditions[0].Type)); ready != unsafe.StringData(string(stranger.Status.Conditions[0].Type)) {
		t.Error("a word is held twice")
	}
}

// anyPod is drawn of few values, so that two have much in common.
func anyPod(t *rapid.T, label string) *v1.Pod {
	word := func() string { return strings.Clone(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, label)) }
	few := func() int { return rapid.IntRange(0, 2).Draw(t, label) }
	p := &v1.Pod{}
	p.Name, p.Spec.NodeName, p.Status.Phase, p.Spec.RestartPolicy = word(), word(), v1.PodPhase(word()), v1.RestartPolicy(word())
	if few() > 0 {
		p.Labels = map[string]string{}
		for range few() {
			p.Labels[word()] = word()
		}
	}
	if few() > 0 {
		p.Spec.Tolerations = make([]v1.Toleration, 0, 4)
		for range few() {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: word(), TolerationSeconds: new(int64(few()))})
		}
	}
	for range few() {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Args: []string{word(), word()}, Env: []v1.EnvVar{{Name: word()}},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": *resource.NewQuantity(int64(few()), resource.DecimalSI)}},
		})
	}
	if few() > 0 {
		p.CreationTimestamp = metav1.Time{Time: time.Unix(int64(few()), 0)}
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(few()))}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: time.Unix(int64(few()), 0)}, FieldsV1: &metav1.FieldsV1{Raw: []byte(word())}}}
	}
	return p
}

// Every kind can be shared, and types that contain themselves.
func TestEveryKindHasASharer(t *testing.T) {
	for _, k := range registry.All() {
		obj := k.New()
		v := reflect.ValueOf(obj).Elem()
		if !sharerOf(v.Type())(new(own), v, reflect.ValueOf(obj.DeepCopyObject()).Elem(), reflect.Value{}) {
			t.Errorf("two empty ones of %T differ", obj)
		}
	}
	type chain struct {
		Name string
		Next *chain
	}
	one, two := &chain{"a", &chain{"b", nil}}, &chain{"a", &chain{strings.Clone("b"), nil}}
	if s := sharerOf(reflect.TypeFor[chain]()); !s(new(own), reflect.ValueOf(one).Elem(), reflect.ValueOf(two).Elem(), reflect.Value{}) || one.Next != two.Next {
		t.Error("of a type that contains itself nothing is shared")
	}
}

// BenchmarkShare is what sharing adds to the decoding of one pod.
func BenchmarkShare(b *testing.B) {
	var a alike
	pods := &table{kind: &registry.Kind{Namespaced: true}}
	first := alikeEntry(alikePod("a", "r", "token", 300))
	a.share(pods, first, nil)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		e := alikeEntry(alikePod("b", "r", "token", 300))
		b.StartTimer()
		a.share(pods, e, nil)
	}
}

// What an object has for itself is one text, and the labels of a template's pods are there once, also when two sets of them take turns.
func TestOwnTextsAreOne(t *testing.T) {
	var a alike
	pods := &table{kind: &registry.Kind{Namespaced: true}}
	share := func(name, zone string, old *Entry) (*Entry, *v1.Pod) {
		p := alikePod(name, "r", "token", 300)
		p.UID, p.ResourceVersion, p.Spec.NodeName = types.UID("uid of "+name), "7", "node of "+name
		p.Labels = map[string]string{"app": "x", "zone": zone}
		e := alikeEntry(p)
		a.share(pods, e, old)
		return e, p
	}
	first, p := share("p", "1", nil)
	// within tells whether part lies in the text that first's path begins, which is about so long.
	within := func(part string, long int) bool {
		p, w := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(first.path)))
		return p >= w && p+uintptr(len(part)) <= w+uintptr(long)
	}
	_, q := share("q", "2", nil)
	_, r := share("r", "1", nil)
	if reflect.ValueOf(r.Labels).Pointer() != reflect.ValueOf(p.Labels).Pointer() || reflect.ValueOf(q.Labels).Pointer() == reflect.ValueOf(p.Labels).Pointer() {
		t.Errorf("labels: %v and %v are one, or %v is another one's", p.Labels, r.Labels, q.Labels)
	}
	for what, part := range map[string]string{"name": p.Name, "namespace": p.Namespace, "UID": string(p.UID), "node": p.Spec.NodeName, "revision": p.ResourceVersion} {
		if !within(part, 500) {
			t.Errorf("the %s is not with the path", what)
		}
	}
	again, s := share("p", "1", first)
	s.ResourceVersion = "8"
	if again.path != first.path || !within(s.Name, len(first.path)) || !within(again.Key.Name, len(first.path)) || !within(string(s.UID), 500) {
		t.Error("the next version has texts of its own that are the same")
	}
}
