// Package inotify says what to do where the kernel watches no more files.
package inotify

import (
	"errors"
	"fmt"
	"syscall"
)

// Limited adds to an error of a watch which limit of the kernel's it is about.
func Limited(err error) error {
	limit := ""
	switch {
	case errors.Is(err, syscall.EMFILE):
		limit = "max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		limit = "max_user_watches"
	default:
		return err
	}
	return fmt.Errorf("%w (the sysctl fs.inotify.%s bounds how many a user may have)", err, limit)
}
