package deployment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster is a Deployment and its ReplicaSets as the API has them; step does what a plan says.
type cluster struct {
	d    *appsv1.Deployment
	sets []*appsv1.ReplicaSet
	now  time.Time
	uid  int
	told []string
}

func newCluster(replicas int32, strategy appsv1.DeploymentStrategy) *cluster {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "d", Generation: 1}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Strategy: strategy,
		Template:             v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		RevisionHistoryLimit: new(int32(2)), ProgressDeadlineSeconds: new(int32(600)),
	}
	c := &cluster{d: d, now: start}
	c.image("v1")
	return c
}

func rolling(surge, unavailable intstr.IntOrString) appsv1.DeploymentStrategy {
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}}
}

func (c *cluster) image(v string) {
	c.d.Spec.Template.Spec.Containers = []v1.Container{{Name: "c", Image: v}}
	c.d.Generation++
}

func (c *cluster) scale(n int32) {
	c.d.Spec.Replicas = &n
	c.d.Generation++
}

func (c *cluster) plan() Plan {
	running := map[types.UID]bool{}
	for _, rs := range c.sets {
		running[rs.UID] = rs.Status.Replicas > 0
	}
	return Decide(Seen{Deployment: c.d, Sets: c.sets, Running: running}, c.now)
}

// step does one plan, and says whether it changed anything.
func (c *cluster) step() (changed bool) {
	p := c.plan()
	for _, e := range p.Events {
		c.told = append(c.told, e.Message)
	}
	if b := p.Rollback; b != nil {
		if b.Template != nil {
			c.d.Spec.Template, c.d.Annotations = *b.Template, b.Annotations
		}
		delete(c.d.Annotations, appsv1.DeprecatedRollbackTo)
		c.d.Generation++
		return true
	}
	if p.Create != nil {
		rs := p.Create.DeepCopy()
		c.uid++
		rs.UID, rs.CreationTimestamp, rs.Generation = types.UID("rs"+strconv.Itoa(c.uid)), metav1.NewTime(c.now.Add(time.Duration(c.uid)*time.Second)), 1
		c.sets = append(c.sets, rs)
		changed = true
	}
	for _, ch := range p.Change {
		for _, rs := range c.sets {
			if rs.UID == ch.Set.UID {
				rs.Spec.Replicas, rs.Annotations, rs.Spec.MinReadySeconds = &ch.Replicas, maps.Clone(ch.Annotations), ch.MinReady
				rs.Generation++
				changed = true
			}
		}
	}
	for _, gone := range p.Delete {
		c.sets = slices.DeleteFunc(c.sets, func(rs *appsv1.ReplicaSet) bool { return rs.UID == gone.UID })
		changed = true
	}
	if p.Revision != "" && c.d.Annotations[revisionNote] != p.Revision {
		metav1.SetMetaDataAnnotation(&c.d.ObjectMeta, revisionNote, p.Revision)
		changed = true
	}
	if !equality.Semantic.DeepEqual(c.d.Status, p.Status) {
		c.d.Status = p.Status
		changed = true
	}
	return changed
}

// pods lets the ReplicaSets' controller work: pods are made and go at once, and of the sets that work come up.
func (c *cluster) pods(works func(image string) bool) (changed bool) {
	for _, rs := range c.sets {
		s := appsv1.ReplicaSetStatus{Replicas: *rs.Spec.Replicas, ObservedGeneration: rs.Generation, TerminatingReplicas: new(int32(0))}
		if works(rs.Spec.Template.Spec.Containers[0].Image) {
			s.ReadyReplicas, s.AvailableReplicas = s.Replicas, s.Replicas
		}
		changed = changed || s.Replicas != rs.Status.Replicas || s.AvailableReplicas != rs.Status.AvailableReplicas || s.ObservedGeneration != rs.Status.ObservedGeneration
		rs.Status = s
	}
	return changed
}

func all(string) bool { return true }

// settle steps until nothing changes, and tells of the sizes on the way.
func (c *cluster) settle(t interface{ Fatalf(string, ...any) }, works func(string) bool) (sizes []string) {
	for i := 0; ; i++ {
		if i > 1000 {
			t.Fatalf("a rollout without end: %v", sizes)
		}
		a := c.step()
		if text := c.sizes(); len(sizes) == 0 || sizes[len(sizes)-1] != text {
			sizes = append(sizes, text)
		}
		if b := c.pods(works); !a && !b {
			return sizes
		}
	}
}

