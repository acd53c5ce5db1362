package userns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Length is how many users and groups each pod has.
const Length = 65536

// Pool are the ids that the node may give to pods: users and groups alike, the first one and how many.
type Pool struct{ First, Length uint32 }

// DefaultPool is the node's where nothing else is said: right above the host's own ids, enough for its pods.
func DefaultPool(pods int) Pool { return Pool{First: Length, Length: uint32(pods) * Length} }

// free is the first range of the pool that nobody has; false when there is none.
func (p Pool) free(taken []uint32) (uint32, bool) {
	for n := range p.Length / Length {
		if first := p.First + n*Length; !slices.Contains(taken, first) {
			return first, true
		}
	}
	return 0, false
}

// ParseSubordinate reads the line of a user in /etc/subuid or /etc/subgid: name:first:count. ok is false without one.
func ParseSubordinate(text, name string) (p Pool, ok bool, err error) {
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
		p, ok = Pool{uint32(first), uint32(count)}, true
	}
	return p, ok, nil
}

// check says why pods cannot have their ids of a pool.
func (p Pool) check(pods int) error {
	switch {
	case p.First < Length:
		return fmt.Errorf("the first id, %d, must not be below %d: the host's own are there", p.First, Length)
	case p.First%Length != 0 || p.Length%Length != 0:
		return fmt.Errorf("%d ids from %d: both must be multiples of %d", p.Length, p.First, Length)
	case p.Length/Length < uint32(pods):
		return fmt.Errorf("%d ids are not enough for %d pods with %d each", p.Length, pods, Length)
	case uint64(p.First)+uint64(p.Length) > 1<<32-1:
		return fmt.Errorf("%d ids from %d are more than there are", p.Length, p.First)
	}
	return nil
}
