// Package cgroup makes and removes a cgroup in every hierarchy of this machine, version 1 or 2.
package cgroup

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Make makes the cgroup in each hierarchy, where it is not there yet.
func Make(name string) error {
	roots, err := hierarchies()
	for _, root := range roots {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	return err
}

// Remove removes it with all below it. No process may be in them any more.
func Remove(name string) error {
	roots, err := hierarchies()
	for _, root := range roots {
		var dirs []string
		walked := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		err = errors.Join(err, walked)
		for _, dir := range slices.Backward(dirs) {
			if failed := os.Remove(dir); !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

func hierarchies() ([]string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var roots []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			roots = append(roots, fields[1])
		}
	}
	return roots, lines.Err()
}
