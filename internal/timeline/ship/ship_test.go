package ship

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)

func ref(name string) timeline.PodRef {
	return timeline.PodRef{Namespace: "ns", Name: name, UID: "uid-" + name}
}

// world is a server's timeline that takes the records of "node-a", whose pods are those whose names begin with "a".
type world struct {
	t      *testing.T
	server *recorder.Recorder
	up     atomic.Bool // else the server takes nothing
	lost   atomic.Bool // the server takes, and its answer is lost
	posted atomic.Int32
	gone   atomic.Bool // no pod exists any more
	url    string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	var err error
	if w.server, err = recorder.New(recorder.Config{}); err != nil {
		t.Fatal(err)
	}
	v, err := NewReceiver(ReceiverConfig{
		Recorder: w.server,
		Node:     func(r *http.Request) (string, bool) { return r.Header.Get("Node"), r.Header.Get("Node") != "" },
		Bound: func(p timeline.PodRef) string {
			switch {
			case w.gone.Load():
				return ""
			case strings.HasPrefix(p.Name, "a"):
				return "node-a"
			}
			return "node-b"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	w.up.Store(true)
	return w
}

func (w *world) post(as, node string, records ...timeline.Record) int {
	w.t.Helper()
	body, err := Encode(records)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, w.url+Path+node, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Node", as)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (w *world) told(name string) string {
	var out []string
	for _, r := range w.server.Records(timeline.Query{UID: "uid-" + name}) {
		out = append(out, string(r.Stage)+" "+r.To)
	}
	return strings.Join(out, ", ")
}

// sender runs a Sender of the recorder until the returned function is called.
func (w *world) sender(from *recorder.Recorder, file string) (stop func()) {
	w.t.Helper()
	s, err := NewSender(SenderConfig{
		Recorder: from, File: file, Log: slog.New(slog.DiscardHandler),
		Post: func(_ context.Context, records []timeline.Record) error {
			w.posted.Add(1)
			if !w.up.Load() {
				return errors.New("no route to host")
			}
			if code := w.post("node-a", "node-a", records...); code != http.StatusOK {
				w.t.Errorf("the server answers %d", code)
			}
			if w.lost.Swap(false) {
				return errors.New("connection reset")
			}
			return nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func() {}) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

func record(name, to string, at time.Duration) timeline.Record {
	return timeline.Record{At: start.Add(at), Pod: ref(name), Stage: timeline.Phase, To: to}
}

func TestTheLastRecordsArriveAndNoneTwice(t *testing.T) {
	w := newWorld(t)
	node, err := recorder.New(recorder.Config{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shipped")
	node.Append(record("a1", "Pending", 0))
	w.lost.Store(true) // the first answer: the same records come again
	stop := w.sender(node, file)
	_, follower := w.server.Follow(timeline.Query{})
	defer follower.Close()
	node.Append(record("a1", "Running", time.Second))
	stop() // at once: what was appended before is sent
	if got := w.told("a1"); got != "phase Pending, phase Running" {
		t.Errorf("told: %s", got)
	}
	// Another start goes on behind what is known to have arrived, and a cut loses nothing.
	w.up.Store(false)
	node.Append(record("a1", "Succeeded", 2*time.Second))
	w.posted.Store(0)
	stop = w.sender(node, file)
	for w.posted.Load() < 2 {
		time.Sleep(time.Millisecond) // the attempts are the sender's own
	}
	w.up.Store(true)
	if _, err := follower.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if got := w.told("a1"); got != "phase Pending, phase Running, phase Succeeded" {
		t.Errorf("told: %s", got)
	}
}

func TestANodeTellsOfItsOwnPodsOnly(t *testing.T) {
	w := newWorld(t)
	forged := record("a1", "node-x", 0)
	forged.Stage = timeline.Bound
	nameless := record("a1", "Running", 0)
	nameless.Pod.UID = ""
	if code := w.post("node-a", "node-a", record("a1", "Running", 0), record("b1", "Running", 0), forged, nameless); code != http.StatusOK {
		t.Fatalf("answer %d", code)
	}
	if a, b := w.told("a1"), w.told("b1"); a != "phase Running" || b != "" {
		t.Errorf("told of its own: %q, of another's: %q", a, b)
	}
	for _, as := range []string{"node-b", ""} {
		if code := w.post(as, "node-a", record("a1", "Failed", 0)); code != http.StatusForbidden {
			t.Errorf("%q tells for node-a: %d", as, code)
		}
	}
	// The end of a story comes after the pod; of a pod that nobody has heard of it does not.
	w.gone.Store(true)
	w.post("node-a", "node-a", record("a1", "Succeeded", time.Second), record("a2", "Succeeded", time.Second))
	w.server.Append(timeline.Record{At: start, Pod: ref("c1"), Stage: timeline.Bound, To: "node-a"})
	w.post("node-a", "node-a", record("c1", "Succeeded", time.Second))
	if a, b, c := w.told("a1"), w.told("a2"), w.told("c1"); a != "phase Running, phase Succeeded" || b != "" || c != "bound node-a, phase Succeeded" {
		t.Errorf("after their ends: %q, %q, %q", a, b, c)
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	many := make([]timeline.Record, maxRecords+1)
	if code := w.post("node-a", "node-a", many...); code != http.StatusBadRequest {
		t.Errorf("too many: %d", code)
	}
	for body, want := range map[string]int{"no record\n": http.StatusBadRequest, "": http.StatusOK} {
		r, err := http.NewRequest(http.MethodPost, w.url+Path+"node-a", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Node", "node-a")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %d, want %d", body, resp.StatusCode, want)
		}
	}
}
