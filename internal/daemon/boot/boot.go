// Package boot reports the progress of a start to whoever started the server or agent (`podo up` shows it).
package boot

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"podo.dev/podo/internal/component"
)

// Ready is the last stage of a boot: the node is Ready.
const Ready = "ready"

// Stage is one line of a boot: a stage ended at At, Took after it began. The last stage is Ready; a failed boot ends with Err set.
type Stage struct {
	Stage string        `json:"stage"`
	Took  time.Duration `json:"took"` // nanoseconds
	At    time.Duration `json:"at"`   // since the process began, nanoseconds
	Note  string        `json:"note,omitempty"`
	Err   string        `json:"err,omitempty"`
}

// Report writes the stages of a boot as JSON lines to whoever started the server (`podo up` reads them from a pipe). It does not
// fail when the reader has gone.
type Report struct {
	start time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewReport reports to out; nil reports nowhere.
func NewReport(out io.Writer) *Report {
	if out == nil {
		out = io.Discard
	}
	return &Report{start: time.Now(), out: out}
}

// Begin starts a stage and returns the function that ends it.
func (r *Report) Begin(stage string) func(note string) {
	began := time.Now()
	return func(note string) {
		now := time.Now()
		r.write(Stage{Stage: stage, Took: now.Sub(began), At: now.Sub(r.start), Note: note})
	}
}

// Staged are the same components, each a stage that ends when it is ready for the first time.
func (r *Report) Staged(components []component.Component) []component.Component {
	out := make([]component.Component, len(components))
	for i, c := range components {
		first := true
		out[i] = component.Func(c.Name(), func(ctx context.Context, ready func()) error {
			end := r.Begin(c.Name())
			return c.Run(ctx, func() {
				if first {
					first = false
					end("")
				}
				ready()
			})
		})
	}
	return out
}

// Fail ends the report with an error.
func (r *Report) Fail(err error) {
	r.write(Stage{Stage: "failed", At: time.Since(r.start), Err: err.Error()})
}

func (r *Report) write(s Stage) {
	line, err := json.Marshal(s)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(append(line, '\n'))
}
