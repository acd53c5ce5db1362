package imagegc

import (
	"fmt"
	"testing"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"
)

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func image(id string, size uint64) *runtimev1.Image {
	return &runtimev1.Image{Id: id, Size: size, RepoTags: []string{"r/" + id + ":1"}, RepoDigests: []string{"r/" + id + "@sha256:" + id}}
}

func pinned(i *runtimev1.Image) *runtimev1.Image {
	i.Pinned = true
	return i
}

func ids(cs []*candidate) (out []string) {
	for _, c := range cs {
		out = append(out, c.id())
	}
	return out
}

func TestPlan(t *testing.T) {
	policy := Policy{High: 85, Low: 80, MinAge: 2 * time.Minute, MaxAge: 500 * time.Second}
	for name, c := range map[string]struct {
		memory memory
		seen   seen
		old    string
		rest   string
		kept   string
	}{
		"nothing": {old: "[]", rest: "[]", kept: "none"},
		"used last goes last, and never used first": {
			memory: memory{"a": {first: at(600), used: at(800)}, "b": {first: at(600), used: at(700)}, "c": {first: at(700)}, "d": {first: at(600)}},
			seen:   seen{images: []*runtimev1.Image{image("a", 1), image("b", 1), image("c", 1), image("d", 1)}},
			old:    "[]", rest: "[d c b a]", kept: "none",
		},
		"the large one first where times are equal": {
			memory: memory{"a": {first: at(600)}, "b": {first: at(600)}, "c": {first: at(600)}},
			seen:   seen{images: []*runtimev1.Image{image("a", 1), image("c", 7), image("b", 7)}},
			old:    "[]", rest: "[b c a]", kept: "none",
		},
		"what a container names stays, by id, tag and digest": {
			memory: memory{"a": {first: at(1)}, "b": {first: at(1)}, "c": {first: at(1)}},
			seen: seen{
				images: []*runtimev1.Image{image("a", 1), image("b", 1), image("c", 1)},
				used:   map[string]bool{"a": true, "r/b:1": true, "r/c@sha256:c": true},
			},
			old: "[]", rest: "[]", kept: "3 in use by containers",
		},
		"pinned, new, and wanted ones stay": {
			memory: memory{"a": {first: at(1)}, "b": {first: at(1)}, "d": {first: at(600)}},
			seen: seen{
				images: []*runtimev1.Image{pinned(image("a", 1)), image("b", 1), image("c", 1), image("d", 1)},
				wanted: map[string]time.Time{"r/b:1": at(950)},
			},
			old: "[]", rest: "[d]", kept: "1 pinned or imported, 2 pulled or asked for less than 2m0s ago",
		},
		"wanted a while ago, and never come": {
			memory: memory{"a": {first: at(600)}},
			seen:   seen{images: []*runtimev1.Image{image("a", 1)}, wanted: map[string]time.Time{"a": at(800)}},
			old:    "[]", rest: "[a]", kept: "none",
		},
		"too old": {
			memory: memory{"a": {first: at(1), used: at(499)}, "b": {first: at(1), used: at(500)}, "c": {first: at(1)}, "d": {first: at(600)}},
			seen:   seen{images: []*runtimev1.Image{image("a", 1), image("b", 1), image("c", 1), image("d", 1)}},
			old:    "[c a]", rest: "[d b]", kept: "none",
		},
	} {
		m := c.memory
		if m == nil {
			m = memory{"gone": {}}
		}
		m.learn(&c.seen, at(1000))
		if len(m) != len(c.seen.images) {
			t.Errorf("%s: %d images are remembered of %d", name, len(m), len(c.seen.images))
		}
		free, k := m.plan(&c.seen, policy, at(1000))
		old, rest := split(free, policy, at(1000))
		if fmt.Sprint(ids(old)) != c.old || fmt.Sprint(ids(rest)) != c.rest || k.String() != c.kept {
			t.Errorf("%s: %v, %v, %v\nwant %s, %s, %s", name, ids(old), ids(rest), k, c.old, c.rest, c.kept)
		}
		if old, _ := split(free, Policy{}, at(1000)); len(old) > 0 {
			t.Errorf("%s: %v are too old without a limit", name, ids(old))
		}
	}
}

func TestPlanNeverTakesWhatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memory{}
		p := Policy{MinAge: time.Duration(rapid.IntRange(0, 20).Draw(t, "min age")) * time.Second}
		firsts := map[string]time.Time{}
		for now := range rapid.IntRange(1, 30).Draw(t, "looks") {
			s := seen{used: map[string]bool{}}
			for _, id := range []string{"a", "b", "c", "d"} {
				if !rapid.Bool().Draw(t, "there") {
					delete(firsts, id)
					continue
				}
				i := image(id, 1)
				i.Pinned = rapid.IntRange(0, 3).Draw(t, "pinned") == 0
				s.images = append(s.images, i)
				s.used[rapid.SampledFrom(names(i)).Draw(t, "name")] = rapid.Bool().Draw(t, "used")
				if _, ok := firsts[id]; !ok {
					firsts[id] = at(now)
				}
			}
			m.learn(&s, at(now))
			free, k := m.plan(&s, p, at(now))
			if len(free)+k.used+k.pinned+k.young != len(s.images) {
				t.Fatalf("%d free, %v of %d", len(free), k, len(s.images))
			}
			taken := map[string]bool{}
			for n, c := range free {
				taken[c.id()] = true
				if n > 0 && c.used.Before(free[n-1].used) {
					t.Fatalf("%s goes after %s", c.id(), free[n-1].id())
				}
			}
			for _, i := range s.images {
				if taken[i.Id] && (i.Pinned || s.uses(i) || at(now).Sub(firsts[i.Id]) < p.MinAge) {
					t.Fatalf("%s goes", i.Id)
				}
			}
		}
	})
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		high, low           int
		capacity, available int64
		percent             int
		want                int64
	}{
		{85, 80, 1000, 151, 85, 49}, // the part of a percent counts as used, as upstream counts
		{85, 80, 1000, 160, 84, 0},
		{85, 80, 1000, 150, 85, 50},
		{85, 80, 1000, 0, 100, 200},
		{85, 80, 1000, 2000, 0, 0},
		{1, 0, 1000, 1000, 0, 0},
		{1, 0, 1000, 990, 1, 10},
		{100, 99, 1 << 50, 0, 100, 1 << 50 / 100},
	} {
		percent, want := Policy{High: c.high, Low: c.low}.room(c.capacity, c.available)
		if percent != c.percent || want != c.want {
			t.Errorf("%+v: %d%%, %d", c, percent, want)
		}
	}
}

func TestAmount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 29: "1.5 GiB", 1 << 40: "1.0 TiB", 1 << 52: "4096.0 TiB",
	} {
		if got := amount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
