package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"podo.dev/podo/internal/runtime"
)

// Run describes the server or agent that ran last, for those who stop its pods or look at its images. It is written at each
// start.
type Run struct {
	Endpoint string `json:"endpoint"` // of the runtime
	Embedded bool   `json:"embedded"` // the runtime is ours
	NodeName string `json:"nodeName"`

	Down    bool     `json:"down,omitempty"`    // `podo down` has ended what ran
	Formers []string `json:"formers,omitempty"` // earlier names of the node under which Nodes still exist
}

// Began remembers a run.
func (d Dir) Began(r Run) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return WriteFile(d.run(), append(content, '\n'), 0o644)
}

// HasRun tells whether anything ever ran here.
func (d Dir) HasRun() bool {
	_, err := os.Stat(d.run())
	return err == nil
}

// LastRun is the run that began last.
func (d Dir) LastRun() (Run, error) {
	content, err := os.ReadFile(d.run())
	if errors.Is(err, fs.ErrNotExist) { // it was never started, so nothing of another runtime can be ours
		return Run{Endpoint: "unix://" + runtime.LayoutFor(d.Root).Socket, Embedded: true}, nil
	}
	if err != nil {
		return Run{}, err
	}
	var r Run
	if err := json.Unmarshal(content, &r); err != nil {
		return Run{}, fmt.Errorf("%s is damaged (%w): remove it if the server ran on its embedded containerd", d.run(), err)
	}
	return r, nil
}
