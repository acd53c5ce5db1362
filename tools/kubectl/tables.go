package main

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// tables has the server leave out of a table what is not printed. Each row comes with its object's metadata unless somebody says otherwise,
// managedFields included, and kubectl decodes that three times; it looks at it for a few columns only. Of 5,000 pods that is
// nine tenths of the bytes and most of the time.
type tables struct {
	running *cobra.Command // once its flags have been read
}

// watchCommand notes which command runs.
func (t *tables) watchCommand(root *cobra.Command) {
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		t.running = c
		return before(c, args)
	}
}

func (t *tables) watchRequests(c *rest.Config) *rest.Config {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return asking{next, t} })
	return c
}

// asking is a transport that changes what tables are asked for.
type asking struct {
	next   http.RoundTripper
	tables *tables
}

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	return a.next.RoundTrip(a.tables.request(r))
}

// WrappedRoundTripper is for those who look for the transport below.
func (a asking) WrappedRoundTripper() http.RoundTripper { return a.next }

// request is r or, when r asks for a table of which only the cells are printed, the same for these.
func (t *tables) request(r *http.Request) *http.Request {
	query := r.URL.Query()
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "as=Table") || query.Has("includeObject") || !cellsOnly(t.running) {
		return r
	}
	query.Set("includeObject", "None")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	klog.V(6).InfoS("The table's rows are asked for without their objects", "url", r.URL)
	return r
}

// cellsOnly says whether the command prints of a table nothing but its cells. A command that lacks one of the flags is unknown here, and watches
// are left alone: what they send is little.
func cellsOnly(c *cobra.Command) bool {
	if c == nil {
		return false
	}
	for _, name := range []string{"all-namespaces", "show-labels", "watch", "watch-only"} {
		if set, err := c.Flags().GetBool(name); err != nil || set {
			return false
		}
	}
	labels, err := c.Flags().GetStringSlice("label-columns")
	return err == nil && len(labels) == 0
}
