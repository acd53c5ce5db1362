package timeline

import (
	"fmt"
	"time"
)

// longestCycle bounds what Fold recognises as a repetition: a restart loop is Waiting, Created, Running, Exited, image,
// phase and readiness records.
const longestCycle = 12

// Fold collapses what repeats: a run of the same few records again and again (attempts that fail alike, a crash loop)
// becomes its first and its last round, the last one with fields times (rounds in all) and over (from the first
// round's start to the last one's end). Records are alike when stage, subject, transition and cause are. Records of several pods are
// folded pod by pod.
func Fold(records []Record) []Record {
	var out []Record
	for _, g := range Group(records) {
		out = append(out, fold(g.Records)...)
	}
	return out
}

func fold(rs []Record) []Record {
	var out []Record
	for i := 0; i < len(rs); {
		length, rounds := cycle(rs[i:])
		if rounds < 3 {
			out = append(out, rs[i])
			i++
			continue
		}
		end := i + length*rounds
		out = append(out, rs[i:i+length]...)
		over := rs[end-1].At.Sub(rs[i].At).Round(time.Millisecond)
		for _, r := range rs[end-length : end] {
			out = append(out, r.With("times", rounds).With("over", over))
		}
		i = end
	}
	return out
}

// cycle finds the shortest repetition at the start of rs that covers the most.
func cycle(rs []Record) (length, rounds int) {
	best := 0
	for l := 1; l <= longestCycle && 2*l <= len(rs); l++ {
		n := 1
		for (n+1)*l <= len(rs) && sameRun(rs[:l], rs[n*l:(n+1)*l]) {
			n++
		}
		if n >= 2 && n*l > best {
			best, length, rounds = n*l, l, n
		}
	}
	return length, rounds
}

func sameRun(a, b []Record) bool {
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Stage != y.Stage || x.Subject != y.Subject || x.From != y.From || x.To != y.To || x.Cause != y.Cause {
			return false
		}
	}
	return true
}

// Span is how long a pod was in a stage: from the stage's first record to its last.
type Span struct {
	Stage       Stage
	First, Last time.Duration // from the pod's first record
	Records     int
}

func (s Span) String() string {
	return fmt.Sprintf("%s %s..%s (%d)", s.Stage, offset(s.First), offset(s.Last), s.Records)
}

// Stages sums one pod's records up, a line a stage, in the order in which the stages were first reached.
func Stages(records []Record) []Span {
	records = sorted(records)
	var out []Span
	index := map[Stage]int{}
	for _, r := range records {
		at := r.At.Sub(records[0].At)
		i, ok := index[r.Stage]
		if !ok {
			i = len(out)
			index[r.Stage] = i
			out = append(out, Span{Stage: r.Stage, First: at})
		}
		out[i].Last = at
		out[i].Records++
	}
	return out
}
