// Package dump reads whole lists from the kernel by netlink.
package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// Whole asks the kernel for a list again when what is listed changed meanwhile. On a machine where that never ends, what was had counts.
func Whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range 10 {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return out, nil
}
