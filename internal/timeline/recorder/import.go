package recorder

import (
	"slices"
	"time"

	"podo.dev/podo/internal/timeline"
)

// Precision is that of records' times in the journal, and between machines.
const Precision = time.Microsecond

// Import appends a record that another process made, unless it is here already: whoever is not sure that a record arrived sends it again.
func (r *Recorder) Import(rec timeline.Record) {
	rec.At = rec.At.Round(Precision)
	if !r.has(rec) {
		r.Append(rec)
	}
}

func (r *Recorder) has(rec timeline.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.state.logs[rec.Pod]
	if l == nil {
		return false
	}
	found := false
	l.each(r.state.words, func(have timeline.Record) {
		found = found || have.At.Round(Precision).Equal(rec.At) && have.Stage == rec.Stage && have.Subject == rec.Subject && have.From == rec.From &&
			have.To == rec.To && have.Cause == rec.Cause && slices.Equal(have.Fields, rec.Fields)
	})
	return found
}
