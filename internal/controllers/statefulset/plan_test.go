package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sea is a set and its pods, with nobody between a plan and what it does.
type sea struct {
	set     *appsv1.StatefulSet
	current string // image of the current revision
	update  string
	pods    map[string]*v1.Pod
	claims  map[string]*v1.PersistentVolumeClaim
	made    int
}

func newSea(replicas int32) *sea {
	return &sea{
		set: &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &replicas, PodManagementPolicy: appsv1.OrderedReadyPodManagement, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
					Type:          appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(0)), MaxUnavailable: new(intstr.FromInt32(1))},
				},
			},
		},
		current: "v1", update: "v1", pods: map[string]*v1.Pod{}, claims: map[string]*v1.PersistentVolumeClaim{},
	}
}

func template(image string) *v1.PodTemplateSpec {
	return &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}}}
}

func (s *sea) decide() Plan {
	var pods []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, s.pods[name])
	}
	return Decide(State{
		Waiting: func(*v1.Pod) time.Duration { return 0 },
		Set:     s.set, Current: Version{s.current, template(s.current)}, Update: Version{s.update, template(s.update)}, Pods: pods, Now: now,
		Claim: func(name string) *v1.PersistentVolumeClaim { return s.claims[name] },
	})
}

// apply does a plan and says what it did.
func (s *sea) apply(t interface{ Fatalf(string, ...any) }, p Plan) (did []string) {
	for _, g := range p.Groups {
		for _, step := range g {
			switch step.Do {
			case CreateClaim:
				s.claims[step.Claim.Name] = step.Claim
				did = append(did, "+"+step.Claim.Name)
			case OwnClaim:
				s.claims[step.Claim.Name] = step.Claim
				did = append(did, "own "+step.Claim.Name)
			case CreatePod:
				if s.pods[step.Pod.Name] != nil {
					t.Fatalf("%s is created a second time", step.Pod.Name)
				}
				pod := step.Pod.DeepCopy()
				s.made++
				pod.UID, pod.Status.Phase = types.UID(fmt.Sprint("pod", s.made)), v1.PodPending
				s.pods[pod.Name] = pod
				did = append(did, "+"+pod.Name+"="+version(pod))
			case DeletePod:
				pod := s.pods[step.Pod.Name].DeepCopy()
				pod.DeletionTimestamp = &metav1.Time{Time: now}
				s.pods[pod.Name] = pod
				did = append(did, "-"+pod.Name)
			case LabelPod:
				s.pods[step.Pod.Name] = step.Pod
			case Refuse:
				did = append(did, "no "+step.Pod.Name)
			}
		}
	}
	s.set = s.set.DeepCopy()
	s.set.Status = p.Status
	s.current = p.Status.CurrentRevision
	return did
}

// kubelet brings a pod one step forward.
func (s *sea) kubelet(name string) {
	pod := s.pods[name]
	switch {
	case pod == nil:
	case pod.DeletionTimestamp != nil:
		delete(s.pods, name)
	case version(pod) != "broken":
		pod = pod.DeepCopy()
		pod.Status.Phase = v1.PodRunning
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		s.pods[name] = pod
	}
}

// settle lets plans and kubelets take turns until nothing happens any more, and tells what was done.
func (s *sea) settle(t interface{ Fatalf(string, ...any) }) (did []string) {
	for range 200 {
		step := s.apply(t, s.decide())
		before := fmt.Sprint(s.text())
		for _, name := range slices.Sorted(maps.Keys(s.pods)) {
			s.kubelet(name)
		}
		if len(step) == 0 && before == s.text() {
			return did
		}
		did = append(did, step...)
	}
	t.Fatalf("it never ends: %v", did[max(0, len(did)-20):])
	return nil
}

func (s *sea) text() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		out = append(out, fmt.Sprint(name, "=", version(p), p.Status.Phase, p.DeletionTimestamp != nil))
	}
	return strings.Join(out, " ")
}

