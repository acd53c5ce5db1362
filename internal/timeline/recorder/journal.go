package recorder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"podo.dev/podo/internal/timeline"
)

const (
	journalFile = "timeline.jsonl"
	rotatedFile = "timeline.jsonl.1"
	maxLine     = 1 << 20
	// gather is how long a record waits for others at most, when one has been written just before.
	gather = 10 * time.Millisecond
)

// Run reads the journal's history into memory, then writes what is appended to the journal and the log until ctx ends. What is
// pending at the end is written out. A journal that cannot be written ends Run with an error; Append goes on regardless.
func (r *Recorder) Run(ctx context.Context, ready func()) error {
	var j *journal
	if r.config.Dir != "" {
		if err := r.load(); err != nil {
			return err
		}
		var err error
		if j, err = openJournal(r.config.Dir, r.config.JournalBytes); err != nil {
			return err
		}
		defer j.close()
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return r.drain(j)
		case <-r.wake:
			if err := r.drain(j); err != nil {
				return err
			}
		}
		// What comes in a burst is written together: each wake-up and each write costs more than its record.
		select {
		case <-ctx.Done():
		case <-time.After(gather):
		}
	}
}

func (r *Recorder) drain(j *journal) error {
	r.mu.Lock()
	batch, lost := r.pending, r.lost
	r.pending, r.lost = nil, 0
	r.mu.Unlock()
	if lost > 0 && r.config.Logger != nil {
		r.config.Logger.Warn("timeline: records not written, the disk or the log is too slow", "lost", lost)
	}
	for _, rec := range batch {
		if r.config.Logger != nil {
			logRecord(r.config.Logger, r.config.Level, rec)
		}
		if j != nil {
			if err := j.write(rec); err != nil {
				return fmt.Errorf("timeline journal: %w", err)
			}
		}
	}
	if j != nil {
		return j.buf.Flush()
	}
	return nil
}

// logRecord writes one line that carries the record's own time.
func logRecord(l *slog.Logger, level slog.Level, rec timeline.Record) {
	ctx := context.Background()
	if !l.Enabled(ctx, level) {
		return
	}
	out := slog.NewRecord(rec.At, level, "timeline", 0)
	add := func(key, value string) {
		if value != "" {
			out.AddAttrs(slog.String(key, value))
		}
	}
	add("pod", rec.Pod.String())
	add("uid", rec.Pod.UID)
	add("stage", string(rec.Stage))
	add("subject", rec.Subject)
	add("from", rec.From)
	add("to", rec.To)
	add("cause", rec.Cause)
	for _, f := range rec.Fields {
		add(f.Key, f.Value)
	}
	_ = l.Handler().Handle(ctx, out) // a log that cannot be written has nobody to tell
}

// load puts the journal's history in front of what was appended since New. Damaged lines are left out.
func (r *Recorder) load() error {
	select {
	case <-r.loaded:
		return nil // Run again after a failure: memory has it
	default:
	}
	history := newMemory(r.config.PerPod, r.config.Total)
	for _, name := range []string{rotatedFile, journalFile} {
		err := readJournal(filepath.Join(r.config.Dir, name), func(rec timeline.Record) { history.add(rec) })
		if err != nil {
			return fmt.Errorf("timeline journal: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.state.records(timeline.Query{}) {
		history.add(rec)
	}
	r.state = history
	close(r.loaded)
	return nil
}

func readJournal(path string, visit func(timeline.Record)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var rec timeline.Record
		if json.Unmarshal(lines.Bytes(), &rec) == nil && rec.Seq > 0 && rec.Stage != "" {
			visit(rec)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil // damaged from here on
	}
	return lines.Err()
}

// lastSeq is the sequence number of the newest whole record on disk, from the files' last 2 maxLine bytes.
func lastSeq(dir string) (uint64, error) {
	var seq uint64
	for _, name := range []string{rotatedFile, journalFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		size, err := f.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = f.Seek(max(0, size-64<<10), io.SeekStart)
		}
		var tail []byte
		if err == nil {
			tail, err = io.ReadAll(f)
		}
		f.Close()
		if err != nil {
			return 0, err
		}
		for line := range bytes.SplitSeq(tail, []byte("\n")) {
			var rec struct {
				Seq uint64 `json:"seq"`
			}
			if json.Unmarshal(line, &rec) == nil {
				seq = max(seq, rec.Seq)
			}
		}
	}
	return seq, nil
}

// journal is the append-only file of JSON lines with one rotated predecessor. It is buffered and not synced: a crash of the
// process loses what was pending, a crash of the machine a little more; both leave at most one torn line.
type journal struct {
	dir   string
	limit int64
	size  int64
	file  *os.File
	buf   *bufio.Writer
	line  []byte // the room for one
}

func openJournal(dir string, limit int64) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("timeline journal: %w", err)
	}
	j := &journal{dir: dir, limit: limit}
	return j, j.open()
}

func (j *journal) open() error {
	f, err := os.OpenFile(filepath.Join(j.dir, journalFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("timeline journal: %w", err)
	}
	j.file, j.buf = f, bufio.NewWriterSize(f, 32<<10)
	if j.size, err = f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	// A torn last line ends here, so that the next record starts a line of its own.
	if last := make([]byte, 1); j.size > 0 {
		if _, err := f.ReadAt(last, j.size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			j.size++
			return j.buf.WriteByte('\n')
		}
	}
	return nil
}

func (j *journal) write(rec timeline.Record) error {
	rec.At = rec.At.Round(Precision)
	j.line = append(appendLine(j.line[:0], &rec), '\n')
	size := int64(len(j.line))
	if size > maxLine {
		return nil // would not be read back
	}
	if j.size+size > j.limit && j.size > 0 {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	j.size += size
	_, err := j.buf.Write(j.line)
	return err
}

func (j *journal) rotate() error {
	if err := j.close(); err != nil {
		return err
	}
	path := filepath.Join(j.dir, journalFile)
	if err := os.Rename(path, filepath.Join(j.dir, rotatedFile)); err != nil {
		return err
	}
	return j.open()
}

func (j *journal) close() error {
	return errors.Join(j.buf.Flush(), j.file.Close())
}
