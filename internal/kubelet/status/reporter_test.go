package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

var _ worker.Reporter = (*Reporter)(nil)

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1}}
}

func phase(p v1.PodPhase, ready v1.ConditionStatus) v1.PodStatus {
	return v1.PodStatus{Phase: p, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}}
}

// settle lets d pass and then waits for everything that goes on without time passing.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs body in a synctest bubble with a running Reporter over api.
func bubble(t *testing.T, api *fakeAPI, body func(r *Reporter, story func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		r, err := New(Config{
			Client: api, Log: slog.New(slog.DiscardHandler), Parallel: 3,
			Append: func(rec timeline.Record) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, fmt.Sprintf("%s %s %s %s>%s %s", rec.Pod.Name, rec.Stage, rec.Subject, rec.From, rec.To, rec.Cause))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx, func() {}) }()
		synctest.Wait()
		body(r, func() []string { mu.Lock(); defer mu.Unlock(); return lines })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if api.overlap {
			t.Error("two calls for one pod at once")
		}
	})
}

func TestNewestStatusIsWrittenAtOnceAndOnlyWhenItDiffers(t *testing.T) {
	api := newAPI(pod("a"))
	api.latency = 10 * time.Millisecond
	bubble(t, api, func(r *Reporter, story func() []string) {
		start := time.Now()
		r.Report(pod("a"), phase(v1.PodPending, v1.ConditionFalse))
		synctest.Wait()                                             // the first write is on its way
		r.Report(pod("a"), phase(v1.PodPending, v1.ConditionTrue))  // overtaken
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionFalse)) // the newest
		settle(25 * time.Millisecond)
		if got := api.pod("a").Status.Phase; got != v1.PodRunning || time.Since(start) > 30*time.Millisecond {
			t.Errorf("phase %s after %v", got, time.Since(start))
		}
		if api.writes != 2 {
			t.Errorf("%d writes, want 2: the report in between was overtaken", api.writes)
		}
		calls := api.calls
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionFalse))
		settle(time.Minute)
		if api.calls != calls {
			t.Error("a report that says nothing new called the API")
		}
		want := []string{
			"a phase  >Pending ", "a condition Ready >False ", "a phase  Pending>Running ",
		}
		if got := story(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("timeline:\n%q\nwant\n%q", got, want)
		}
	})
}

func TestPodsAreWrittenInParallelWithABound(t *testing.T) {
	api := newAPI()
	api.latency = time.Second
	for i := range 9 {
		p := pod(fmt.Sprint("p", i))
		api.pods[p.Name] = p
	}
	bubble(t, api, func(r *Reporter, _ func() []string) {
		start := time.Now()
		for i := range 9 {
			r.Report(pod(fmt.Sprint("p", i)), phase(v1.PodRunning, v1.ConditionTrue))
		}
		for r.Pending() > 0 {
			settle(100 * time.Millisecond)
		}
		if took := time.Since(start); took < 3*time.Second || took > 3200*time.Millisecond || api.most != 3 {
			t.Errorf("nine writes of 1 s by three took %v, %d at once", took, api.most)
		}
	})
}

// A condition holds since it turned, be the API told of it at once or when it is back.
func TestConditionsTellWhenTheyTurned(t *testing.T) {
	api := newAPI(pod("a"))
	bubble(t, api, func(r *Reporter, _ func() []string) {
		since := func() time.Time { return find(api.pod("a").Status.Conditions, v1.PodReady).LastTransitionTime.Time }
		report := func(p v1.PodPhase, ready v1.ConditionStatus) time.Time {
			at := time.Now().Truncate(time.Second)
			r.Report(pod("a"), phase(p, ready))
			settle(10 * time.Second)
			return at
		}
		down := func(err error) {
			api.mu.Lock()
			defer api.mu.Unlock()
			api.down = err
		}
		first := report(v1.PodRunning, v1.ConditionTrue)
		down(errors.New("away"))
		turned := report(v1.PodRunning, v1.ConditionFalse)
		settle(time.Hour)
		report(v1.PodFailed, v1.ConditionFalse)
		if !since().Equal(first) {
			t.Fatalf("%s, want %s", since(), first)
		}
		down(nil)
		settle(time.Minute)
		if api.pod("a").Status.Phase != v1.PodFailed || !since().Equal(turned) {
			t.Errorf("%s not ready since %s, want %s", api.pod("a").Status.Phase, since(), turned)
		}
	})
}

