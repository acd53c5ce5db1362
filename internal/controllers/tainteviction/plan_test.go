package tainteviction

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDue(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	taint := func(key string) v1.Taint { return v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute} }
	added := func(key string, seconds int) v1.Taint {
		t := taint(key)
		t.TimeAdded = new(metav1.NewTime(at(seconds)))
		return t
	}
	type look struct {
		at     int
		taints []v1.Taint
		due    int // -1 for never
	}
	tolerations := []v1.Toleration{
		{Key: "hour", Operator: v1.TolerationOpExists, TolerationSeconds: new(int64(3600))},
		{Key: "minute", Operator: v1.TolerationOpExists, TolerationSeconds: new(int64(60))},
		{Key: "other-minute", Operator: v1.TolerationOpExists, TolerationSeconds: new(int64(60))},
		{Key: "ever", Operator: v1.TolerationOpExists},
	}
	for what, looks := range map[string][]look{
		"one taint":                              {{0, []v1.Taint{taint("hour")}, 3600}, {100, []v1.Taint{taint("hour")}, 3600}},
		"none":                                   {{0, nil, -1}},
		"it is tolerated for ever":               {{0, []v1.Taint{taint("ever")}, -1}},
		"it is not tolerated":                    {{0, []v1.Taint{taint("hour")}, 3600}, {7, []v1.Taint{taint("hour"), taint("bad")}, 7}},
		"a second one begins with itself":        {{0, []v1.Taint{taint("hour")}, 3600}, {1000, []v1.Taint{taint("hour"), taint("minute")}, 1060}},
		"the second one goes":                    {{0, []v1.Taint{taint("hour")}, 3600}, {1000, []v1.Taint{taint("hour"), taint("minute")}, 1060}, {1030, []v1.Taint{taint("hour")}, 3600}},
		"all but what is tolerated for ever go":  {{0, []v1.Taint{taint("ever"), taint("minute")}, 60}, {30, []v1.Taint{taint("ever")}, -1}},
		"one comes in another's place":           {{0, []v1.Taint{taint("minute")}, 60}, {30, []v1.Taint{added("other-minute", 30)}, 60}},
		"they say when they came":                {{1020, []v1.Taint{added("hour", 0), added("minute", 1000)}, 1060}},
		"it says that it will come":              {{0, []v1.Taint{added("minute", 500)}, 60}},
		"one came while nobody looked, long ago": {{5000, []v1.Taint{added("hour", 0)}, 3600}},
	} {
		var clock Clock
		for _, l := range looks {
			due, is, ok := Due(l.taints, tolerations, clock, at(l.at))
			if ok != (l.due >= 0) || ok && !due.Equal(at(l.due)) {
				t.Errorf("%s: at %d due %v after %s, want %d", what, l.at, ok, due.Sub(start), l.due)
			}
			clock = is
		}
	}
}
