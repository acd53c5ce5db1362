package history

import (
	"testing"
	"time"
)

// run records requests one after another.
func run(pairs ...any) *Recorder {
	r := NewRecorder()
	for i := 0; i < len(pairs); i += 2 {
		r.Do(i, pairs[i].(Ask), func() (Answer, bool) { return pairs[i+1].(Answer), false })
	}
	return r
}

// A history that can be explained passes, and each way of lying does not.
func TestCheck(t *testing.T) {
	create, get := Ask{Verb: Create, Name: "a", Value: "1"}, Ask{Verb: Get, Name: "a"}
	for _, c := range []struct {
		name string
		r    *Recorder
		ok   bool
	}{
		{"written and read", run(create, Answer{OK, "1", "5"}, get, Answer{OK, "1", "5"}, Ask{Delete, "a", "", ""}, Answer{Result: OK}, get, Answer{Result: NotFound}), true},
		{"another object", run(create, Answer{OK, "1", "5"}, Ask{Verb: Get, Name: "b"}, Answer{Result: NotFound}), true},
		{"acknowledged and lost", run(create, Answer{OK, "1", "5"}, get, Answer{Result: NotFound}), false},
		{"never written and shown", run(get, Answer{OK, "1", "5"}), false},
		{"answer lost, write kept", run(create, Answer{Result: Unknown}, get, Answer{OK, "1", "5"}), true},
		{"answer lost, write lost", run(create, Answer{Result: Unknown}, get, Answer{Result: NotFound}), true},
		{"answer lost, write shown and taken back", run(create, Answer{Result: Unknown}, get, Answer{OK, "1", "5"}, get, Answer{Result: NotFound}), false},
		{"an old version", run(create, Answer{OK, "1", "5"}, Ask{Update, "a", "2", "5"}, Answer{OK, "2", "6"}, get, Answer{OK, "1", "5"}), false},
		{"two updates of one version", run(create, Answer{OK, "1", "5"}, Ask{Update, "a", "2", "5"}, Answer{OK, "2", "6"}, Ask{Update, "a", "3", "5"}, Answer{OK, "3", "7"}), false},
		{"the second of them refused", run(create, Answer{OK, "1", "5"}, Ask{Update, "a", "2", "5"}, Answer{OK, "2", "6"}, Ask{Update, "a", "3", "5"}, Answer{Result: Conflict}), true},
		{"a conflict without a reason", run(create, Answer{OK, "1", "5"}, Ask{Update, "a", "2", "5"}, Answer{Result: Conflict}), false},
		{"created twice", run(create, Answer{OK, "1", "5"}, create, Answer{OK, "1", "6"}), false},
	} {
		if err := c.r.Check(10 * time.Second); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
