package main

import (
	"net/http"
	"testing"

	"github.com/spf13/cobra"
)

// getting is a command with the flags of kubectl's get.
func getting(t *testing.T, args ...string) *cobra.Command {
	c := &cobra.Command{Use: "get"}
	c.Flags().BoolP("all-namespaces", "A", false, "")
	c.Flags().Bool("show-labels", false, "")
	c.Flags().BoolP("watch", "w", false, "")
	c.Flags().Bool("watch-only", false, "")
	c.Flags().StringSliceP("label-columns", "L", nil, "")
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTables(t *testing.T) {
	const table, plain = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"
	for _, c := range []struct {
		what   string
		cmd    *cobra.Command
		method string
		accept string
		query  string
		want   string // of the query
	}{
		{"a list", getting(t), "GET", table, "limit=500", "includeObject=None&limit=500"},
		{"a list's next page", getting(t), "GET", table, "continue=a%3D%3D&limit=500", "continue=a%3D%3D&includeObject=None&limit=500"},
		{"sorted by what is in the objects", getting(t), "GET", table, "includeObject=Object", "includeObject=Object"},
		{"of all namespaces, which are printed", getting(t, "-A"), "GET", table, "limit=500", "limit=500"},
		{"with labels", getting(t, "--show-labels"), "GET", table, "limit=500", "limit=500"},
		{"with a label", getting(t, "-L", "app"), "GET", table, "limit=500", "limit=500"},
		{"a list to be watched", getting(t, "-w"), "GET", table, "limit=500", "limit=500"},
		{"a watch", getting(t, "--watch-only"), "GET", table, "watch=true", "watch=true"},
		{"no table", getting(t), "GET", plain, "limit=500", "limit=500"},
		{"no question", getting(t), "POST", table, "limit=500", "limit=500"},
		{"a command without these flags", &cobra.Command{Use: "other"}, "GET", table, "limit=500", "limit=500"},
		{"no command yet", nil, "GET", table, "limit=500", "limit=500"},
	} {
		r, err := http.NewRequest(c.method, "https://127.0.0.1/api/v1/pods?"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", c.accept)
		if got := (&tables{running: c.cmd}).request(r).URL.RawQuery; got != c.want {
			t.Errorf("%s: asks for %s, want %s", c.what, got, c.want)
		}
		if r.URL.RawQuery != c.query {
			t.Errorf("%s: the request given was changed", c.what)
		}
	}
}

// The command is the one whose flags have been read, and what looked at it before still does.
func TestWatchCommand(t *testing.T) {
	seen := false
	root := &cobra.Command{Use: "kubectl", PersistentPreRunE: func(*cobra.Command, []string) error { seen = true; return nil }}
	get := getting(t)
	get.Run = func(*cobra.Command, []string) {}
	root.AddCommand(get)
	root.SetArgs([]string{"get", "-A"})
	var tabs tables
	tabs.watchCommand(root)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if tabs.running != get || !seen || cellsOnly(get) {
		t.Errorf("runs %v, seen %v, only cells %v", tabs.running, seen, cellsOnly(get))
	}
}
