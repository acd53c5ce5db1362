// Package lease remembers which pod has which address of a node: a file for each, named by the address, in a folder that a reboot
// empties. The form is that of CNI's host-local plug-in, whose leases of pods made by an earlier podo hold on.
//
// Every change is made under the folder's lock, and a lease comes whole: an end in the middle of any call costs no address.
package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owner is an interface of a sandbox.
type Owner struct{ ID, Interface string }

func (o Owner) String() string { return o.ID + "\r\n" + o.Interface }

// Store is the folder of one network.
type Store struct{ dir string }

// Open makes the folder where it is missing.
func Open(dir string) (Store, error) {
	return Store{dir}, os.MkdirAll(dir, 0o700)
}

// Take gives the owner one address of each range, or none and an error. An address that was given back comes up again only when all
// others of its range have had their turn. The first address of a range is its gateway's; of an IPv4 range nobody has the last.
func (s Store) Take(o Owner, ranges []netip.Prefix) (taken []netip.Addr, err error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		if err != nil {
			for _, a := range taken {
				err = errors.Join(err, os.Remove(s.file(a)))
			}
			taken = nil
		}
	}()
	for i, r := range ranges {
		last := filepath.Join(s.dir, "last_reserved_ip."+strconv.Itoa(i))
		// Where it cannot be read, the search begins at the beginning.
		text, _ := os.ReadFile(last)
		from, _ := netip.ParseAddr(string(text))
		a, err := s.takeFrom(o, r, from)
		if err != nil {
			return taken, err
		}
		taken = append(taken, a)
		if err := os.WriteFile(last, []byte(a.String()), 0o600); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// takeFrom looks behind last, and from the range's beginning when it comes to its end.
func (s Store) takeFrom(o Owner, r netip.Prefix, last netip.Addr) (netip.Addr, error) {
	first, end := bounds(r)
	start := first
	if last.IsValid() && last.Compare(first) >= 0 && last.Compare(end) < 0 {
		start = last.Next()
	}
	if first.Compare(end) <= 0 {
		for a := start; ; {
			ok, err := s.claim(o, a)
			if ok || err != nil {
				return a, err
			}
			if a = a.Next(); !a.IsValid() || a.Compare(end) > 0 {
				a = first
			}
			if a == start {
				break
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no pod address is free in %s: end pods on this node, or give it a larger range", r)
}

// bounds are the first and the last address for pods.
func bounds(r netip.Prefix) (first, end netip.Addr) {
	raw := r.Masked().Addr().AsSlice()
	for i := r.Bits(); i < len(raw)*8; i++ {
		raw[i/8] |= 0x80 >> (i % 8)
	}
	end, _ = netip.AddrFromSlice(raw)
	if r.Addr().Is4() {
		end = end.Prev()
	}
	return r.Masked().Addr().Next().Next(), end
}

// claim writes the lease, unless somebody has it. It appears with its owner in it or not at all: one that is empty or does not name an
// owner was damaged later, and its address is in use.
func (s Store) claim(o Owner, a netip.Addr) (bool, error) {
	if _, err := os.Lstat(s.file(a)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	next := filepath.Join(s.dir, "next")
	err := os.WriteFile(next, []byte(o.String()), 0o600)
	if err == nil {
		err = os.Rename(next, s.file(a))
	}
	if err != nil {
		return false, errors.Join(err, os.RemoveAll(next))
	}
	return true, nil
}

// Give takes back all that the owner has. known are the addresses that it is thought to have: with them it is not a search through
// the whole folder. An owner who has nothing is no error.
func (s Store) Give(o Owner, known []netip.Addr) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	given := 0
	for _, a := range known {
		ok, err := s.release(o, s.file(a), true)
		if err != nil {
			return err
		}
		if ok {
			given++
		}
	}
	if given > 0 && given == len(known) {
		return nil
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if _, notAddress := netip.ParseAddr(e.Name()); notAddress == nil {
			_, failed := s.release(o, filepath.Join(s.dir, e.Name()), false)
			err = errors.Join(err, failed)
		}
	}
	return err
}

// release takes the owner's lease away. One that names nobody is its own where it is known to have had that address.
func (s Store) release(o Owner, file string, known bool) (bool, error) {
	text, err := os.ReadFile(file)
	switch damaged := !strings.Contains(string(text), "\r\n"); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case string(text) == o.String(), known && damaged:
		return true, os.Remove(file)
	}
	return false, nil
}

// Holds tells whether the owner has all these addresses.
func (s Store) Holds(o Owner, addrs []netip.Addr) bool {
	return !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		text, err := os.ReadFile(s.file(a))
		return err != nil || strings.TrimSpace(string(text)) != o.String()
	})
}

func (s Store) file(a netip.Addr) string { return filepath.Join(s.dir, a.String()) }

// lock waits until the folder is this process's alone; the end of the process gives it back.
func (s Store) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
