package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/explain"
)

func TestWhyIsAsked(t *testing.T) {
	for _, c := range []struct {
		args []string
		q    question
		want string // path, or error
	}{
		{nil, question{}, "/podo/why/namespaces/ns/all"},
		{nil, question{all: true}, "/podo/why/all"},
		{[]string{"pods"}, question{}, "/podo/why/namespaces/ns/pods"},
		{[]string{"web"}, question{}, "/podo/why/namespaces/ns/web"},
		{[]string{"pods"}, question{all: true, selector: "a=b"}, "/podo/why/pods"},
		{[]string{"deploy/web"}, question{}, "/podo/why/namespaces/ns/deploy/web"},
		{[]string{"deploy", "web"}, question{}, "/podo/why/namespaces/ns/deploy/web"},
		{[]string{"deploy/"}, question{}, "name one object as KIND/NAME"},
		{[]string{"pod/a", "pod/b"}, question{}, "name one object"},
		{[]string{"pod/a"}, question{selector: "a=b"}, "neither -l nor -A"},
		{[]string{"pod/a"}, question{since: time.Hour}, "--since is for lists"},
	} {
		c.q.namespace = "ns"
		got := ""
		if err := c.q.parse(c.args); err != nil {
			got = err.Error()
		} else {
			got = c.q.path()
		}
		if got != c.want && !(strings.HasPrefix(c.want, "/") == strings.HasPrefix(got, "/") && strings.Contains(got, c.want) && !strings.HasPrefix(got, "/")) {
			t.Errorf("%q %+v: got %q, want %q", c.args, c.q, got, c.want)
		}
	}
}

// What a container said last stands with its diagnosis: a few lines, of a few containers, without what could steer a terminal; and
// nothing where the log may not be read.
func TestLastWords(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			var reports []explain.Report
			for _, name := range []string{"secret", "a", "b", "c", "d", "e"} {
				reports = append(reports, explain.Report{Kind: "Pod", Namespace: "ns", Name: name, Log: &explain.Log{Pod: name, Container: "app", Previous: true}})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"reports": reports})
			return
		}
		asked = append(asked, r.URL.String())
		if strings.Contains(r.URL.Path, "secret") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("one\n\x1b[31mtwo\x07\n" + strings.Repeat("x", 400) + "\nfour\n"))
	}))
	defer server.Close()
	q := question{kind: "pods", namespace: "ns"}
	reports, err := q.ask(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "[31mtwo", strings.Repeat("x", longest) + "…"}; !slices.Equal(reports[1].Said, want) {
		t.Errorf("said %q, want %q", reports[1].Said, want)
	}
	if len(reports[0].Said) > 0 || len(reports[5].Said) > 0 || len(asked) != mostLogs {
		t.Errorf("%q was said, after %d were asked, %q", reports[0].Said, len(asked), reports[5].Said)
	}
	if want := "/api/v1/namespaces/ns/pods/a/log?container=app&limitBytes=65536&previous=true&tailLines=3"; asked[1] != want {
		t.Errorf("asked %s, want %s", asked[1], want)
	}
}
