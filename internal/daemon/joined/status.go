package joined

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"podo.dev/podo/internal/daemon/datadir"
)

// Status is what can be said of an agent without asking its server.
type Status struct {
	Server, Node string
	PID          int   // 0: it does not run
	Unhealthy    error // what the kubelet reports as wrong
}

// Look returns the status of a data directory's agent; nil when the directory is not an agent's.
func Look(dataDir string) (*Status, error) {
	d := datadir.Dir{Root: dataDir}
	if d.ForServer() == nil {
		return nil, nil
	}
	j, err := Load(d)
	if err != nil {
		return nil, err
	}
	a := &Status{Server: j.Server, Node: j.Node}
	if a.PID, err = d.Running(); err != nil || a.PID == 0 || j.HealthAt == "" {
		return a, err
	}
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + j.HealthAt + "/healthz")
	if err != nil {
		a.Unhealthy = err
		return a, nil
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)); resp.StatusCode != http.StatusOK {
		a.Unhealthy = errors.New(strings.TrimSpace(string(text)))
	}
	return a, nil
}
