package timeline_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"podo.dev/podo/internal/timeline"
)

var start = time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)

func journey() []timeline.Record {
	pod := timeline.PodRef{Namespace: "default", Name: "hello", UID: "7c1e"}
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	return []timeline.Record{
		timeline.New(at(0), timeline.PodRef{Namespace: "default", Name: "hello"}, timeline.Accepted).With("user", "admin"),
		timeline.New(at(2), pod, timeline.Stored).With("rev", 12),
		timeline.New(at(4), pod, timeline.Attempt).Move("", "unschedulable").Because("Unschedulable").
			With("nodes", 1).With("rejected", "1 Insufficient cpu"),
		timeline.New(at(12), pod, timeline.Bound).Move("", "node-a"),
		timeline.New(at(1310), pod, timeline.Container).About("app").Move("Created", "Running"),
		timeline.New(at(61310), pod, timeline.Container).About("app").Move("Running", "Exited").Because("Error").With("exit", 1),
		timeline.New(at(7261310), pod, timeline.Deleted),
	}
}

func TestFormat(t *testing.T) {
	const want = `pod default/hello  uid=7c1e  2026-11-29T14:00:00.000Z
        +0.000s  accepted   -    -                   -              user=admin
        +0.002s  stored     -    -                   -              rev=12
        +0.004s  attempt    -    unschedulable       Unschedulable  nodes=1 rejected="1 Insufficient cpu"
        +0.012s  bound      -    node-a
        +1.310s  container  app  Created -> Running
     +1m01.310s  container  app  Running -> Exited   Error          exit=1
  +2h01m01.310s  deleted
`
	if got := timeline.Format(journey()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFormatPartsPods(t *testing.T) {
	a, b := timeline.PodRef{"ns", "x", "1"}, timeline.PodRef{"ns", "x", "2"}
	got := timeline.Format([]timeline.Record{
		timeline.New(start.Add(time.Second), b, timeline.Stored),
		timeline.New(start, a, timeline.Stored),
		timeline.New(start.Add(2*time.Second), a, timeline.Deleted),
	})
	const want = `pod ns/x  uid=1  2026-11-29T14:00:00.000Z
  +0.000s  stored
  +2.000s  deleted

pod ns/x  uid=2  2026-11-29T14:00:01.000Z
  +0.000s  stored
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is printed is read back the same, whatever the words are.
func TestParseReadsFormat(t *testing.T) {
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"", "-", "->", "a -> b", "x  y", " x", "x ", `say "hi"`, "é", "\n", "k=v", "#", "pod x", "Back-off 10s", "\xff", "=", "a ->", "-> b"}),
		rapid.String(),
	)
	key := rapid.StringMatching(`[a-z]{1,6}`)
	record := rapid.Custom(func(t *rapid.T) timeline.Record {
		r := timeline.Record{
			Stage:   rapid.SampledFrom([]timeline.Stage{timeline.Bound, timeline.Container, timeline.Phase}).Draw(t, "stage"),
			Subject: word.Draw(t, "subject"), From: word.Draw(t, "from"), To: word.Draw(t, "to"), Cause: word.Draw(t, "cause"),
			Pod: timeline.PodRef{Namespace: "ns", Name: "p", UID: "u"},
		}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			r = r.With(key.Draw(t, "key"), word.Draw(t, "value"))
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(record, 1, 8).Draw(t, "records")
		at := start
		for i := range records {
			at = at.Add(time.Duration(rapid.IntRange(0, 10_000_000).Draw(t, "ms")) * time.Millisecond)
			records[i].At, records[i].Seq = at, uint64(i+1)
		}
		text := timeline.Format(records)
		got, err := timeline.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(got) != len(records) {
			t.Fatalf("%d records became %d\n%s", len(records), len(got), text)
		}
		for i := range got {
			if g, w := got[i], records[i]; !equal(g, w) {
				t.Fatalf("record %d:\n%#v\nwant\n%#v\n%s", i, g, w, text)
			}
		}
	})
}

func equal(a, b timeline.Record) bool {
	if len(a.Fields) != len(b.Fields) || !a.At.Equal(b.At) {
		return false
	}
	for i := range a.Fields {
		if a.Fields[i] != b.Fields[i] {
			return false
		}
	}
	a.Fields, b.Fields, a.At, b.At = nil, nil, time.Time{}, time.Time{}
	return a.Seq == b.Seq && a.Pod == b.Pod && a.Stage == b.Stage && a.Subject == b.Subject && a.From == b.From && a.To == b.To && a.Cause == b.Cause
}

func TestParseLinesWithoutHead(t *testing.T) {
	got, err := timeline.Parse("# a comment\n  +0.000s  taken\n  +1.500s  phase  -  Pending -> Running\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[1].From != "Pending" || got[1].To != "Running" || got[1].At.Sub(got[0].At) != 1500*time.Millisecond {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"hello\n", "+0.1s  bound  -  -  -  nokey\n", "+0.1s  \"bound\n"} {
		if _, err := timeline.Parse(bad); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestFoldCollapsesACrashLoop(t *testing.T) {
	pod := timeline.PodRef{"ns", "loop", "1"}
	var rs []timeline.Record
	at := start
	add := func(r timeline.Record) {
		rs = append(rs, r)
		at = at.Add(time.Second)
	}
	add(timeline.New(at, pod, timeline.Taken))
	for i := range 20 {
		add(timeline.New(at, pod, timeline.Container).About("a").Move("Created", "Running").With("restart", i))
		add(timeline.New(at, pod, timeline.Container).About("a").Move("Running", "Exited").Because("Error"))
		add(timeline.New(at, pod, timeline.Container).About("a").Move("Exited", "BackOff").Because("CrashLoopBackOff"))
	}
	add(timeline.New(at, pod, timeline.Terminating))
	got := timeline.Fold(rs)
	if len(got) != 1+3+3+1 {
		t.Fatalf("folded to %d records:\n%s", len(got), timeline.Lines(got))
	}
	if r := got[4]; r.Get("times") != "20" || r.Get("restart") != "19" || r.Get("over") != "59s" {
		t.Errorf("last round: %+v", r)
	}
	if got[7].Stage != timeline.Terminating {
		t.Errorf("last record: %+v", got[7])
	}
}

func TestFoldKeepsWhatDoesNotRepeat(t *testing.T) {
	in := journey()
	if got := timeline.Fold(in); len(got) != len(in) {
		t.Errorf("%d became %d", len(in), len(got))
	}
}

func TestSelect(t *testing.T) {
	rs := journey()
	for i := range rs {
		rs[i].Seq = uint64(i + 1)
	}
	for _, c := range []struct {
		q    timeline.Query
		want int
	}{
		{timeline.Query{}, 7},
		{timeline.Query{UID: "7c1e"}, 6},
		{timeline.Query{Namespace: "other"}, 0},
		{timeline.Query{Since: start.Add(time.Minute)}, 2},
		{timeline.Query{After: 5}, 2},
		{timeline.Query{Stages: []timeline.Stage{timeline.Bound, timeline.Deleted}}, 2},
	} {
		if got := timeline.Select(rs, c.q); len(got) != c.want {
			t.Errorf("%+v selects %d, want %d", c.q, len(got), c.want)
		}
	}
	if r, ok := timeline.Last(rs, timeline.Container); !ok || r.To != "Exited" {
		t.Errorf("last container record: %+v", r)
	}
	if spans := timeline.Stages(rs); len(spans) != 6 || spans[4].Records != 2 || spans[4].Last-spans[4].First != time.Minute {
		t.Errorf("spans: %v", spans)
	}
}
