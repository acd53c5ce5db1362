package imagegc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Policy says which images go, and when.
type Policy struct {
	High, Low int           // percent of the images' file system in use: from High on, images go until it is at Low
	MinAge    time.Duration // an image that came, or was asked for, less than this ago stays
	MaxAge    time.Duration // an image that nothing has used for longer goes; 0: age alone is no reason
}

// off tells that neither the disk nor age is a reason to remove images: only an eviction frees them.
func (p Policy) off() bool { return p.High == 100 && p.MaxAge == 0 }

// room is how much of the disk is in use, and how many bytes must go; 0 while it is below the high threshold.
func (p Policy) room(capacity, available int64) (percent int, want int64) {
	available = min(available, capacity)
	percent = 100 - int(available*100/capacity)
	if percent < p.High {
		return percent, 0
	}
	return percent, capacity*int64(100-p.Low)/100 - available
}

// seen is what there is at one moment. Containers name an image by its id or by any of its names.
type seen struct {
	images []*runtimev1.Image
	used   map[string]bool      // what containers of any state refer to
	wanted map[string]time.Time // images that containers about to be created asked for, and when
}

// names are all that may refer to an image, its id first.
func names(i *runtimev1.Image) []string {
	return slices.Concat([]string{i.Id}, i.RepoTags, i.RepoDigests)
}

func (s *seen) uses(i *runtimev1.Image) bool {
	return slices.ContainsFunc(names(i), func(n string) bool { return s.used[n] })
}

// anyIdle tells whether there is an image that could go if nothing else uses it.
func (s *seen) anyIdle() bool {
	return slices.ContainsFunc(s.images, func(i *runtimev1.Image) bool { return !i.Pinned && !s.uses(i) })
}

// times are what is known of an image beyond what the runtime says.
type times struct {
	first  time.Time // first seen
	used   time.Time // last seen with a container, or asked for; zero: never
	wanted time.Time // last asked for; zero: never
}

// memory has the times of each known image, by id. It does not outlive the process: after a restart every image counts as new, as
// upstream has it, so none goes before MinAge, and none for its age before MaxAge.
type memory map[string]times

// learn takes in what is seen now.
func (m memory) learn(s *seen, now time.Time) {
	there := map[string]bool{}
	for _, i := range s.images {
		there[i.Id] = true
		t, known := m[i.Id]
		if !known {
			t.first = now
		}
		for _, n := range names(i) {
			if at := s.wanted[n]; at.After(t.wanted) {
				t.wanted = at
			}
		}
		if t.wanted.After(t.used) {
			t.used = t.wanted
		}
		if s.uses(i) {
			t.used = now
		}
		m[i.Id] = t
	}
	maps.DeleteFunc(m, func(id string, _ times) bool { return !there[id] })
}

// candidate is an image that may go.
type candidate struct {
	names []string
	size  int64
	times
}

func (c *candidate) id() string { return c.names[0] }

// name is what users call it.
func (c *candidate) name() string {
	if len(c.names) > 1 {
		return c.names[1]
	}
	return c.names[0]
}

// kept counts the images that stay, by the reason.
type kept struct {
	used, pinned, young int
	minAge              time.Duration
}

func (k kept) String() string {
	var all []string
	add := func(n int, why string) {
		if n > 0 {
			all = append(all, fmt.Sprint(n, " ", why))
		}
	}
	add(k.used, "in use by containers")
	add(k.pinned, "pinned or imported")
	add(k.young, fmt.Sprintf("pulled or asked for less than %v ago", k.minAge))
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// plan tells which images may go, the one that went unused for longest first, and what keeps the others. Where times do not
// decide, as after a restart, a large one goes before a small one: fewer have to be pulled again.
func (m memory) plan(s *seen, p Policy, now time.Time) (free []*candidate, k kept) {
	k.minAge = p.MinAge
	for _, i := range s.images {
		t := m[i.Id]
		switch {
		case s.uses(i):
			k.used++
		case i.Pinned:
			k.pinned++
		case now.Sub(t.first) < p.MinAge, now.Sub(t.wanted) < p.MinAge:
			k.young++
		default:
			free = append(free, &candidate{names: names(i), size: int64(i.Size), times: t}) //nolint:gosec // far below 2^63
		}
	}
	slices.SortFunc(free, func(a, b *candidate) int {
		return cmp.Or(a.used.Compare(b.used), a.first.Compare(b.first), cmp.Compare(b.size, a.size), strings.Compare(a.id(), b.id()))
	})
	return free, k
}

// split separates the images that are too old. One that was never used is as old as it has been known.
func split(free []*candidate, p Policy, now time.Time) (old, rest []*candidate) {
	for _, c := range free {
		last := c.used
		if c.first.After(last) {
			last = c.first
		}
		if p.MaxAge > 0 && now.Sub(last) > p.MaxAge {
			old = append(old, c)
		} else {
			rest = append(rest, c)
		}
	}
	return old, rest
}

// shortage says that not enough could be freed, in upstream's words, and then why.
func shortage(percent int, capacity, freed int64, k kept) string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data. Images that stay: %v.",
		percent, amount(capacity), freed, k)
}

func amount(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n /= 1024; n < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", n, unit)
}
