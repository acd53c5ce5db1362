package history

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry/podobject"
)

func owner(image string) Owner {
	t := &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}}}
	podobject.DefaultTemplate(t)
	return Owner{
		Meta: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Annotations: map[string]string{"a": "b"}}},
		GVK:  appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Template: t, HashLabel: "hash",
	}
}

func kept(image string, number int64) *appsv1.ControllerRevision {
	r := owner(image).revision(number)
	r.UID = types.UID(r.Name)
	return r
}

func TestWhichRevisionIsTheTemplates(t *testing.T) {
	one, two, three := kept("v1", 1), kept("v2", 2), kept("v3", 3)
	orphan, strange, foreign := kept("v4", 4), kept("v5", 5), kept("v6", 6)
	orphan.OwnerReferences = nil
	strange.Labels = map[string]string{"app": "other"}
	foreign.OwnerReferences[0].UID = "other"
	twin := kept("v1", 8)
	twin.Name = "twin"
	older := kept("v1", 7) // as a server wrote it that did not default
	bare := owner("v1")
	bare.Template.Spec.DNSPolicy, bare.Template.Spec.SchedulerName = "", ""
	older.Data.Raw = Data(bare.Template)
	for _, c := range []struct {
		image string
		have  []*appsv1.ControllerRevision
		want  string
	}{
		{"v1", nil, "new 1"},
		{"v1", []*appsv1.ControllerRevision{one}, "v1"},
		{"v2", []*appsv1.ControllerRevision{one}, "new 2"},
		{"v1", []*appsv1.ControllerRevision{three, one, two}, "v1 becomes 4"},
		{"v3", []*appsv1.ControllerRevision{three, one, two}, "v3"},
		{"v4", []*appsv1.ControllerRevision{one, orphan}, "v4, 1 adopted"},
		{"v5", []*appsv1.ControllerRevision{one, strange, foreign}, "new 2, 1 released"},
		{"v1", []*appsv1.ControllerRevision{two, older}, "v1"},
		{"v1", []*appsv1.ControllerRevision{twin, one, two}, "v1, 1 twins"},
		{"v2", []*appsv1.ControllerRevision{twin, one, two}, "v2 becomes 9"},
	} {
		p := Decide(owner(c.image), c.have)
		got := fmt.Sprintf("new %d", p.Number)
		if p.Current != nil {
			held, err := Template(p.Current)
			if err != nil {
				t.Fatal(err)
			}
			got = held.Spec.Containers[0].Image
			if p.Number > 0 {
				got += fmt.Sprintf(" becomes %d", p.Number)
			}
		}
		if n := len(p.Adopt); n > 0 {
			got += fmt.Sprintf(", %d adopted", n)
		}
		if n := len(p.Release); n > 0 {
			got += fmt.Sprintf(", %d released", n)
		}
		if n := len(p.Twins); n > 0 {
			got += fmt.Sprintf(", %d twins", n)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.image, got, c.want)
		}
	}
}

func TestForget(t *testing.T) {
	list := []*appsv1.ControllerRevision{kept("v1", 1), kept("v2", 2), kept("v3", 3), kept("v4", 4)}
	inUse := func(r *appsv1.ControllerRevision) bool { return r == list[0] || r == list[3] }
	for limit, want := range map[int]string{-1: "", 0: "2 3", 1: "2", 2: ""} {
		var got []string
		for _, r := range Forget(list, inUse, limit) {
			got = append(got, fmt.Sprint(r.Revision))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d: %v, want %s", limit, got, want)
		}
	}
}

// A template comes back as it was, however often it is kept, and another count of collisions has another name.
func TestRevisionsHoldTemplates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := owner(rapid.StringMatching(`[a-z<&>"]{1,20}`).Draw(t, "image"))
		o.Template.Annotations = rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "annotations")
		if len(o.Template.Annotations) == 0 {
			o.Template.Annotations = nil
		}
		r := o.revision(1)
		held, err := Template(r)
		if err != nil || !equality.Semantic.DeepEqual(held, o.Template) {
			t.Fatalf("%v: %+v", err, held)
		}
		if p := Decide(o, []*appsv1.ControllerRevision{r}); p.Current != r || p.Number != 0 {
			t.Fatalf("not found again: %+v", p)
		}
		o.Collisions = 1
		if r.Name == o.revision(1).Name || !strings.HasPrefix(r.Name, "web-") || r.Labels["hash"] != strings.TrimPrefix(r.Name, "web-") || r.Annotations["a"] != "b" {
			t.Fatalf("%+v", r.ObjectMeta)
		}
	})
}
