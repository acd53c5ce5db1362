package recorder

import (
	"encoding/json"
	"testing"
	"time"

	"podo.dev/podo/internal/timeline"
)

// A line of the journal is what encoding/json makes of the record.
func FuzzLine(f *testing.F) {
	f.Add(uint64(1), int64(0), "ns", "p", "", "stored", "", "", "", "", "", "")
	f.Add(uint64(42), int64(1_767_323_045_000_000_123), "ns", "p", "u", "container", "main", "running", "exited", `exit "1" \ <b> & c`, "ms", "12")
	f.Add(uint64(1<<63), int64(-1_500_000_000), "ns", "p", "u", "image", "a\nb\x00", "é\u2028", "\xff\xfe", "\x7f~", "", "")
	f.Fuzz(func(t *testing.T, seq uint64, at int64, ns, name, uid, stage, subject, from, to, cause, key, value string) {
		for n := range 3 {
			rec := timeline.Record{
				Seq: seq, At: time.Unix(0, at).Round(Precision), Pod: timeline.PodRef{Namespace: ns, Name: name, UID: uid},
				Stage: timeline.Stage(stage), Subject: subject, From: from, To: to, Cause: cause,
			}
			for range n {
				rec.Fields = append(rec.Fields, timeline.Field{Key: key, Value: value})
			}
			want, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			if got := appendLine(nil, &rec); string(got) != string(want) {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		}
	})
}
