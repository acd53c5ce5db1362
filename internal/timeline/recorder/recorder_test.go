package recorder_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(n int) timeline.PodRef {
	return timeline.PodRef{Namespace: "ns", Name: fmt.Sprint("p", n), UID: fmt.Sprint("u", n)}
}

func rec(n int, stage timeline.Stage) timeline.Record {
	return timeline.New(start, pod(n), stage)
}

func newRecorder(t *testing.T, c recorder.Config) *recorder.Recorder {
	t.Helper()
	r, err := recorder.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnePodKeepsItsStartAndItsEnd(t *testing.T) {
	r := newRecorder(t, recorder.Config{PerPod: 8, Total: 100})
	for i := range 50 {
		r.Append(rec(1, timeline.Container).With("i", i))
	}
	var got []string
	for _, x := range r.Records(timeline.Query{UID: "u1"}) {
		got = append(got, x.Get("i"))
	}
	if s := strings.Join(got, " "); s != "0 1 44 45 46 47 48 49" {
		t.Errorf("kept %s", s)
	}
}

func TestFinishedPodsGoFirst(t *testing.T) {
	r := newRecorder(t, recorder.Config{PerPod: 4, Total: 8})
	r.Append(rec(1, timeline.Stored)) // the oldest, alive
	r.Append(rec(2, timeline.Stored))
	r.Append(rec(2, timeline.Deleted))
	for n := 3; n < 9; n++ {
		r.Append(rec(n, timeline.Stored))
	}
	if got := r.Records(timeline.Query{Name: "p2", Namespace: "ns"}); len(got) != 0 {
		t.Errorf("the finished pod is still there: %v", got)
	}
	if got := r.Records(timeline.Query{Name: "p1", Namespace: "ns"}); len(got) != 1 {
		t.Errorf("the living pod is gone: %v", got)
	}
	for n := 9; n < 30; n++ {
		r.Append(rec(n, timeline.Stored))
	}
	if all := r.Records(timeline.Query{}); len(all) != 8 || all[0].Pod.Name != "p22" {
		t.Errorf("kept %d records from %v", len(all), all[0].Pod)
	}
}

func TestAcceptedJoinsThePodItBecame(t *testing.T) {
	r := newRecorder(t, recorder.Config{})
	r.Append(timeline.New(start, timeline.PodRef{Namespace: "ns", Name: "p1"}, timeline.Accepted))
	r.Append(rec(1, timeline.Stored))
	if got := r.Records(timeline.Query{UID: "u1"}); len(got) != 2 {
		t.Errorf("by UID: %v", got)
	}
	if head := timeline.Format(r.Records(timeline.Query{Namespace: "ns", Name: "p1"})); strings.Count(head, "pod ns/p1") != 1 {
		t.Errorf("not one story:\n%s", head)
	}
}

func TestFollowHasNoGap(t *testing.T) {
	r := newRecorder(t, recorder.Config{PerPod: 10_000, Total: 20_000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				r.Append(rec(1, timeline.Container).With("w", w).With("i", i))
			}
		})
	}
	got, f := r.Follow(timeline.Query{UID: "u1"})
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(got) < 4000 {
		next, err := f.Next(ctx)
		if err != nil {
			t.Fatalf("after %d: %v", len(got), err)
		}
		got = append(got, next...)
	}
	wg.Wait()
	for i, x := range got {
		if x.Seq != uint64(i+1) {
			t.Fatalf("record %d has seq %d", i, x.Seq)
		}
	}
}

