package daemon

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// BootStage is one line of a boot: a stage ended at At, Took after it began. The last stage is "ready"; a failed boot ends
// with Err set.
type BootStage struct {
	Stage string        `json:"stage"`
	Took  time.Duration `json:"took"` // nanoseconds
	At    time.Duration `json:"at"`   // since the process began, nanoseconds
	Note  string        `json:"note,omitempty"`
	Err   string        `json:"err,omitempty"`
}

// BootReport writes the stages of a boot as JSON lines to whoever started the server (`podo up` reads them from a pipe). A
// reader that has gone is no reason to fail.
type BootReport struct {
	start time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewBootReport reports to out; nil reports nowhere.
func NewBootReport(out io.Writer) *BootReport {
	if out == nil {
		out = io.Discard
	}
	return &BootReport{start: time.Now(), out: out}
}

// Begin starts a stage and returns the function that ends it.
func (b *BootReport) Begin(stage string) func(note string) {
	began := time.Now()
	return func(note string) {
		now := time.Now()
		b.write(BootStage{Stage: stage, Took: now.Sub(began), At: now.Sub(b.start), Note: note})
	}
}

// Fail ends the report with an error.
func (b *BootReport) Fail(err error) {
	b.write(BootStage{Stage: "failed", At: time.Since(b.start), Err: err.Error()})
}

func (b *BootReport) write(s BootStage) {
	line, err := json.Marshal(s)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.out.Write(append(line, '\n'))
}
