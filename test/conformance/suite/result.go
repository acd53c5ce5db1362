package suite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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
}

// About says what a report is of; it stands beside the results.
type About struct {
	Date    time.Time `json:"date"`
	Commit  string    `json:"commit"`
	Command string    `json:"command"`
	Server  string    `json:"server"`  // what the cluster calls its version
	StandIn []string  `json:"standIn"` // what a stand-in answered because the cluster does not serve it
}

// Report is a folder with a run's results.
type Report struct{ Dir string }

// Load reads the results so far, the last of each test, and what they are of.
func (r Report) Load() (map[string]Result, About, error) {
	var about About
	if b, err := os.ReadFile(filepath.Join(r.Dir, "about.json")); err == nil {
		if err := json.Unmarshal(b, &about); err != nil {
			return nil, about, fmt.Errorf("%s/about.json: %w", r.Dir, err)
		}
	}
	out := map[string]Result{}
	f, err := os.Open(filepath.Join(r.Dir, "results.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return out, about, nil
	}
	if err != nil {
		return nil, about, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var one Result
		if json.Unmarshal(s.Bytes(), &one) != nil {
			continue // the last line of a run that was killed
		}
		out[one.Name] = one
	}
	return out, about, s.Err()
}

// Append adds one result; every test's counts as soon as it has ended.
func (r Report) Append(one Result) error {
	f, err := os.OpenFile(filepath.Join(r.Dir, "results.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	b, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// SaveAbout writes what the report is of.
func (r Report) SaveAbout(a About) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Dir, "about.json"), b, 0o644)
}