// sizes are the sets as image:replicas, those without pods left out.
func (c *cluster) sizes() string {
	var out []string
	for _, rs := range c.sets {
		if *rs.Spec.Replicas > 0 {
			out = append(out, fmt.Sprintf("%s:%d", rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas))
		}
	}
	return strings.Join(out, " ")
}

func (c *cluster) progressing() string {
	p := condition(&c.d.Status, appsv1.DeploymentProgressing)
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", p.Status, p.Reason)
}

// The documentation's rollout of three replicas, and what it says of percentages.
func TestRollout(t *testing.T) {
	quarter := intstr.FromString("25%")
	for _, c := range []struct {
		name     string
		replicas int32
		strategy appsv1.DeploymentStrategy
		want     string
	}{
		{"three replicas, at least three available, at most four", 3, rolling(quarter, quarter), "v1:3 v2:1, v1:2 v2:1, v1:2 v2:2, v1:1 v2:2, v1:1 v2:3, v2:3"},
		{"ten: three more, two fewer", 10, rolling(intstr.FromInt32(3), intstr.FromInt32(2)), "v1:8 v2:3, v1:8 v2:5, v1:3 v2:5, v1:3 v2:10, v2:10"},
		{"none more, one fewer", 3, rolling(intstr.FromInt32(0), intstr.FromInt32(1)), "v1:2, v1:2 v2:1, v1:1 v2:1, v1:1 v2:2, v2:2, v2:3"},
		{"both come to nothing", 2, rolling(intstr.FromInt32(0), intstr.FromString("1%")), "v1:1, v1:1 v2:1, v2:1, v2:2"},
		{"none fewer", 1, rolling(intstr.FromString("1%"), intstr.FromInt32(0)), "v1:1 v2:1, v2:1"},
		{"all anew", 3, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, ", v2:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCluster(c.replicas, c.strategy)
			w.settle(t, all)
			if w.d.Annotations[revisionNote] != "1" || w.progressing() != "True NewReplicaSetAvailable" {
				t.Errorf("at first %v, %s", w.d.Annotations, w.progressing())
			}
			w.image("v2")
			got := strings.Join(w.settle(t, all), ", ")
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if w.d.Annotations[revisionNote] != "2" || !complete(w.d, &w.d.Status) {
				t.Errorf("at last %v, %+v", w.d.Annotations, w.d.Status)
			}
		})
	}
}

// A template that does not work stops the rollout; undone, it is gone, and the first revision has the third number.
func TestBrokenAndUndone(t *testing.T) {
	w := newCluster(3, rolling(intstr.FromString("25%"), intstr.FromString("25%")))
	w.settle(t, all)
	w.image("bad")
	works := func(image string) bool { return image != "bad" }
	if got := strings.Join(w.settle(t, works), ", "); got != "v1:3 bad:1" {
		t.Errorf("stopped at %s", got)
	}
	if w.d.Status.AvailableReplicas != 3 || w.progressing() != "True NewReplicaSetCreated" && w.progressing() != "True ReplicaSetUpdated" {
		t.Errorf("%+v", w.d.Status)
	}
	if again := w.plan().Again; again < 9*time.Minute || again > 11*time.Minute {
		t.Errorf("looks again in %v", again)
	}
	w.now = w.now.Add(11 * time.Minute)
	w.settle(t, works)
	if w.progressing() != "False ProgressDeadlineExceeded" || w.plan().Again != 0 {
		t.Errorf("late: %s, again in %v", w.progressing(), w.plan().Again)
	}
	metav1.SetMetaDataAnnotation(&w.d.ObjectMeta, appsv1.DeprecatedRollbackTo, "0")
	w.settle(t, works)
	if w.sizes() != "v1:3" || w.d.Annotations[revisionNote] != "3" || w.progressing() != "True NewReplicaSetAvailable" {
		t.Errorf("undone: %s, %v, %s", w.sizes(), w.d.Annotations, w.progressing())
	}
	if first := w.sets[0].Annotations; first[revisionHistory] != "1" || first[revisionNote] != "3" {
		t.Errorf("the first set's numbers: %v", first)
	}
	if got := strings.Join(w.told, "; "); got != `Rolled back deployment "web" to revision 1` {
		t.Errorf("told %s", got)
	}
}

