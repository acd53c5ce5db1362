package userns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Unit is what numbers of ids are multiples of, and how many each pod has by default.
const Unit = 65536

// Span is a range of ids: users and groups alike, the first one and how many.
type Span struct{ First, Length uint32 }

func (s Span) meets(o Span) bool {
	return uint64(s.First) < uint64(o.First)+uint64(o.Length) && uint64(o.First) < uint64(s.First)+uint64(s.Length)
}

// Pool are the ids that the node may give to pods, and how many each has.
type Pool struct {
	Span
	Each uint32
}

// DefaultPool is used where nothing is configured: right above the host's own ids, and large enough for the node's pods.
func DefaultPool(pods int, each uint32) Pool {
	n := min(uint64(pods), (1<<32-1)/uint64(each)-1) // there are no more
	return Pool{Span{First: each, Length: uint32(n) * each}, each}
}

// free is the first span of the pool that overlaps none that is taken; false when there is none. Taken spans may have other
// lengths, from an earlier configuration.
func (p Pool) free(taken []Span) (Span, bool) {
	for n := range p.Length / p.Each {
		s := Span{p.First + n*p.Each, p.Each}
		if !slices.ContainsFunc(taken, s.meets) {
			return s, true
		}
	}
	return Span{}, false
}

// ParseSubordinate reads the line of a user in /etc/subuid or /etc/subgid: name:first:count. ok is false without one.
func ParseSubordinate(text, name string) (p Span, ok bool, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if fields[0] != name {
			continue
		}
		if ok {
			return p, true, fmt.Errorf("%s has more than one range: leave one", name)
		}
		if len(fields) != 3 {
			return p, true, fmt.Errorf("%q is not name:first:count", strings.TrimSpace(line))
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil {
			return p, true, fmt.Errorf("%q is no id: %w", fields[1], err)
		}
		count, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			return p, true, fmt.Errorf("%q is no count: %w", fields[2], err)
		}
		p, ok = Span{uint32(first), uint32(count)}, true
	}
	return p, ok, nil
}

// check says why a pool cannot serve the pods.
func (p Pool) check(pods int) error {
	switch {
	case p.First < p.Each:
		return fmt.Errorf("the first id, %d, must not be below %d: the host's own are there", p.First, p.Each)
	case p.First%p.Each != 0 || p.Length%p.Each != 0:
		return fmt.Errorf("%d ids from %d: both must be multiples of %d", p.Length, p.First, p.Each)
	case p.Length/p.Each < uint32(pods):
		return fmt.Errorf("%d ids are not enough for %d pods with %d each", p.Length, pods, p.Each)
	case uint64(p.First)+uint64(p.Length) > 1<<32-1:
		return fmt.Errorf("%d ids from %d are more than there are", p.Length, p.First)
	}
	return nil
}
