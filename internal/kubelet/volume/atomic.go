package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of a payload. A nil uid leaves it root's.
type file struct {
	data []byte
	mode fs.FileMode
	uid  *int64
}

// payload is what a volume made from API objects holds: relative path -> file.
type payload map[string]file

const (
	dataLink = "..data"     // the symbolic link that is swapped
	tempLink = "..data_tmp" // its successor, before the swap
	maxName  = 255
)

// writeAtomically makes dir show exactly p, all of it at once to a reader who keeps to one directory:
//
//	dir/..2026_11_29_13_52_33.123/nested/key   the files, in a directory of their own
//	dir/..data -> ..2026_11_29_13_52_33.123    swapped by a rename
//	dir/nested -> ..data/nested                one link per first path element
//
// own is given the new directory before anyone sees it. Nothing is written when dir shows p already. What an interrupted
// writer left is swept. stay says how long a version stays after it was replaced, until the next write at least: a container that is
// being started may be about to mount a file of it (a subPath), which the kernel refuses once its name is gone.
func writeAtomically(dir string, p payload, now time.Time, stay time.Duration, own func(dir string) error) error {
	for path := range p {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the volume's current version: %w", err)
	}
	if err == nil && shows(filepath.Join(dir, old), p) {
		return link(dir, p) // an interrupted writer may not have made the links
	}
	fresh, err := os.MkdirTemp(dir, now.UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := fill(fresh, p, own); err != nil {
		os.RemoveAll(fresh) //nolint:errcheck // swept the next time
		return err
	}
	if err := os.Remove(filepath.Join(dir, tempLink)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(fresh), filepath.Join(dir, tempLink)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, tempLink), filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := link(dir, p); err != nil {
		return err
	}
	if stay > 0 && old != "" {
		if err := os.Chtimes(filepath.Join(dir, old), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return sweep(dir, p, filepath.Base(fresh), now, stay)
}

// checkPath refuses what would not stay inside the volume, or would clash with the writer's own names.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("invalid path: must not be empty")
	case filepath.IsAbs(path):
		return fmt.Errorf("invalid path: must be relative path: %s", path)
	case len(path) > 4096:
		return fmt.Errorf("invalid path: must be less than or equal to 4096 characters")
	case strings.HasPrefix(path, ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", path)
	}
	for item := range strings.SplitSeq(path, "/") {
		if item == ".." {
			return fmt.Errorf("invalid path: must not contain '..': %s", path)
		}
		if len(item) > maxName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	return nil
}

// shows tells whether a version's directory has exactly the payload's files, with their content and mode.
func shows(dir string, p payload) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := p[rel]
		info, ierr := d.Info()
		// Giving the volume to a group adds mode bits (group read), so only missing bits count.
		if !ok || ierr != nil || info.Size() != int64(len(want.data)) || info.Mode().Perm()&want.mode != want.mode {
			return errDiffers
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want.data) {
			return errDiffers
		}
		n++
		return nil
	})
	return err == nil && n == len(p)
}

var errDiffers = errors.New("differs")

func fill(dir string, p payload, own func(string) error) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for path, f := range p {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.data, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(full, f.mode); err != nil { // whatever the umask is
			return err
		}
		if f.uid != nil {
			if err := os.Chown(full, int(*f.uid), -1); err != nil {
				return err
			}
		}
	}
	return own(dir)
}

// roots are the first path elements of the payload.
func (p payload) roots() []string {
	var out []string
	for path := range p {
		root, _, _ := strings.Cut(path, "/")
		if !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	return out
}

// link links the first path element of each file or, below a folder that was unfolded (MakePlace), the first element inside it.
func link(dir string, p payload) error {
	for path := range p {
		at, to := dir, dataLink
		for name := range strings.SplitSeq(path, "/") {
			at, to = filepath.Join(at, name), filepath.Join(to, name)
			info, err := os.Lstat(at)
			if errors.Is(err, fs.ErrNotExist) {
				err = os.Symlink(to, at)
			}
			if err != nil {
				return err
			}
			if info == nil || !info.IsDir() {
				break
			}
			to = filepath.Join("..", to)
		}
	}
	return nil
}

// mostReplaced bounds how many replaced versions are kept, since a Secret's are in memory.
const mostReplaced = 32

// sweep removes links to files that are gone, and every version but the current one and those that stay.
func sweep(dir string, p payload, current string, now time.Time, stay time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	roots := p.roots()
	var kept []string
	if stay > 0 {
		kept = replaced(entries, current, now.Add(-stay))
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == dataLink, slices.Contains(kept, name), name == current, slices.Contains(roots, name):
		case strings.HasPrefix(name, "..") && e.IsDir():
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		case e.Type() == fs.ModeSymlink:
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaced are the versions that were replaced since, the newest ones when there are many.
func replaced(entries []fs.DirEntry, current string, since time.Time) (names []string) {
	at := map[string]time.Time{}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "..") || e.Name() == current {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().After(since) {
			at[e.Name()] = info.ModTime()
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return at[b].Compare(at[a]) })
	return names[:min(len(names), mostReplaced)]
}