// The documentation's example of proportional scaling: of ten, 13 at most, 8 old and 5 new; five more are shared as 3 and 2.
func TestProportionalScaling(t *testing.T) {
	w := newCluster(10, rolling(intstr.FromInt32(3), intstr.FromInt32(2)))
	w.settle(t, all)
	w.image("bad")
	works := func(image string) bool { return image != "bad" }
	w.settle(t, works)
	if w.sizes() != "v1:8 bad:5" {
		t.Fatal(w.sizes())
	}
	w.scale(15)
	if w.settle(t, works); w.sizes() != "v1:11 bad:7" {
		t.Error(w.sizes())
	}
	w.scale(0)
	if w.settle(t, works); w.sizes() != "" {
		t.Error(w.sizes())
	}
}

func TestPause(t *testing.T) {
	w := newCluster(3, rolling(intstr.FromInt32(1), intstr.FromInt32(1)))
	w.settle(t, all)
	w.d.Spec.Paused = true
	w.image("v2")
	if w.settle(t, all); w.sizes() != "v1:3" || w.progressing() != "Unknown DeploymentPaused" {
		t.Errorf("paused: %s, %s", w.sizes(), w.progressing())
	}
	w.scale(5)
	if w.settle(t, all); w.sizes() != "v1:5" {
		t.Errorf("scaled while paused: %s", w.sizes())
	}
	w.d.Spec.Paused = false
	w.d.Generation++
	if w.settle(t, all); w.sizes() != "v2:5" || w.progressing() != "True NewReplicaSetAvailable" {
		t.Errorf("resumed: %s, %s", w.sizes(), w.progressing())
	}
}

// Old ReplicaSets are kept for the history, the newest ones; those that match are adopted, and go when they do not match any more.
func TestHistoryAndAdoption(t *testing.T) {
	w := newCluster(1, rolling(intstr.FromInt32(1), intstr.FromInt32(0)))
	for i := range 5 {
		w.image(fmt.Sprint("v", i))
		w.settle(t, all)
	}
	var kept []string
	for _, rs := range w.sets {
		kept = append(kept, rs.Spec.Template.Spec.Containers[0].Image+"="+rs.Annotations[revisionNote])
	}
	if got := strings.Join(kept, " "); got != "v2=3 v3=4 v4=5" {
		t.Errorf("kept %s", got)
	}
	stray := w.sets[0].DeepCopy()
	stray.Name, stray.UID, stray.OwnerReferences = "stray", "stray", nil
	theirs := stray.DeepCopy()
	theirs.UID, theirs.OwnerReferences = "theirs", []metav1.OwnerReference{{UID: "x", Controller: new(true)}}
	lost := w.sets[1].DeepCopy()
	lost.UID, lost.Labels = "lost", map[string]string{"app": "other"}
	p := Decide(Seen{Deployment: w.d, Sets: append(w.sets, stray, theirs, lost)}, w.now)
	if len(p.Adopt) != 1 || p.Adopt[0] != stray || len(p.Release) != 1 || p.Release[0] != lost {
		t.Errorf("adopts %v, releases %v", p.Adopt, p.Release)
	}
}

// Names that are taken are not tried without end.
func TestCollisionsSlowDown(t *testing.T) {
	w := newCluster(1, rolling(intstr.FromInt32(1), intstr.FromInt32(0)))
	names := map[string]bool{}
	made := 0
	for range 3600 { // seconds
		if p := w.plan(); p.Create != nil {
			if names[p.Create.Name] {
				n := int32(1)
				if w.d.Status.CollisionCount != nil {
					n = *w.d.Status.CollisionCount + 1
				}
				w.d.Status.CollisionCount = &n
			} else {
				made++
				names[p.Create.Name] = true
				rs := p.Create.DeepCopy()
				rs.UID, rs.CreationTimestamp = types.UID(rs.Name), metav1.NewTime(w.now)
				rs.Spec.Template.Annotations = map[string]string{"changed": "by admission"}
				w.sets = append(w.sets, rs)
			}
		}
		w.now = w.now.Add(time.Second)
	}
	if made < 3 || made > 70 {
		t.Errorf("%d sets in an hour", made)
	}
}