func (s *sea) expect(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(s.settle(t), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The examples of the public documentation: started from 0 to N-1, ended from N-1 to 0, rolled out from the largest to the smallest.
func TestGuarantees(t *testing.T) {
	s := newSea(3)
	s.expect(t, "+web-0=v1 +web-1=v1 +web-2=v1")
	s.update = "v2"
	s.expect(t, "-web-2 +web-2=v2 -web-1 +web-1=v2 -web-0 +web-0=v2")
	*s.set.Spec.Replicas = 1
	s.expect(t, "-web-2 -web-1")
	*s.set.Spec.Replicas = 3
	s.set.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(2))
	s.expect(t, "+web-1=v2 +web-2=v2")
	s.update = "v3"
	s.expect(t, "-web-2 +web-2=v3")
	s.set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	s.expect(t, "")
	delete(s.pods, "web-1")
	s.expect(t, "+web-1=v3")
}

// What has been reported of sets elsewhere.
func TestKnownReports(t *testing.T) {
	parallel := func(replicas int32, versions ...string) *sea {
		s := newSea(replicas)
		s.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		s.current, s.update = versions[0], versions[0]
		s.settle(t)
		return s
	}
	// A first template that never works is replaced, although its pods are missing already.
	s := parallel(1, "broken")
	s.update = "v2"
	s.expect(t, "-web-0 +web-0=v2")
	// Those that do not work go first, whatever their number, and cost nothing of what may be missing.
	s = parallel(4, "v1")
	for _, name := range []string{"web-0", "web-1"} {
		pod := s.pods[name].DeepCopy()
		pod.Status.Conditions[0].Status = v1.ConditionFalse
		s.pods[name] = pod
	}
	s.update = "v2"
	if got := strings.Join(s.apply(t, s.decide()), " "); got != "-web-1 -web-0" {
		t.Error(got)
	}
	// The first number is another: what has none of the numbers goes, the rest stays.
	s = newSea(2)
	s.set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
	s.expect(t, "+web-3=v1 +web-4=v1")
	s.set.Spec.Ordinals.Start = 2
	s.expect(t, "+web-2=v1 -web-4")
	// A pod that is ready and not available yet holds the next one, also without order.
	s = parallel(3, "v1")
	s.set.Spec.MinReadySeconds = 10
	s.update = "v2"
	s.apply(t, s.decide())
	s.kubelet("web-2")
	s.apply(t, s.decide())
	s.kubelet("web-2")
	s.pods["web-2"].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
	if p := s.decide(); len(p.Groups) != 0 || p.Again != 10*time.Second {
		t.Errorf("%d groups, again after %s", len(p.Groups), p.Again)
	}
}

// Before anything else happens, all pods before it are running and ready.
func TestOrderWaits(t *testing.T) {
	s := newSea(3)
	s.current, s.update = "broken", "broken"
	s.expect(t, "+web-0=broken")
	*s.set.Spec.Replicas = 0 // the sick one itself may go
	s.expect(t, "-web-0")
	s = newSea(2)
	s.settle(t)
	s.update = "broken"
	s.expect(t, "-web-1 +web-1=broken")
	*s.set.Spec.Replicas = 1
	s.expect(t, "-web-1 -web-0 +web-0=broken")
}

func TestClaimsGoWithTheirOwners(t *testing.T) {
	del, keep := appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	for _, c := range []struct {
		scaled, deleted appsv1.PersistentVolumeClaimRetentionPolicyType
		stays, goes     string // owners of the claims of a pod that stays, and of one that is one too many
	}{
		{keep, keep, "", ""},
		{keep, del, "StatefulSet/web", "StatefulSet/web"},
		{del, keep, "", "Pod/web-1"},
		{del, del, "StatefulSet/web", "Pod/web-1"},
	} {
		s := newSea(2)
		s.set.Spec.VolumeClaimTemplates = []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		s.set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: c.scaled, WhenDeleted: c.deleted}
		s.settle(t)
		*s.set.Spec.Replicas = 1
		s.settle(t)
		owner := func(claim string) string {
			refs := s.claims[claim].OwnerReferences
			if len(refs) == 0 {
				return ""
			}
			return refs[0].Kind + "/" + refs[0].Name
		}
		if a, b := owner("data-web-0"), owner("data-web-1"); a != c.stays || b != c.goes {
			t.Errorf("%s, %s: %q and %q", c.scaled, c.deleted, a, b)
		}
		// A claim that goes with an earlier pod keeps the next one of the name from being created.
		*s.set.Spec.Replicas = 2
		did := s.settle(t)
		if waits := c.scaled == del; waits != (len(did) == 0) {
			t.Errorf("%s, %s: %v", c.scaled, c.deleted, did)
		}
	}
	s := newSea(1)
	s.set.Spec.VolumeClaimTemplates = []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	s.claims["data-web-0"] = &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", DeletionTimestamp: &metav1.Time{Time: now}}}
	if did := s.apply(t, s.decide()); strings.Join(did, " ") != "no web-0" {
		t.Error(did)
	}
}

