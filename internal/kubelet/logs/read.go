// Package logs reads and rotates the log files that the runtime writes for containers.
package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Options say which part of a log is wanted and how it is written.
type Options struct {
	Follow     bool
	Timestamps bool
	Since      time.Time // zero: from the beginning
	Tail       int64     // lines from the end; negative: all
	Limit      int64     // bytes of output; negative: no limit
	Stream     string    // All (or ""), Stdout or Stderr
	// Unwatched is told of a log that is to be followed and is only looked at now and again, and why. May be nil.
	Unwatched func(every time.Duration, err error)
}

// FromAPI makes Options of what the API was asked for, already validated.
func FromAPI(o *v1.PodLogOptions, now time.Time) Options {
	out := Options{Follow: o.Follow, Timestamps: o.Timestamps, Tail: -1, Limit: -1, Stream: All}
	if o.TailLines != nil {
		out.Tail = *o.TailLines
	}
	if o.LimitBytes != nil {
		out.Limit = *o.LimitBytes
	}
	if o.SinceSeconds != nil {
		out.Since = now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	if o.SinceTime != nil {
		out.Since = o.SinceTime.Time
	}
	if o.Stream != nil {
		out.Stream = *o.Stream
	}
	return out
}

// Reader reads container logs. Its zero value is ready; all followers of one Reader share an inotify instance.
type Reader struct {
	Log *slog.Logger // optional

	watches watches
}

// errLimit ends reading when the wanted number of bytes has been written.
var errLimit = errors.New("limit reached")

// Read writes the log at path to stdout and stderr, which may be the same. With Follow it goes on until ctx ends or, when ended is
// closed (the container does not run any more), until everything that was written has been read; across rotations nothing is
// lost or doubled. Writers that have a Flush method are flushed whenever the reader has caught up.
func (r *Reader) Read(ctx context.Context, path string, o Options, ended <-chan struct{}, stdout, stderr io.Writer) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("failed to try resolving symlinks in path %q: %w", path, err)
	}
	path = target
	var changed <-chan struct{}
	if o.Follow {
		// Listen before the first look: a change in between is then seen.
		var leave func()
		if changed, leave, err = r.watches.listen(filepath.Dir(path)); err != nil {
			if r.Log != nil {
				r.Log.Warn("a log cannot be watched; it is looked at now and again", "path", path, "every", lookEvery, "err", err)
			}
			if o.Unwatched != nil {
				o.Unwatched(lookEvery, err)
			}
			changed, leave = look()
		}
		defer leave()
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", path, err)
	}
	c := &cursor{path: path, f: f, out: output{Options: o, stdout: stdout, stderr: stderr}}
	defer func() { _ = c.f.Close() }()
	if err := c.start(o.Tail); err != nil {
		return err
	}
	err = c.run(ctx, o.Follow, changed, ended)
	if errors.Is(err, errLimit) {
		err = nil
	}
	return errors.Join(err, c.out.flush())
}

// cursor is a place in a log that moves forward, from one file to the next when the log is rotated.
type cursor struct {
	path string
	f    *os.File
	at   int64 // everything before it has been written out
	out  output
}

func (c *cursor) start(tail int64) error {
	if tail < 0 {
		return nil
	}
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	c.at, err = tailOffset(c.f, info.Size(), tail)
	if err != nil {
		return fmt.Errorf("failed to tail %d lines of log file %q: %w", tail, c.path, err)
	}
	return nil
}

func (c *cursor) run(ctx context.Context, follow bool, changed, ended <-chan struct{}) error {
	for last := !follow; ; {
		if err := c.drain(ctx, last); err != nil {
			return err
		}
		switch next, err := c.next(); {
		case err != nil:
			return err
		case next:
			continue
		case last:
			return nil
		}
		if err := c.out.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-ended:
			last = true // one more round, for what was written before the end
		}
	}
}

// drain writes out everything that the file holds. A last entry without newline is left for later, unless nothing more will come.
func (c *cursor) drain(ctx context.Context, last bool) error {
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < c.at {
		c.at = 0 // someone truncated the file
	}
	if _, err := c.f.Seek(c.at, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(c.f, 32<<10)
	var long []byte // an entry bigger than in's buffer
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		entry, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long = append(long, entry...)
			continue
		}
		if len(long) > 0 {
			long = append(long, entry...)
			entry = long
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("failed to read log file %q: %w", c.path, err)
		}
		if err == io.EOF && (!last || len(entry) == 0) {
			return nil
		}
		c.at += int64(len(entry))
		if werr := c.out.write(entry); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		long = long[:0]
	}
}

// next moves on to the file that was begun after this one: a rotated one when the reader was slow, or else the current one. While
// the current file is empty the runtime may still be writing to the one before it. That one is read to its end once more before
// it is left, since the runtime writes to the next by then.
func (c *cursor) next() (bool, error) {
	mine, err := c.f.Stat()
	if err != nil {
		return false, err
	}
	if now, err := os.Stat(c.path); err != nil || os.SameFile(now, mine) {
		return false, nil // a rename without the reopening yet, or the log is being removed; what is open stays readable
	}
	files, err := rotated(c.path)
	if err != nil {
		return false, err
	}
	files = append(files, c.path)
	at := slices.IndexFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && os.SameFile(info, mine)
	})
	// at is -1 when our file has been compressed or deleted: then all that are left come after it.
	to := files[at+1]
	if info, err := os.Stat(to); err != nil || to == c.path && info.Size() == 0 {
		return false, nil
	}
	if err := c.drain(context.Background(), true); err != nil {
		return false, err
	}
	f, err := os.Open(to)
	if err != nil {
		return false, nil
	}
	_ = c.f.Close()
	c.f, c.at = f, 0
	return true, nil
}

// output writes entries in the form that was asked for.
type output struct {
	Options
	stdout, stderr io.Writer
	inside         bool // the last piece written was not the end of its line
	buf            bytes.Buffer
}

func (o *output) write(entry []byte) error {
	l, ok := parse(entry)
	if !ok {
		return nil // not written by a runtime; upstream leaves such entries out too
	}
	if l.at.Before(o.Since) {
		return nil
	}
	w := o.stdout
	if l.stream == "stderr" {
		w = o.stderr
	}
	if w == nil || o.Stream == Stdout && l.stream != "stdout" || o.Stream == Stderr && l.stream != "stderr" {
		return nil
	}
	o.buf.Reset()
	if o.Timestamps && !o.inside {
		o.buf.WriteString(l.at.Format("2006-01-02T15:04:05.000000000Z07:00 "))
	}
	o.buf.Write(l.text)
	if !l.partial {
		o.buf.WriteByte('\n')
	}
	o.inside = l.partial
	b := o.buf.Bytes()
	if o.Limit >= 0 && int64(len(b)) > o.Limit {
		b = b[:o.Limit]
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if o.Limit >= 0 {
		if o.Limit -= int64(len(b)); o.Limit == 0 {
			return errLimit
		}
	}
	return nil
}

func (o *output) flush() error {
	for _, w := range []io.Writer{o.stdout, o.stderr} {
		switch f := w.(type) {
		case interface{ Flush() error }:
			if err := f.Flush(); err != nil {
				return err
			}
		case interface{ Flush() }:
			f.Flush()
		}
	}
	return nil
}