// Whatever is done to a Deployment, never more pods are asked for than allowed nor fewer kept than promised, a plan that is done leaves
// nothing to do, and every rollout of templates that work ends.
func TestRolloutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := func(name string) intstr.IntOrString {
			if rapid.Bool().Draw(t, name+" is a percentage") {
				return intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, name)))
			}
			return intstr.FromInt32(rapid.Int32Range(0, 5).Draw(t, name))
		}
		w := newCluster(rapid.Int32Range(0, 12).Draw(t, "replicas"), rolling(share("surge"), share("unavailable")))
		bad := rapid.Bool().Draw(t, "a template does not work")
		works := func(image string) bool { return !bad || image != "v3" }
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				w.image("v" + strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "image")))
			case 1:
				w.scale(rapid.Int32Range(0, 12).Draw(t, "replicas"))
			case 2:
				w.d.Spec.Paused = !w.d.Spec.Paused
				w.d.Generation++
			case 3:
				metav1.SetMetaDataAnnotation(&w.d.ObjectMeta, appsv1.DeprecatedRollbackTo, strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "to")))
			}
			for range rapid.IntRange(0, 6).Draw(t, "steps") {
				w.bounded(t, func() { w.step() })
				w.copy().rests(t)
				if rapid.Bool().Draw(t, "pods") {
					w.pods(works)
				}
			}
		}
		w.d.Spec.Paused = false
		delete(w.d.Annotations, appsv1.DeprecatedRollbackTo)
		w.image("v9")
		w.settle(t, works)
		if want := strings.TrimSuffix("v9:"+strconv.Itoa(int(*w.d.Spec.Replicas)), "v9:0"); w.sizes() != want || !complete(w.d, &w.d.Status) {
			t.Fatalf("%q, want %q; %+v", w.sizes(), want, w.d.Status)
		}
		if w.step() {
			t.Fatal("a plan that was done leaves something to do")
		}
	})
}

func (c *cluster) copy() *cluster {
	out := &cluster{d: c.d.DeepCopy(), now: c.now, uid: c.uid}
	for _, rs := range c.sets {
		out.sets = append(out.sets, rs.DeepCopy())
	}
	return out
}

// rests: while no pod does anything plans come to an end, each within bounds. A rollback, a new template and a new size at once take seven.
func (c *cluster) rests(t *rapid.T) {
	for range 20 {
		changed := false
		c.bounded(t, func() { changed = c.step() })
		if !changed {
			return
		}
	}
	t.Fatalf("plans without end: %s", c.describe())
}

// bounded judges what a step may ask for, from what there was before it.
func (c *cluster) bounded(t *rapid.T, step func()) {
	sumUp := func(f func(*appsv1.ReplicaSet) int32) (n int32) {
		for _, rs := range c.sets {
			n += f(rs)
		}
		return n
	}
	asked := func(rs *appsv1.ReplicaSet) int32 { return *rs.Spec.Replicas }
	kept := func(rs *appsv1.ReplicaSet) int32 { return min(*rs.Spec.Replicas, rs.Status.AvailableReplicas) }
	r := &roll{d: c.d}
	had, up, before := sumUp(asked), sumUp(kept), c.describe()
	resized := slices.ContainsFunc(c.sets, func(rs *appsv1.ReplicaSet) bool {
		return *rs.Spec.Replicas > 0 && rs.Annotations[desiredReplicas] != strconv.Itoa(int(r.wanted()))
	})
	step()
	if n := sumUp(asked); n > max(had, r.wanted()+r.surge()) {
		t.Fatalf("%d are asked for, had %d, wanted %d and %d: %s, then %s", n, had, r.wanted(), r.surge(), before, c.describe())
	}
	// A new size is shared out in proportion, whoever is available, as upstream does.
	if n := sumUp(kept); !resized && n < min(up, r.wanted()-r.unavailable()) {
		t.Fatalf("%d are kept, had %d, wanted %d less %d: %s, then %s", n, up, r.wanted(), r.unavailable(), before, c.describe())
	}
}

// describe tells of each set its image, how many it is to have, and how many of those are available.
func (c *cluster) describe() string {
	var out []string
	for _, rs := range c.sets {
		out = append(out, fmt.Sprintf("%s:%d/%d of %s", rs.Spec.Template.Spec.Containers[0].Image, rs.Status.AvailableReplicas, *rs.Spec.Replicas, rs.Annotations[desiredReplicas]))
	}
	return strings.Join(out, " ")
}
