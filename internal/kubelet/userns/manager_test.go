package userns

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestFindPool(t *testing.T) {
	for _, tc := range []struct{ uid, gid, want string }{
		{"", "", "65536+655360"},
		{"root:1:65536\n", "root:1:65536\n", "65536+655360"},
		{"other:1:2\nkubelet:131072:1310720\n", "kubelet:131072:1310720\n", "131072+1310720"},
		{"kubelet:131072:1310720\n", "", "must name the same range"},
		{"kubelet:131072:1310720\n", "kubelet:131072:655360\n", "must name the same range"},
		{"kubelet:1:655360\n", "kubelet:1:655360\n", "the host's own are there"},
		{"kubelet:65537:655360\n", "kubelet:65537:655360\n", "multiples of 65536"},
		{"kubelet:65536:65536\n", "kubelet:65536:65536\n", "not enough for 10 pods"},
		{"kubelet:65536:655360\nkubelet:6553600:655360\n", "", "more than one range"},
		{"kubelet:x:655360\n", "", `"x" is no id`},
		{"kubelet:1\n", "", "not name:first:count"},
		{"kubelet:4294901760:655360\n", "kubelet:4294901760:655360\n", "more than there are"},
	} {
		p, err := FindPool(func(path string) ([]byte, error) {
			text := map[string]string{"/etc/subuid": tc.uid, "/etc/subgid": tc.gid}[path]
			if text == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		}, 10, Unit)
		got := fmt.Sprintf("%d+%d", p.First, p.Length)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%q, %q: %s, want %s", tc.uid, tc.gid, got, tc.want)
		}
	}
}

func testPod(uid string) *v1.Pod {
	no := false
	p := &v1.Pod{}
	p.UID, p.Spec.HostUsers = types.UID(uid), &no
	return p
}

// Ranges are a pod's alone, its own again after a restart, free when it has gone, also while nobody looked; a damaged file is nobody's.
func TestRanges(t *testing.T) {
	pods, complete := map[types.UID]bool{}, false
	c := Config{
		Dir: t.TempDir(), Pool: DefaultPool(3, Unit), Supported: func(h string) bool { return h != "vm" },
		Pods: func() (map[types.UID]bool, bool) { return pods, complete }, Log: slog.New(slog.DiscardHandler),
	}
	open := func() *Manager {
		m, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	want := func(uid string, first uint32, message string) {
		t.Helper()
		o, err := m.Options(testPod(uid), "")
		if message != "" {
			if err == nil || err.Error() != message {
				t.Errorf("%s: %v, %v; want %s", uid, o, err, message)
			}
			return
		}
		if err != nil || o.Uids[0].HostId != first || o.Uids[0].Length != Unit || o.Gids[0].HostId != first || o.Uids[0].ContainerId != 0 {
			t.Errorf("%s: %v, %v; want %d", uid, o, err, first)
		}
	}
	if o, err := m.Options(&v1.Pod{}, ""); o != nil || err != nil {
		t.Errorf("of the host's users: %v, %v", o, err)
	}
	if _, err := m.Options(testPod("v"), "vm"); err == nil || err.Error() != `RuntimeClass handler "vm" does not support user namespaces` {
		t.Error(err)
	}
	want("a", 65536, "")
	want("b", 131072, "")
	want("a", 65536, "")
	m = open()
	want("c", 196608, "")
	const full = "could not find an empty slot to allocate a user namespace"
	want("d", 0, full)
	m.Forget("b")
	want("d", 131072, "")
	m = open()
	pods["c"], pods["d"], pods["e"] = true, true, true
	want("e", 0, full) // not all pods are known yet
	complete = true
	want("e", 65536, "")
	if err := os.WriteFile(filepath.Join(c.Dir, "c"), []byte(`{"uidMappings":`), 0o600); err != nil {
		t.Fatal(err)
	}
	m = open()
	want("f", 196608, "")
	if _, err := os.Stat(filepath.Join(c.Dir, "c.damaged")); err != nil {
		t.Error(err)
	}
}

// A node that is configured anew keeps what its pods have, and gives nobody a part of it.
func TestAnotherLength(t *testing.T) {
	c := Config{
		Dir: t.TempDir(), Pool: DefaultPool(4, Unit), Supported: func(string) bool { return true },
		Pods: func() (map[types.UID]bool, bool) { return nil, false }, Log: slog.New(slog.DiscardHandler),
	}
	get := func(uid string) string {
		m, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		o, err := m.Options(testPod(uid), "")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d+%d", o.Gids[0].HostId, o.Uids[0].Length)
	}
	if got := get("a") + " " + get("b"); got != "65536+65536 131072+65536" {
		t.Fatal(got)
	}
	c.Pool = DefaultPool(3, 2*Unit)
	if got := get("a") + " " + get("b") + " " + get("c") + " " + get("d"); got != "65536+65536 131072+65536 262144+131072 393216+131072" {
		t.Error(got)
	}
	if got := get("e"); got != "could not find an empty slot to allocate a user namespace" {
		t.Error(got)
	}
	if p := DefaultPool(110, 1<<30); p.First != 1<<30 || p.Length != 2<<30 {
		t.Errorf("more than there are: %+v", p)
	}
}