func TestSlowFollowerReadsFromMemory(t *testing.T) {
	r := newRecorder(t, recorder.Config{PerPod: 10_000, Total: 20_000})
	_, f := r.Follow(timeline.Query{})
	defer f.Close()
	for range 5000 {
		r.Append(rec(1, timeline.Container))
	}
	got, err := f.Next(t.Context())
	if err != nil || len(got) != 5000 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// run starts Run and returns what stops it and waits for its end.
func run(t *testing.T, r *recorder.Recorder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- r.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestJournalSurvivesARestartAndATornLine(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, recorder.Config{Dir: dir})
	stop := run(t, r)
	r.Append(rec(1, timeline.Stored))
	r.Append(rec(1, timeline.Bound).Move("", "node-a").With("k", "v"))
	stop()

	file := filepath.Join(dir, "timeline.jsonl")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":3,"stage":"ta`); err != nil {
		t.Fatal(err)
	}
	f.Close()

	again := newRecorder(t, recorder.Config{Dir: dir})
	again.Append(rec(1, timeline.Restored)) // before history is read
	stop = run(t, again)
	again.Append(rec(1, timeline.Phase))
	check := func(r *recorder.Recorder, want string) {
		t.Helper()
		var b strings.Builder
		for _, x := range r.Records(timeline.Query{UID: "u1"}) {
			fmt.Fprintf(&b, "%d %s ", x.Seq, x.Stage)
		}
		if b.String() != want {
			t.Errorf("have %q, want %q", b.String(), want)
		}
	}
	check(again, "1 stored 2 bound 3 restored 4 phase ")
	stop()

	third := newRecorder(t, recorder.Config{Dir: dir})
	defer run(t, third)()
	check(third, "1 stored 2 bound 3 restored 4 phase ")
	if b := third.Records(timeline.Query{UID: "u1"})[1]; b.To != "node-a" || b.Get("k") != "v" || !b.At.Equal(start) {
		t.Errorf("read back %+v", b)
	}
}

func TestJournalIsBounded(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, recorder.Config{Dir: dir, JournalBytes: 4096})
	stop := run(t, r)
	for i := range 500 {
		r.Append(rec(1, timeline.Container).With("i", i))
	}
	stop()
	var total int64
	for _, name := range []string{"timeline.jsonl", "timeline.jsonl.1"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > 2*4096 || total < 4096 {
		t.Errorf("the journal takes %d bytes", total)
	}
	again := newRecorder(t, recorder.Config{Dir: dir, JournalBytes: 4096})
	defer run(t, again)()
	got := again.Records(timeline.Query{})
	if len(got) < 10 || got[len(got)-1].Get("i") != "499" {
		t.Errorf("%d records came back, the last: %+v", len(got), got[len(got)-1])
	}
}

func TestEachRecordIsOneLogLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r := newRecorder(t, recorder.Config{Logger: logger, Level: slog.LevelDebug})
		stop := run(t, r)
		r.Append(rec(1, timeline.Bound).Move("", "node-a").With("try", 2))
		synctest.Wait()
		stop()
		const want = "time=2026-01-02T03:04:05.000Z level=DEBUG msg=timeline pod=ns/p1 uid=u1 stage=bound to=node-a try=2\n"
		if out.String() != want {
			t.Errorf("logged %q", out.String())
		}
	})
}

func TestHandler(t *testing.T) {
	r := newRecorder(t, recorder.Config{})
	r.Append(rec(1, timeline.Stored))
	r.Append(rec(2, timeline.Stored))
	server := httptest.NewServer(r.Handler())
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		return resp.StatusCode, b.String()
	}
	if code, body := get("/podo/timeline/namespaces/ns/pods/p1"); code != 200 || strings.Count(body, "\n") != 1 || !strings.Contains(body, `"uid":"u1"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("/podo/timeline/namespaces/ns/pods/p1?format=text"); code != 200 || !strings.HasPrefix(body, "pod ns/p1  uid=u1  2026-01-02T03:04:05.000Z\n  +0.000s  stored\n") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("/podo/timeline/pods"); code != 400 || !strings.Contains(body, "use /podo/timeline/namespaces/") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("/podo/timeline/?since=yesterday"); code != 400 {
		t.Errorf("a bad since gives %d", code)
	}

	resp, err := server.Client().Get(server.URL + "/podo/timeline/namespaces/ns/pods/p1?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (x timeline.Record) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := next(); x.Stage != timeline.Stored {
		t.Errorf("first: %+v", x)
	}
	r.Append(rec(2, timeline.Bound))
	r.Append(rec(1, timeline.Bound))
	if x := next(); x.Stage != timeline.Bound || x.Pod.Name != "p1" {
		t.Errorf("second: %+v", x)
	}
}
