package suite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"podo.dev/podo/test/conformance/images"
)

// State is how a test ended.
type State string

// The states. A run that is interrupted leaves tests without any.
const (
	Passed State = "passed"
	Failed State = "failed"
	NotRun State = "not run"
)

// Result is one line of results.jsonl.
type Result struct {
	Name    string    `json:"name"`
	File    string    `json:"file"`
	State   State     `json:"state"`
	Seconds float64   `json:"seconds,omitempty"`
	Reason  string    `json:"reason,omitempty"` // why it failed or did not run, one line
	Where   string    `json:"where,omitempty"`  // file and line of the failure
	At      time.Time `json:"at"`

	Earlier *Result `json:"-"` // the last result before this one that was a failure
}

// Session is one line of runs.jsonl: one run of the runner, of which a report may have several. A result belongs to the last that
// began before it.
type Session struct {
	Date    time.Time       `json:"date"` // its begin, and its name: a later line of the same date replaces an earlier one
	Commit  string          `json:"commit"`
	Command string          `json:"command"`
	Server  string          `json:"server"`  // what the cluster calls its version
	StandIn []string        `json:"standIn"` // what a stand-in answered because the cluster does not serve it
	Unmade  []images.Unmade `json:"unmade"`  // images that could not be made
	Ended   string          `json:"ended"`   // how: empty while it runs, and for good when it was killed
}

// Report is a folder with a run's results.
type Report struct{ Dir string }

// Scratch is a folder for files that do not outlast a run.
func (r Report) Scratch() string { return filepath.Join(r.Dir, "tmp") }

// Lock keeps other runs away from the report until the returned file is closed, and removes what a killed one left.
func (r Report) Lock() (*os.File, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(r.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another run writes the report %s: wait for it, or give REPORT=another-folder", r.Dir)
	}
	if err := errors.Join(os.RemoveAll(r.Scratch()), os.Mkdir(r.Scratch(), 0o755)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Load reads the results so far, the last of each test, and the runs that they are of, the oldest first.
func (r Report) Load() (map[string]Result, []Session, error) {
	results := map[string]Result{}
	err := eachLine(filepath.Join(r.Dir, "results.jsonl"), func(one Result) {
		if before, ok := results[one.Name]; ok {
			if one.Earlier = before.Earlier; before.State == Failed {
				one.Earlier = &before
			}
		}
		results[one.Name] = one
	})
	if err != nil {
		return nil, nil, err
	}
	var runs []Session
	err = eachLine(filepath.Join(r.Dir, "runs.jsonl"), func(one Session) {
		runs = slices.DeleteFunc(runs, func(s Session) bool { return s.Date.Equal(one.Date) })
		runs = append(runs, one)
	})
	return results, runs, err
}

// Of is the index of the run that a result is of, or -1.
func (r Result) Of(runs []Session) int {
	for i, s := range slices.Backward(runs) {
		if !r.At.Before(s.Date) {
			return i
		}
	}
	return -1
}

// Append adds one result; every test's counts as soon as it has ended.
func (r Report) Append(one Result) error {
	return appendLine(filepath.Join(r.Dir, "results.jsonl"), one)
}

// Note adds or replaces what is known of a run.
func (r Report) Note(s Session) error { return appendLine(filepath.Join(r.Dir, "runs.jsonl"), s) }

func appendLine(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	last := make([]byte, 1)
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' { // a run was killed while it wrote
			b = append([]byte{'\n'}, b...)
		}
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// eachLine reads a file of lines; none at all is no error, and neither is the last line of a run that was killed while it wrote.
func eachLine[T any](file string, do func(T)) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var one T
		if json.Unmarshal(s.Bytes(), &one) == nil {
			do(one)
		}
	}
	return s.Err()
}
