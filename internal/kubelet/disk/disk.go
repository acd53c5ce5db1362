// Package disk measures what files take of their disk, and how full a file system is.
package disk

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Walk is the disk space that a directory's files take. Holes count nothing, and a file with several names counts once. Mounts
// below the directory are on another disk and are skipped, as is what cannot be read or disappears meanwhile.
func Walk(dir string) (bytes, files int64) {
	var root unix.Stat_t
	if unix.Lstat(dir, &root) != nil {
		return 0, 0
	}
	linked := map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // as said
		}
		var s unix.Stat_t
		if unix.Lstat(path, &s) != nil {
			return nil
		}
		if s.Dev != root.Dev {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if s.Nlink > 1 && !d.IsDir() {
			if linked[s.Ino] {
				return nil
			}
			linked[s.Ino] = true
		}
		bytes += s.Blocks * 512
		files++
		return nil
	})
	return bytes, files
}

// FileSystem is how full one is.
type FileSystem struct {
	Capacity, Available, Used      uint64 // bytes; available to those who are not root
	Inodes, InodesFree, InodesUsed uint64
}

// Of measures the file system that holds a path.
func Of(path string) (FileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return FileSystem{}, err
	}
	size := uint64(s.Bsize) //nolint:gosec // never negative
	return FileSystem{
		Capacity: s.Blocks * size, Available: s.Bavail * size, Used: (s.Blocks - s.Bfree) * size,
		Inodes: s.Files, InodesFree: s.Ffree, InodesUsed: s.Files - s.Ffree,
	}, nil
}

// Mounted tells whether a directory is on another file system than the folder around it.
func Mounted(dir string) bool {
	var in, around unix.Stat_t
	return unix.Stat(dir, &in) == nil && unix.Stat(filepath.Dir(dir), &around) == nil && in.Dev != around.Dev
}
