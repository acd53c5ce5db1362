package audit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

const all = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"

// open makes a log of a policy in a folder of the test's.
func open(t *testing.T, policy string, c Config) (*Log, string) {
	t.Helper()
	dir := t.TempDir()
	c.PolicyFile, c.LogPath = filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "log", "audit.log")
	if err := os.WriteFile(c.PolicyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, c.LogPath
}

func request(l *Log, u user.Info, long bool) (*Request, *httptest.ResponseRecorder) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil)
	r.Header.Set("Authorization", "Bearer hush")
	return l.Begin(w, r, &authz.Attributes{User: u, Verb: "watch", Resource: "pods"}, "v1", time.Now(), long), w
}

func lines(t *testing.T, path string) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var e struct {
			Stage          string
			ResponseStatus *metav1.Status
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		text := e.Stage
		if e.ResponseStatus != nil {
			text = strings.TrimSpace(strings.Join([]string{text, http.StatusText(int(e.ResponseStatus.Code)), e.ResponseStatus.Message}, " "))
		}
		out = append(out, text)
	}
	return out
}

func TestStages(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane"}
	for name, c := range map[string]struct {
		u    user.Info
		long bool
		do   func(*Request)
		want string
	}{
		"a watch": {
			jane, true, func(q *Request) { q.Started(200); q.Completed() },
			"RequestReceived, ResponseStarted OK, ResponseComplete OK",
		},
		"a watch that ends before it begins": {
			jane, true, func(q *Request) { q.Completed() },
			"RequestReceived, ResponseStarted OK Connection closed early, ResponseComplete OK Connection closed early",
		},
		"a panic": {
			jane, false, func(q *Request) { q.Panicked("oh no"); q.Started(500) },
			"RequestReceived, Panic Internal Server Error APIServer panic'd: oh no",
		},
		"a stranger": {
			nil, false, func(q *Request) { q.Answer(nil, nil); q.Started(401); q.Completed() },
			"ResponseStarted Unauthorized Authentication failed, attempted: bearer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, path := open(t, all, Config{LogMaxSize: 1})
			q, w := request(l, c.u, c.long)
			c.do(q)
			if got := strings.Join(lines(t, path), ", "); got != c.want {
				t.Errorf("got %s", got)
			}
			if w.Header().Get("Audit-Id") == "" {
				t.Error("the answer names no ID")
			}
			if raw, _ := os.ReadFile(path); strings.Contains(string(raw), "hush") {
				t.Error("a credential was written down")
			}
			if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
		})
	}
}

// The file is rotated at its size.
func TestRotation(t *testing.T) {
	l, path := open(t, all, Config{LogMaxSize: 1})
	big, err := json.Marshal(map[string]string{"data": strings.Repeat("x", 700<<10)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		q, _ := request(l, &user.DefaultInfo{Name: "jane"}, false)
		q.Answer(nil, big)
		q.Started(200)
		q.Completed()
	}
	old, err := filepath.Glob(filepath.Join(filepath.Dir(path), "audit-*.log"))
	if err != nil || len(old) == 0 {
		t.Errorf("nothing was rotated: %v, %v", old, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for text, c := range map[string]Config{
		"--audit-log-path":               {PolicyFile: "x"},
		"--audit-log-maxage -1":          {LogMaxAge: -1},
		"--audit-policy-file: failed":    {PolicyFile: "/nonexistent", LogPath: "-"},
		"--audit-log-maxbackup -2 can't": {LogMaxBackups: -2},
	} {
		if l, err := Open(c); l != nil || err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	l, err := Open(Config{LogPath: "-"})
	if l != nil || err != nil {
		t.Errorf("without a policy: %v, %v", l, err)
	}
	q, w := request(l, &user.DefaultInfo{}, false)
	q.Started(200)
	q.Completed()
	if q != nil || len(w.Header()) > 0 {
		t.Error("something is noted without a log")
	}
}

func TestWithoutManagedFields(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"managedFields":[1],"name":"a"},"n":9007199254740993}`: `{"metadata":{"name":"a"},"n":9007199254740993}`,
		`{"items":[{"metadata":{"managedFields":[]}}]}`:                      `{"items":[{"metadata":{}}]}`,
		`{"rows":[{"object":{"metadata":{"managedFields":[]}}}]}`:            `{"rows":[{"object":{"metadata":{}}}]}`,
		`no JSON`: `no JSON`,
	} {
		if got := string(withoutManagedFields([]byte(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