// Whatever happens in whatever order: no number twice (apply says so), of what is available only as many go for a rollout as may be
// missing, all comes and goes in its order, one state has one plan, which leaves nothing to do, and when the world stands still every pod
// there should be is there, of the template it should have.
func TestPlansHoldWhatTheyPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		s := newSea(n)
		if rapid.Bool().Draw(t, "parallel") {
			s.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		}
		if rapid.Bool().Draw(t, "start") {
			s.set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
		}
		most := rapid.Int32Range(1, 3).Draw(t, "most")
		s.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(most))
		partition := rapid.Int32Range(0, 4).Draw(t, "partition")
		s.set.Spec.UpdateStrategy.RollingUpdate.Partition = &partition
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"plan", "plan", "kubelet", "kubelet", "scale", "template", "fail", "lose"}).Draw(t, "step") {
			case "plan":
				s.checked(t, int(most))
			case "kubelet":
				s.kubelet(s.any(t))
			case "scale":
				*s.set.Spec.Replicas = rapid.Int32Range(0, 6).Draw(t, "replicas")
			case "template":
				s.update = rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "image")
			case "fail":
				if pod := s.pods[s.any(t)]; pod != nil && pod.DeletionTimestamp == nil {
					pod = pod.DeepCopy()
					pod.Status.Phase, pod.Status.Conditions = v1.PodFailed, nil
					s.pods[pod.Name] = pod
				}
			case "lose":
				delete(s.pods, s.any(t))
			}
		}
		s.comesToRest(t, int(most))
		s.update = "v4" // from a state in which all is well, too
		s.comesToRest(t, int(most))
		*s.set.Spec.Replicas = rapid.Int32Range(0, n).Draw(t, "fewer")
		s.comesToRest(t, int(most))
	})
}

// comesToRest: when the world stands still every pod there should be is there, of the template it should have.
func (s *sea) comesToRest(t *rapid.T, most int) {
	rounds := 0
	for before := "-"; before != s.text() || len(s.decide().Groups) > 0; {
		before = s.text()
		s.checked(t, most)
		for _, name := range slices.Sorted(maps.Keys(s.pods)) {
			s.kubelet(name)
		}
		if rounds++; rounds > 60 {
			t.Fatalf("it never ends: %s", s.text())
		}
	}
	first := firstOrdinal(s.set)
	partition := int(*s.set.Spec.UpdateStrategy.RollingUpdate.Partition)
	if len(s.pods) != int(*s.set.Spec.Replicas) {
		t.Fatalf("%d wanted: %s", *s.set.Spec.Replicas, s.text())
	}
	for i := first + partition; i < first+int(*s.set.Spec.Replicas); i++ {
		if pod := s.pods[fmt.Sprintf("web-%d", i)]; pod == nil || version(pod) != s.update || !runningReady(pod) {
			t.Fatalf("%s is wanted: %s", s.update, s.text())
		}
	}
}

func (s *sea) any(t *rapid.T) string {
	if len(s.pods) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(s.pods))).Draw(t, "pod")
}

