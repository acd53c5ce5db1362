package recorder

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"podo.dev/podo/internal/timeline"
)

// What is packed is read back as it was, whatever it says, with more words than are kept once; and it takes little.
func TestPackedIsReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		switch r.IntN(5) {
		case 0:
			return ""
		case 1:
			return strings.Repeat("long ", 1+r.IntN(100))
		case 2:
			return fmt.Sprint("name-", r.IntN(3*maxWords))
		}
		return []string{"True", "False", "Running", "ä\x00\xff"}[r.IntN(4)]
	}
	pod := timeline.PodRef{Namespace: "ns", Name: "p", UID: "u"}
	w, p := newWords(), packed{}
	var want []timeline.Record
	for i := range 3000 {
		rec := timeline.Record{
			Seq: r.Uint64() >> r.IntN(64), At: time.Unix(r.Int64N(1<<40)-1<<39, r.Int64N(1e9)).UTC(), Pod: pod,
			Stage: timeline.Stage(text()), Subject: text(), From: text(), To: text(), Cause: text(),
		}
		if i%10 == 0 {
			rec.At, rec.Pod.UID = time.Time{}, ""
		}
		for range r.IntN(4) {
			rec.Fields = append(rec.Fields, timeline.Field{Key: text(), Value: text()})
		}
		p.add(w, rec)
		want = append(want, rec)
		if r.IntN(3) == 0 {
			p.dropFirst()
			want = want[1:]
		}
	}
	var got []timeline.Record
	p.each(w, pod, func(rec timeline.Record) { got = append(got, rec) })
	if len(got) != p.n || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d records of %d, %d are counted; or one is another", len(got), len(want), p.n)
	}
	if len(w.list) != maxWords {
		t.Errorf("%d words are kept", len(w.list))
	}
}

// A pod's story of thirty records, as kubelets tell it.
func TestAStoryTakesLittle(t *testing.T) {
	w, p := newWords(), packed{}
	for i := range 30 {
		p.add(w, timeline.New(time.Unix(1796000000, 123456789), timeline.PodRef{UID: "u"}, timeline.Container).About("app").Move("Starting", "Running").With("attempt", i))
	}
	if n := cap(p.bytes); n > 1024 {
		t.Errorf("30 records take %d bytes", n)
	}
}
