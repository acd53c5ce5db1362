package source_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/source"
)

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: a, image: i}]}
`

// story collects what a source tells.
type story struct {
	t        *testing.T
	out      chan source.Change
	problems chan string
	pods     map[string]*v1.Pod // by name, as last told
}

func follow(t *testing.T, run func(context.Context, chan<- source.Change, func(string, error)) error) *story {
	s := &story{t, make(chan source.Change), make(chan string, 10), map[string]*v1.Pod{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, s.out, func(origin string, err error) { s.problems <- origin + ": " + err.Error() })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *story) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		select {
		case c := <-s.out:
			got := string(c.Op)
			if c.Pod != nil {
				got += " " + c.Pod.Name
				s.pods[c.Pod.Name] = c.Pod
			}
			if got != w {
				s.t.Fatalf("got %q, want %q", got, w)
			}
		case p := <-s.problems:
			s.t.Fatalf("got problem %q, want %q", p, w)
		case <-time.After(10 * time.Second):
			s.t.Fatalf("nothing was told, want %q", w)
		}
	}
}

func (s *story) problem(want string) {
	s.t.Helper()
	select {
	case p := <-s.problems:
		if !strings.Contains(p, want) {
			s.t.Fatalf("got %q, want %q in it", p, want)
		}
	case c := <-s.out:
		s.t.Fatalf("got %s %v, want a problem with %q", c.Op, c.Pod, want)
	case <-time.After(10 * time.Second):
		s.t.Fatalf("nothing was told, want a problem with %q", want)
	}
}

// put writes a file as an editor does: beside it, and then over it.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	tmp := filepath.Join(dir, "."+name+".swp")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// A folder's life: a manifest is a pod of this node; a changed one is another pod; a damaged one ends nothing; a removed one does.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "web.yaml", web)
	run := func(ctx context.Context, out chan<- source.Change, problem func(string, error)) error {
		return source.File{Path: dir, Node: "n1", Every: time.Hour, Problem: problem, Log: slog.New(slog.DiscardHandler)}.Run(ctx, out)
	}
	s := follow(t, run)
	s.expect("ADD web-n1", "SYNCED")
	p := s.pods["web-n1"]
	if p.Namespace != "default" || p.Spec.NodeName != "n1" || p.Annotations["kubernetes.io/config.source"] != "file" ||
		p.Annotations["kubernetes.io/config.hash"] != string(p.UID) || p.Spec.RestartPolicy != v1.RestartPolicyAlways || p.Status.Phase != v1.PodPending {
		t.Fatalf("%+v", p)
	}
	if n := p.Spec.Tolerations; len(n) != 1 || n[0].Operator != v1.TolerationOpExists || n[0].Effect != v1.TaintEffectNoExecute {
		t.Fatalf("%+v", n)
	}

	again := follow(t, run) // the same manifest is the same pod
	again.expect("ADD web-n1", "SYNCED")
	if again.pods["web-n1"].UID != p.UID {
		t.Fatal("another UID after a restart")
	}

	put(t, dir, "web.yaml", strings.ReplaceAll(web, "image: i", "image: j"))
	s.expect("REMOVE web-n1", "ADD web-n1")
	if s.pods["web-n1"].UID == p.UID {
		t.Fatal("the same UID after a change")
	}
	for text, want := range map[string]string{
		"kind: Pod\n  x: [": "web.yaml",
		strings.ReplaceAll(web, "kind: Pod", "kind: Deployment"):                                  "a static pod is a Pod of v1",
		strings.ReplaceAll(web, "image: i", "image: ''"):                                          "spec.containers[0].image: Required value",
		strings.ReplaceAll(web, "spec: {", "spec: {volumes: [{name: c, configMap: {name: x}}], "): "static pods may not reference configmaps",
		web + "---" + web: "more than one document",
	} {
		put(t, dir, "web.yaml", text)
		s.problem(want)
	}
	put(t, dir, "web.yaml", strings.ReplaceAll(web, "image: i", "image: j"))
	put(t, dir, "db.yaml", "# A licence.\n---\n"+strings.ReplaceAll(web, "name: web", "name: db")+"--- # the end\r\n# no further one\n...\n")
	s.expect("ADD db-n1")
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	s.expect("REMOVE web-n1")
	if p.Generation != 0 {
		t.Errorf("a static pod has generation %d: its mirror's status would have it for the mirror's own", p.Generation)
	}

	// A file that is moved away and back ends its pod and begins it anew, however little time there is between the two.
	at, aside := filepath.Join(dir, "db.yaml"), filepath.Join(t.TempDir(), "db.yaml")
	db := s.pods["db-n1"].UID
	if err := errors.Join(os.Rename(at, aside), os.Rename(aside, at)); err != nil {
		t.Fatal(err)
	}
	s.expect("REMOVE db-n1", "ADD db-n1")
	if s.pods["db-n1"].UID != db {
		t.Error("it is another pod")
	}
	if err := os.Rename(at, aside); err != nil {
		t.Fatal(err)
	}
	s.expect("REMOVE db-n1")

	// A link is its file: one that leads nowhere any more is none. No event tells of what is outside the folder.
	elsewhere := t.TempDir()
	put(t, elsewhere, "web.yaml", web)
	outside := filepath.Join(elsewhere, "web.yaml")
	if err := os.Symlink(outside, filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	s.expect("ADD web-n1")
	if err := errors.Join(os.Remove(outside), os.WriteFile(filepath.Join(dir, ".event"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.expect("REMOVE web-n1")
}

// Of two manifests of one name the later one is passed over, and its pod is told of.
func TestTwoOfOneName(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", web)
	put(t, dir, "b.yaml", web)
	told := make(chan string, 1)
	s := follow(t, func(ctx context.Context, out chan<- source.Change, problem func(string, error)) error {
		return source.File{
			Path: dir, Node: "n1", Every: time.Hour, Problem: problem, Log: slog.New(slog.DiscardHandler),
			Twice: func(p *v1.Pod, source string) { told <- p.Name + " " + source },
		}.Run(ctx, out)
	})
	s.expect("ADD web-n1", "SYNCED")
	select {
	case got := <-told:
		if got != "web-n1 file" {
			t.Error(got)
		}
	default:
		t.Error("nobody is told")
	}
}

// kubernetes/kubernetes#103374: a manifest that names its UID is the same pod when it changes, with another hash, by which its mirror is known.
func TestFileWithAUID(t *testing.T) {
	dir := t.TempDir()
	fixed := strings.ReplaceAll(web, "name: web", "name: web, uid: u-1")
	put(t, dir, "web.yaml", fixed)
	s := follow(t, func(ctx context.Context, out chan<- source.Change, problem func(string, error)) error {
		return source.File{Path: dir, Node: "n1", Every: time.Hour, Problem: problem, Log: slog.New(slog.DiscardHandler)}.Run(ctx, out)
	})
	s.expect("ADD web-n1", "SYNCED")
	before := s.pods["web-n1"]
	put(t, dir, "web.yaml", strings.ReplaceAll(fixed, "image: i", "image: j"))
	s.expect("UPDATE web-n1")
	const hash = "kubernetes.io/config.hash"
	if now := s.pods["web-n1"]; before.UID != "u-1" || now.UID != "u-1" || now.Annotations[hash] == before.Annotations[hash] || now.Annotations[hash] == "" {
		t.Errorf("%s %s, %s %s", before.UID, before.Annotations[hash], now.UID, now.Annotations[hash])
	}
}

// A web server's pods: one or a list; while it answers nonsense they stay.
func TestURL(t *testing.T) {
	var answer atomic.Value
	item := strings.ReplaceAll(strings.TrimSpace(web), "\n", "\n  ")
	answer.Store(web)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "t" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, answer.Load())
	}))
	t.Cleanup(srv.Close)
	s := follow(t, func(ctx context.Context, out chan<- source.Change, problem func(string, error)) error {
		return source.URL{
			URL: srv.URL, Node: "n1", Header: http.Header{"X-Token": {"t"}}, Every: 10 * time.Millisecond, Problem: problem, Log: slog.New(slog.DiscardHandler),
		}.Run(ctx, out)
	})
	s.expect("ADD web-n1", "SYNCED")
	answer.Store("kind: Nonsense")
	s.problem("kind")
	answer.Store("apiVersion: v1\nkind: PodList\nitems:\n- " + item + "\n- " + strings.ReplaceAll(item, "name: web", "name: db"))
	// The same text at the same place is the same pod.
	s.expect("ADD db-n1")
	answer.Store("apiVersion: v1\nkind: PodList\nitems: []")
	s.expect2("REMOVE web-n1", "REMOVE db-n1")
}

// expect2 is expect of two changes in either order.
func (s *story) expect2(a, b string) {
	s.t.Helper()
	c := <-s.out
	if got := string(c.Op) + " " + c.Pod.Name; got == b {
		a, b = b, a
	} else if got != a {
		s.t.Fatalf("got %q, want %q or %q", got, a, b)
	}
	s.expect(b)
}