// checked applies a plan and checks what a rollout takes away.
func (s *sea) checked(t *rapid.T, most int) {
	p, again := s.decide(), s.decide()
	if fmt.Sprint(p) != fmt.Sprint(again) {
		// Pods are made anew for each plan: compare what is done.
		a, b := *s, *s
		a.pods, b.pods = maps.Clone(s.pods), maps.Clone(s.pods)
		if x, y := a.apply(t, p), b.apply(t, again); !slices.Equal(x, y) {
			t.Fatalf("two plans: %v and %v", x, y)
		}
	}
	first, n := firstOrdinal(s.set), replicas(s.set)
	serving := func(pod *v1.Pod) bool { return pod != nil && runningReady(pod) && pod.DeletionTimestamp == nil }
	missing := 0
	for i := first; i < first+n; i++ {
		if !serving(s.pods[fmt.Sprintf("web-%d", i)]) {
			missing++
		}
	}
	taken := 0
	for _, g := range p.Groups {
		for _, step := range g {
			if ord := Ordinal(step.Pod); step.Do == DeletePod && ord >= first && ord < first+n && serving(step.Pod) {
				taken++
			}
		}
	}
	if taken > 0 && missing+taken > most {
		t.Fatalf("%d are missing, %d more are taken, %d may be: %s", missing, taken, most, s.text())
	}
	s.inOrder(t, p, serving)
	s.apply(t, p)
	for _, g := range s.decide().Groups {
		for _, step := range g {
			if step.Do == CreatePod || step.Do == DeletePod {
				t.Fatalf("applied, a plan leaves to do: %v %s", step.Do, step.Pod.Name)
			}
		}
	}
}

// inOrder: what is too much goes from the end, what is rolled out too and not below the partition; with order one pod comes at a time, when
// those before it run and are ready, and one goes at a time that is too much.
func (s *sea) inOrder(t *rapid.T, p Plan, serving func(*v1.Pod) bool) {
	first, n := firstOrdinal(s.set), replicas(s.set)
	ordered := s.set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement
	partition := int(*s.set.Spec.UpdateStrategy.RollingUpdate.Partition)
	goes, comes := map[string]bool{}, 0
	for _, g := range p.Groups {
		for _, step := range g {
			if step.Do == DeletePod {
				goes[step.Pod.Name] = true
			}
		}
	}
	stays := func(match func(ord int, pod *v1.Pod) bool) bool {
		for name, pod := range s.pods {
			if ord := Ordinal(pod); !goes[name] && pod.DeletionTimestamp == nil && match(ord, pod) {
				return true
			}
		}
		return false
	}
	surplus := 0
	for _, g := range p.Groups {
		for _, step := range g {
			ord := Ordinal(step.Pod)
			wanted := ord >= first && ord < first+n
			switch {
			case step.Do == CreatePod:
				comes++
				for i := first; ordered && i < ord; i++ {
					if before := s.pods[fmt.Sprintf("web-%d", i)]; before == nil || !runningReady(before) || terminating(before) {
						t.Fatalf("%s comes before web-%d is ready: %s", step.Pod.Name, i, s.text())
					}
				}
			case step.Do != DeletePod:
			case !wanted:
				surplus++
				if stays(func(o int, _ *v1.Pod) bool { return o > ord && (o < first || o >= first+n) }) {
					t.Fatalf("%s goes before those after it: %s", step.Pod.Name, s.text())
				}
			case serving(step.Pod):
				if ord < first+partition {
					t.Fatalf("%s goes, below the partition %d: %s", step.Pod.Name, partition, s.text())
				}
				if stays(func(o int, pod *v1.Pod) bool {
					return o > ord && o < first+n && serving(pod) && version(pod) != s.update
				}) {
					t.Fatalf("%s is replaced before those after it: %s", step.Pod.Name, s.text())
				}
			}
		}
	}
	if ordered && (comes > 1 || surplus > 1 || comes+surplus > 1) {
		t.Fatalf("at once %d come and %d go: %s", comes, surplus, s.text())
	}
}
