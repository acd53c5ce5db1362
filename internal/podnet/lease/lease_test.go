package lease

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func open(t interface {
	TempDir() string
	Fatal(...any)
},
) Store {
	s, err := Open(filepath.Join(t.TempDir(), "net"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ranges(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// A range is given out in turn, without its own address, the gateway's and the broadcast; who is last gets an error that says why, and
// what was given back comes again when its turn does.
func TestTurns(t *testing.T) {
	s := open(t)
	small := ranges("10.0.0.0/29")
	var got []string
	for i := range 5 {
		a, err := s.Take(Owner{fmt.Sprint(i), "eth0"}, small)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a[0].String())
		if i == 1 {
			if err := s.Give(Owner{"0", "eth0"}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}
	if !slices.Equal(got, want) {
		t.Errorf("addresses in turn: %v, want %v", got, want)
	}
	if a, err := s.Take(Owner{"6", "eth0"}, small); err != nil || a[0].String() != "10.0.0.2" {
		t.Errorf("what was given back: %v, %v", a, err)
	}
	if a, err := s.Take(Owner{"7", "eth0"}, small); err == nil || len(a) != 0 || !strings.Contains(err.Error(), "no pod address is free in 10.0.0.0/29") {
		t.Errorf("a full range: %v, %v", a, err)
	}
	if a, err := s.Take(Owner{"8", "eth0"}, ranges("10.0.0.0/31")); err == nil {
		t.Errorf("a range without room gave %v", a)
	}
}

// Where one family has no address left, none of the other is lost.
func TestBothFamiliesOrNone(t *testing.T) {
	s := open(t)
	if a, err := s.Take(Owner{"a", "eth0"}, ranges("10.0.0.0/24", "fd00::/126")); err != nil || len(a) != 2 || a[1].String() != "fd00::2" {
		t.Fatalf("%v, %v", a, err)
	}
	for _, id := range []string{"b", "c", "d"} {
		s.Take(Owner{id, "eth0"}, ranges("10.0.0.0/24", "fd00::/126")) //nolint:errcheck // looked at below
	}
	if held := s.held(t); len(held) != 4 {
		t.Errorf("leases of two pods, the rest had no second address: %v", held)
	}
}

// Leases of host-local hold: its form is read, and what it gave out last is where the search begins.
func TestEarlierLeases(t *testing.T) {
	s := open(t)
	for name, text := range map[string]string{"10.0.0.9": "old\r\neth0", "last_reserved_ip.0": "10.0.0.8"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := s.Take(Owner{"new", "eth0"}, ranges("10.0.0.0/24")); err != nil || a[0].String() != "10.0.0.10" {
		t.Errorf("%v, %v", a, err)
	}
	if err := s.Give(Owner{"old", "eth0"}, nil); err != nil || len(s.held(t)) != 1 {
		t.Errorf("an earlier lease was not given back: %v, %v", s.held(t), err)
	}
}

// What an end in the middle of a call leaves costs no address. A lease that is damaged is still somebody's: nobody else gets the address,
// and it is free again when that one gives it back.
func TestCrash(t *testing.T) {
	s := open(t)
	for name, text := range map[string]string{"10.0.0.2": "", "10.0.0.3": "garbage", "last_reserved_ip.0": "garbage", "next": "half"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Owner{"a", "eth0"}
	a, err := s.Take(o, ranges("10.0.0.0/24"))
	if err != nil || a[0].String() != "10.0.0.4" || !s.Holds(o, a) {
		t.Errorf("%v, %v", a, err)
	}
	if err := s.Give(Owner{"b", "eth0"}, nil); err != nil || len(s.held(t)) != 3 {
		t.Errorf("who looks through all of them takes nobody's away: %v, %v", s.held(t), err)
	}
	for i, owner := range []string{"b", "c"} {
		if err := s.Give(Owner{owner, "eth0"}, []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 2)})}); err != nil || len(s.held(t)) != 2-i {
			t.Errorf("who is known to have had it gives it back: %v, %v", s.held(t), err)
		}
	}
	if err := s.Give(Owner{"b", "eth0"}, a); err != nil || !s.Holds(o, a) {
		t.Errorf("a wrong hint takes nobody's away: %v, %v", s.held(t), err)
	}
}

// Whatever is asked in whatever order: nobody gets what another has, the wrong hint gives back no more and no less than the owner's, and
// at the end nothing is left.
func TestNobodySharesAndNothingLeaks(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			rt.Fatal(err)
		}
		pods := ranges("10.0.0.0/28", "fd00::/64")
		model := map[Owner][]netip.Addr{}
		owner := rapid.Custom(func(t *rapid.T) Owner { return Owner{rapid.StringMatching("[a-f]").Draw(t, "id"), "eth0"} })
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				o := owner.Draw(rt, "owner")
				a, err := s.Take(o, pods)
				if err != nil {
					if len(s.held(rt)) < 2*13 {
						rt.Fatalf("%v with room left", err)
					}
					return
				}
				model[o] = append(model[o], a...)
			},
			"give": func(rt *rapid.T) {
				o := owner.Draw(rt, "owner")
				known := rapid.SampledFrom([][]netip.Addr{nil, model[o], {netip.MustParseAddr("10.0.0.3")}}).Draw(rt, "known")
				if err := s.Give(o, known); err != nil {
					rt.Fatal(err)
				}
				if len(known) == 1 && slices.Contains(model[o], known[0]) { // known to be all
					model[o] = slices.DeleteFunc(model[o], func(a netip.Addr) bool { return a == known[0] })
				} else {
					delete(model, o)
				}
			},
			"": func(rt *rapid.T) {
				n := 0
				for o, addrs := range model {
					n += len(addrs)
					if !s.Holds(o, addrs) {
						rt.Fatalf("%v does not hold %v", o, addrs)
					}
				}
				if held := s.held(rt); len(held) != n {
					rt.Fatalf("%d leases, want %d: %v", len(held), n, held)
				}
			},
		})
	})
}

// Many at once get each their own.
func TestTogether(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := s.Take(Owner{fmt.Sprint(i), "eth0"}, ranges("10.0.0.0/26")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if held := s.held(t); len(held) != 50 {
		t.Errorf("%d leases for 50 pods", len(held))
	}
}

// held are the addresses that somebody has.
func (s Store) held(t interface{ Fatal(...any) }) []string {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			out = append(out, e.Name())
		}
	}
	return out
}
