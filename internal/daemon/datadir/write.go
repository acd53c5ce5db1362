package datadir

import "os"

// unfinished is the suffix of a file that is being written; a crash may leave one.
const unfinished = ".new"

// WriteFile replaces a file so that a crash leaves either the old or the new content as a whole.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	tmp := path + unfinished
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
