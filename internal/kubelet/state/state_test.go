package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

func TestRoundTripAndDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "pods"))
	if err != nil {
		t.Fatal(err)
	}
	for i, uid := range []string{"good", "flipped", "short", "future", "moved"} {
		saved := podlife.Saved{Namespace: "ns", Name: "p", UID: types.UID(uid), Start: time.Unix(int64(i), 0).UTC(), Admitted: true}
		if err := s.Save(saved, i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	path := func(uid string) string { return filepath.Join(dir, "pods", uid+".json") }
	edit := func(uid string, f func([]byte) []byte) {
		b, err := os.ReadFile(path(uid))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(uid), f(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit("flipped", func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"admitted":true`), []byte(`"admitted":null`), 1)
	})
	edit("short", func(b []byte) []byte { return b[:len(b)/2] })
	edit("future", func(b []byte) []byte { return bytes.Replace(b, []byte(`"version":1`), []byte(`"version":2`), 1) })
	if err := os.Rename(path("moved"), path("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("good")+".new", []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, bad, err := s.Load()
	if err != nil || len(got) != 1 || got["good"] == nil || !got["good"].Admitted || len(bad) != 4 {
		t.Fatalf("%v %v %v", got, bad, err)
	}
	for _, d := range bad {
		if _, err := os.Stat(d.Path); err != nil || d.Err == nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	got, bad, err = s.Load()
	if err != nil || len(got) != 1 || len(bad) != 0 {
		t.Fatalf("the second time: %v %v %v", got, bad, err)
	}
	for range 2 {
		if err := s.Remove("good"); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, _ = s.Load(); len(got) != 0 {
		t.Fatal(got)
	}
}
