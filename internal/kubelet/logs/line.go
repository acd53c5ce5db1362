package logs

import (
	"bytes"
	"time"
)

// A line of a container's log file, as the Container Runtime Interface lays it down:
//
//	2026-01-02T03:04:05.000000006Z stdout F the text\n
//
// The tag is P for a piece of a longer line that goes on in the next entry of the same stream, F for its last or only piece.
// Tags may be joined by colons; the first one counts.
type line struct {
	at      time.Time
	stream  string // stdout or stderr
	partial bool
	text    []byte // without the newline; shares the memory of what was parsed
}

// The streams that a reader may ask for.
const (
	All    = "All"
	Stdout = "Stdout"
	Stderr = "Stderr"
)

// parse reads one entry, with or without its newline. It says false for what is no entry.
func parse(b []byte) (line, bool) {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	at, rest, ok := bytes.Cut(b, []byte{' '})
	if !ok {
		return line{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return line{}, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return line{}, false
	}
	l := line{at: t}
	switch string(stream) {
	case "stdout", "stderr":
		l.stream = string(stream)
	default:
		return line{}, false
	}
	tag, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok && len(tag) == 0 {
		return line{}, false
	}
	first, _, _ := bytes.Cut(tag, []byte{':'})
	l.partial = len(first) == 1 && first[0] == 'P'
	l.text = text
	return l, true
}
