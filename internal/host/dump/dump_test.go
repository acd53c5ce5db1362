package dump

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	for _, tc := range []struct {
		interrupted int
		then        error
		tries       int
	}{{0, nil, 1}, {3, nil, 4}, {3, errors.New("no such device"), 4}, {100, nil, 10}} {
		tries := 0
		out, err := Whole(func() ([]int, error) {
			if tries++; tries <= tc.interrupted {
				return []int{tries}, netlink.ErrDumpInterrupted
			}
			return []int{tries}, tc.then
		})
		if tries != tc.tries || len(out) != 1 || out[0] != tries || !errors.Is(err, tc.then) {
			t.Errorf("interrupted %d times: %d tries, %v, %v", tc.interrupted, tries, out, err)
		}
	}
}