func TestUnreachableAPIIsRetriedWithBackOff(t *testing.T) {
	api := newAPI(pod("a"))
	api.down = errors.New("connection refused")
	bubble(t, api, func(r *Reporter, _ func() []string) {
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionTrue))
		settle(time.Minute)
		if api.calls < 5 || api.calls > 20 {
			t.Errorf("%d calls in a minute without the API", api.calls)
		}
		api.mu.Lock()
		api.down = nil
		api.mu.Unlock()
		settle(11 * time.Second)
		if api.pod("a").Status.Phase != v1.PodRunning || r.Pending() != 0 {
			t.Error("not written after the API came back")
		}
	})
}

func TestFinishedDeletesOnlyADeletedPodAndAfterItsLastStatus(t *testing.T) {
	a := pod("a")
	api := newAPI(a)
	api.latency = time.Millisecond
	bubble(t, api, func(r *Reporter, _ func() []string) {
		var last v1.PodPhase
		api.onWrite = func(p *v1.Pod) { last = p.Status.Phase }
		r.Report(a, phase(v1.PodSucceeded, v1.ConditionFalse))
		r.Finished(a)
		settle(time.Second)
		if len(api.deletes) != 0 {
			t.Fatal("deleted although nobody asked")
		}
		now := metav1.Now()
		asked := a.DeepCopy()
		asked.DeletionTimestamp = &now
		r.Refresh(asked)
		settle(time.Second)
		if len(api.deletes) != 1 || api.pod("a") != nil || last != v1.PodSucceeded {
			t.Errorf("deletes %v, last phase written %q", api.deletes, last)
		}
		if _, known := r.Status(a.UID); known {
			t.Error("the pod is still remembered")
		}
	})
}

func TestAnotherPodOfTheSameNameIsLeftAlone(t *testing.T) {
	other := pod("a")
	other.UID = "second"
	api := newAPI(other)
	bubble(t, api, func(r *Reporter, _ func() []string) {
		now := metav1.Now()
		first := pod("a")
		first.DeletionTimestamp = &now
		r.Report(first, phase(v1.PodFailed, v1.ConditionFalse))
		synctest.Wait()
		r.Report(first, phase(v1.PodFailed, v1.ConditionTrue))
		r.Finished(first)
		settle(time.Minute)
		if api.writes != 0 || len(api.deletes) != 0 || api.pod("a") == nil || api.calls != 1 {
			t.Errorf("writes %d deletes %v calls %d", api.writes, api.deletes, api.calls)
		}
	})
}

func TestSomeoneElsesChangeIsRepaired(t *testing.T) {
	api := newAPI(pod("a"))
	bubble(t, api, func(r *Reporter, _ func() []string) {
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionTrue))
		synctest.Wait()
		api.mu.Lock()
		changed := api.pods["a"].DeepCopy()
		changed.Status.PodIP = "6.6.6.6"
		api.pods["a"] = changed
		api.mu.Unlock()
		r.Refresh(changed)
		synctest.Wait()
		if got := api.pod("a").Status.PodIP; got != "" {
			t.Errorf("podIP %s", got)
		}
		writes := api.writes
		r.Refresh(api.pod("a"))
		synctest.Wait()
		if api.writes != writes {
			t.Error("an unchanged pod was written")
		}
	})
}

