package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func fill(z *Zones, zone string, ready, unready int) {
	for i := range ready {
		z.Set(fmt.Sprintf("%s-ready-%d", zone, i), zone, true, start)
	}
	for i := range unready {
		z.Set(fmt.Sprintf("%s-lost-%d", zone, i), zone, false, start)
	}
}

func TestPaceOfZones(t *testing.T) {
	for _, c := range []struct {
		name           string
		ready, unready int // of zone a; zone b has one ready node
		first          bool
		second         time.Duration // when the next one may be given up; 0: only after a change
	}{
		{"one of ten", 9, 1, true, usualPause},
		{"two of two: no longer normal, but the other zone lives", 0, 2, true, usualPause},
		{"two of three are too few to worry", 1, 2, true, usualPause},
		{"five of nine", 4, 5, false, 0},
		{"four of nine", 5, 4, true, usualPause},
		{"half of a large zone", 30, 30, true, usualPause},
		{"most of a large zone", 20, 40, true, carefulPause},
	} {
		z := NewZones()
		fill(z, "a", c.ready, c.unready)
		fill(z, "b", 1, 0)
		ok, wait := z.GiveUp("a-lost-0", start)
		if ok != c.first || wait != 0 {
			t.Errorf("%s: the first %v, wait %s", c.name, ok, wait)
		}
		ok, wait = z.GiveUp("a-lost-0", start)
		if ok || wait != c.second {
			t.Errorf("%s: the second %v, wait %s, want %s", c.name, ok, wait, c.second)
		}
		if c.second > 0 {
			if ok, _ = z.GiveUp("a-lost-0", start.Add(c.second)); !ok {
				t.Errorf("%s: not after %s either", c.name, c.second)
			}
		}
	}
}

func TestNothingIsGivenUpWhenAllIsLost(t *testing.T) {
	z := NewZones()
	fill(z, "a", 1, 1)
	fill(z, "b", 0, 3)
	if z.Lost() {
		t.Fatal("one node is ready")
	}
	if !z.Set("a-ready-0", "a", false, start) || !z.Lost() {
		t.Fatal("none is")
	}
	if ok, wait := z.GiveUp("b-lost-0", start); ok || wait != 0 {
		t.Errorf("given up: %v, %s", ok, wait)
	}
	if len(z.Unready()) != 5 {
		t.Errorf("not ready are %v", z.Unready())
	}
	if !z.Set("a-ready-0", "a", true, start) || z.Lost() {
		t.Fatal("one is back")
	}
	if ok, _ := z.GiveUp("b-lost-0", start); !ok {
		t.Error("those of the other zone may go now")
	}
	if !z.Drop("a-ready-0", start) || !z.Lost() {
		t.Error("a node that is deleted is ready no more")
	}
}

// A pace that quickens is taken at once, and a zone's count is what its nodes are.
func TestZonesCount(t *testing.T) {
	z := NewZones()
	fill(z, "a", 20, 40)
	fill(z, "b", 1, 0)
	z.GiveUp("a-lost-0", start)
	for i := range 20 {
		z.Set(fmt.Sprintf("a-lost-%d", i+1), "a", true, start)
	}
	if _, wait := z.GiveUp("a-lost-0", start); wait != usualPause {
		t.Errorf("the pause of before is kept: %s", wait)
	}
	rapid.Check(t, func(t *rapid.T) {
		z, model := NewZones(), map[string]place{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "node")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				z.Drop(name, start)
				delete(model, name)
				continue
			}
			p := place{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), rapid.Bool().Draw(t, "ready")}
			z.Set(name, p.zone, p.ready, start)
			model[name] = p
		}
		lost := len(model) > 0
		count := map[place]int{}
		for _, p := range model {
			count[p]++
			lost = lost && !p.ready
		}
		if z.Lost() != lost {
			t.Fatalf("lost %v, want %v", z.Lost(), lost)
		}
		for name, zn := range z.zones {
			if zn.ready != count[place{name, true}] || zn.unready != count[place{name, false}] || zn.state != stateOf(zn.ready, zn.unready) {
				t.Fatalf("zone %s is %+v of %v", name, *zn, model)
			}
		}
	})
}
