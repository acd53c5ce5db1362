package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"podo.dev/podo/internal/about"
)

// check is one thing that a healthy kubelet has.
type check struct {
	name string
	test func() error
}

// health answers /healthz and all below it, and counts for /metrics/slis how the checks went.
type health struct {
	checks []check
	went   *about.Checks
}

func newHealth(syncloop func() error) *health {
	fine := func() error { return nil }
	return &health{
		// "ping" is healthy because this answers at all; "log", since a logger here never blocks.
		checks: []check{{"ping", fine}, {"log", fine}, {"syncloop", syncloop}},
		went:   about.NewChecks(),
	}
}

// routes serves all of them at /healthz and each one under its name.
func (h *health) routes(mux *router) {
	mux.HandleFunc("/healthz", h.all)
	for _, c := range h.checks {
		mux.HandleFunc("/healthz/"+c.name, func(w http.ResponseWriter, _ *http.Request) {
			if err := c.test(); err != nil {
				http.Error(w, "internal server error: "+err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte("ok"))
		})
	}
}

// all runs every check that is not excluded. What is wrong goes to the log; the answer only names it.
func (h *health) all(w http.ResponseWriter, r *http.Request) {
	excluded := map[string]bool{}
	for _, name := range r.URL.Query()["exclude"] {
		excluded[name] = true
	}
	var out bytes.Buffer
	failed := false
	for _, c := range h.checks {
		if excluded[c.name] {
			delete(excluded, c.name)
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.test()
		h.went.Went(c.name, "healthz", err)
		if err != nil {
			failed = true
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.name)
		} else {
			fmt.Fprintf(&out, "[+]%s ok\n", c.name)
		}
	}
	if len(excluded) > 0 {
		var names []string
		for n := range excluded {
			names = append(names, fmt.Sprintf("%q", n))
		}
		slices.Sort(names)
		fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(names, ","))
	}
	if failed {
		http.Error(w, out.String()+"healthz check failed", http.StatusInternalServerError)
		return
	}
	if !r.URL.Query().Has("verbose") {
		writeText(w, "ok")
		return
	}
	writeText(w, out.String()+"healthz check passed\n")
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text))
}
