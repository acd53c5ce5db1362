package events

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client/local"
)

// told runs f with a recorder of the scheduler in a bubble; what it returns lists the events that are stored, and now is when nothing is
// on the way any more.
func told(t *testing.T, refusals int, f func(r *Series, now func() []*v1.Event)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		vb := server(t)
		ctx, cancel := context.WithCancel(t.Context())
		w := StartSeries(ctx, &flaky{local.Scheduler(vb), refusals}, nil)
		f(w.Recorder("default-scheduler"), func() []*v1.Event {
			synctest.Wait()
			out := stored(t, vb)
			slices.SortFunc(out, func(a, b *v1.Event) int { return strings.Compare(a.Message, b.Message) })
			return out
		})
		cancel()
		synctest.Wait()
	})
}

func podAt(name, revision string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), ResourceVersion: revision}}
}

func TestEventsOfTheNewerForm(t *testing.T) {
	told(t, 2, func(r *Series, now func() []*v1.Event) {
		r.Eventf(podAt("p", "1"), podAt("q", "2"), v1.EventTypeNormal, "Preempted", "Preempting", "by %s", "q")
		r.Eventf(podAt("p", "1"), nil, v1.EventTypeNormal, "Scheduled", "Binding", "%s", "to 100%")
		time.Sleep(time.Minute)
		got := now()
		if len(got) != 2 {
			t.Fatalf("%d events", len(got))
		}
		e := got[0]
		if e.Action != "Preempting" || e.Related == nil || e.Related.Name != "q" || e.InvolvedObject.Name != "p" || e.InvolvedObject.Kind != "Pod" ||
			e.ReportingController != "default-scheduler" || !strings.HasPrefix(e.ReportingInstance, "default-scheduler-") || e.EventTime.IsZero() || e.Message != "by q" {
			t.Errorf("%+v", e)
		}
		if e.Source != (v1.EventSource{}) || e.Count != 0 || !e.FirstTimestamp.IsZero() || !e.LastTimestamp.IsZero() || e.Series != nil {
			t.Errorf("what only the older form has: %+v", e)
		}
		if got[1].Related != nil || got[1].Action != "Binding" || got[1].Message != "to 100%" {
			t.Errorf("%+v", got[1])
		}
	})
}

// What is told again of the same version of an object is one event with a series. It is written when it begins, after half an hour, and when
// it is over.
func TestSeries(t *testing.T) {
	told(t, 0, func(r *Series, now func() []*v1.Event) {
		tell := func(revision string, text any) {
			r.Eventf(podAt("p", revision), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%v", text)
			time.Sleep(time.Minute)
		}
		counts := func() string {
			var out []string
			for _, e := range now() {
				n := int32(1)
				if e.Series != nil {
					n = e.Series.Count
				}
				out = append(out, fmt.Sprint(e.Message, " ", n))
			}
			return strings.Join(out, ", ")
		}
		tell("1", "a")
		tell("1", "b") // the text counts for nothing
		tell("2", "c") // another version of the pod
		if got := counts(); got != "a 2, c 1" {
			t.Errorf("at first: %s", got)
		}
		for i := range 40 {
			if tell("1", i); i == 20 && counts() != "a 2, c 1" {
				t.Errorf("meanwhile: %s", counts())
			}
		}
		if got := counts(); got == "a 2, c 1" || !strings.HasSuffix(got, ", c 1") {
			t.Errorf("after half an hour: %s", got)
		}
		time.Sleep(15 * time.Minute)
		if got := counts(); got != "a 42, c 1" {
			t.Errorf("when it is over: %s", got)
		}
		tell("1", "d") // which is forgotten then
		if got := counts(); got != "a 42, c 1, d 1" {
			t.Errorf("afterwards: %s", got)
		}
	})
}

// Two events of one object in one instant are two.
func TestEventsOfOneInstant(t *testing.T) {
	told(t, 0, func(r *Series, now func() []*v1.Event) {
		for _, reason := range []string{"One", "Two", "Three"} {
			r.Eventf(podAt("p", "1"), nil, v1.EventTypeNormal, reason, "Binding", "%s", reason)
		}
		if got := now(); len(got) != 3 {
			t.Errorf("%d events", len(got))
		}
	})
}

// Who is silent for six minutes is forgotten.
func TestWhatIsOver(t *testing.T) {
	s := newSeries()
	at := time.Unix(1000, 0)
	event := func(name string, after time.Duration) *v1.Event {
		return &v1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, EventTime: metav1.NewMicroTime(at.Add(after)), Reason: "R"}
	}
	if e := s.correlate(event("a", 0), at); e.Name != "a" || e.Series != nil {
		t.Errorf("%+v", e)
	}
	if e := s.correlate(event("b", time.Minute), at.Add(time.Minute)); e.Name != "a" || e.Series.Count != 2 || !e.EventTime.Time.Equal(at) {
		t.Errorf("%+v", e)
	}
	if due := s.due(at.Add(10 * time.Minute)); len(due) != 1 || len(s.going) != 0 {
		t.Errorf("due %v, %d go on", due, len(s.going))
	}
	if e := s.correlate(event("c", time.Hour), at.Add(time.Hour)); e.Name != "c" || e.Series != nil {
		t.Errorf("%+v", e)
	}
	if e := s.correlate(event("d", time.Hour+7*time.Minute), at.Add(time.Hour+7*time.Minute)); e.Name != "d" || e.Series != nil {
		t.Errorf("an old one goes on: %+v", e)
	}
}