// What the API says already is held once, with its pod, and what comes after is judged as if it were held twice.
func TestASettledStatusIsTheAPIs(t *testing.T) {
	gated := pod("b")
	gated.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
	api := newAPI(pod("a"), gated)
	bubble(t, api, func(r *Reporter, _ func() []string) {
		change := func(name string, f func(*v1.PodStatus)) {
			api.mu.Lock()
			changed := api.pods[name].DeepCopy()
			f(&changed.Status)
			api.pods[name] = changed
			api.mu.Unlock()
			r.Refresh(changed)
			synctest.Wait()
		}
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionTrue))
		r.Report(gated, phase(v1.PodRunning, v1.ConditionTrue))
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			r.Refresh(api.pod(name))
		}
		synctest.Wait()
		r.mu.Lock()
		if e := r.pods["uid-a"]; e.status != &e.pod.Status {
			t.Error("a status is held beside the API's")
		}
		r.mu.Unlock()
		since := find(api.pod("a").Status.Conditions, v1.PodReady).LastTransitionTime
		for range 2 {
			settle(time.Minute)
			change("a", func(s *v1.PodStatus) { s.PodIP, s.Conditions = "6.6.6.6", nil })
			if s := api.pod("a").Status; s.PodIP != "" || !find(s.Conditions, v1.PodReady).LastTransitionTime.Equal(&since) {
				t.Errorf("someone else's change became %+v", s)
			}
		}
		if c := find(api.pod("b").Status.Conditions, v1.PodReady); c.Status != v1.ConditionFalse {
			t.Errorf("with a gate that nobody turned: %+v", c)
		}
		change("b", func(s *v1.PodStatus) {
			s.Conditions = append(s.Conditions, v1.PodCondition{Type: "gate", Status: v1.ConditionTrue})
		})
		if c := find(api.pod("b").Status.Conditions, v1.PodReady); c.Status != v1.ConditionTrue {
			t.Errorf("once its gate was turned: %+v", c)
		}
	})
}

func TestStaticPodWritesItsMirror(t *testing.T) {
	mirror := pod("a")
	mirror.UID, mirror.Annotations = "mirror", map[string]string{v1.MirrorPodAnnotationKey: "h1"}
	static := pod("a")
	static.Annotations = map[string]string{podlife.SourceAnnotation: "file", podlife.HashAnnotation: "h1"}
	api := newAPI()
	bubble(t, api, func(r *Reporter, _ func() []string) {
		r.Report(static, phase(v1.PodRunning, v1.ConditionTrue))
		synctest.Wait()
		api.mu.Lock()
		api.pods["a"] = mirror
		api.mu.Unlock()
		r.Refresh(static) // the mirror has been made
		synctest.Wait()
		if api.pod("a").Status.Phase != v1.PodRunning {
			t.Error("the mirror has no status")
		}
		r.Finished(static)
		synctest.Wait()
		if len(api.deletes) != 0 {
			t.Error("the mirror is its source's to delete")
		}
	})
}

func TestReporterRunsAgainAfterItsRunEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(pod("a"))
		r, err := New(Config{Client: api, Log: slog.New(slog.DiscardHandler), Append: timeline.Discard})
		if err != nil {
			t.Fatal(err)
		}
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionTrue)) // before Run
		for i, want := range []v1.PodPhase{v1.PodRunning, v1.PodSucceeded} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- r.Run(ctx, func() {}) }()
			synctest.Wait()
			if got := api.pod("a").Status.Phase; got != want {
				t.Errorf("run %d: %s", i, got)
			}
			cancel()
			<-done
			r.Report(pod("a"), phase(v1.PodSucceeded, v1.ConditionFalse)) // between two runs
		}
	})
}

// kubernetes/kubernetes#109531: who waits for pods' ends waits until the API knows of them, but not for longer than it wants to; what nobody
// needs to know, or cannot know, is not waited for.
func TestAwaitEnds(t *testing.T) {
	static := pod("static")
	static.Annotations = map[string]string{podlife.SourceAnnotation: "file", podlife.HashAnnotation: "h"}
	api := newAPI(pod("a"))
	api.latency = 2 * time.Second
	bubble(t, api, func(r *Reporter, _ func() []string) {
		wait := func(d time.Duration, pods ...types.UID) time.Duration {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			start := time.Now()
			r.AwaitEnds(ctx, pods)
			return time.Since(start)
		}
		r.Report(pod("a"), phase(v1.PodRunning, v1.ConditionTrue))
		r.Report(static, phase(v1.PodRunning, v1.ConditionTrue))
		if d := wait(10*time.Second, "uid-a"); d != 10*time.Second {
			t.Errorf("it runs, and was waited for %v", d)
		}
		r.Report(pod("gone"), phase(v1.PodRunning, v1.ConditionTrue))
		r.Report(pod("a"), phase(v1.PodFailed, v1.ConditionFalse))
		if d := wait(time.Minute, "uid-a", "uid-gone", "uid-static", "unknown"); d == 0 || d > 5*time.Second || api.pod("a").Status.Phase != v1.PodFailed {
			t.Errorf("after %v the API has it %s", d, api.pod("a").Status.Phase)
		}
		if d := wait(time.Minute, "uid-a"); d != 0 {
			t.Errorf("it is known, and was waited for %v", d)
		}
	})
}
