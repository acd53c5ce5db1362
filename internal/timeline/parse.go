package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads the text form. Lines without a head line before them belong to an unnamed pod whose first record is at the
// zero time. Sequence numbers are not part of the text: they count lines from 1. Blank lines and lines that start with #
// are left out.
func Parse(s string) ([]Record, error) {
	var out []Record
	var pod PodRef
	var start time.Time
	for n, line := range strings.Split(s, "\n") {
		trimmed := strings.TrimSpace(line)
		var err error
		switch {
		case trimmed == "" || trimmed[0] == '#':
			continue
		case strings.HasPrefix(line, "pod "):
			pod, start, err = parseHead(trimmed[len("pod "):])
		default:
			var r Record
			r, err = parseLine(trimmed, start)
			r.Pod, r.Seq = pod, uint64(len(out)+1)
			out = append(out, r)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return out, nil
}

func parseHead(s string) (pod PodRef, start time.Time, err error) {
	name, rest, err := word(s, "/")
	if err != nil {
		return pod, start, err
	}
	pod.Namespace = name
	if pod.Name, rest, err = word(rest, "  "); err != nil {
		return pod, start, err
	}
	if after, ok := strings.CutPrefix(rest, "uid="); ok {
		if pod.UID, rest, err = word(after, "  "); err != nil {
			return pod, start, err
		}
	}
	start, err = time.Parse(stamp, rest)
	return pod, start, err
}

func parseLine(s string, start time.Time) (r Record, err error) {
	when, rest, _ := strings.Cut(s, "  ")
	d, err := time.ParseDuration(when)
	if err != nil {
		return r, fmt.Errorf("a line starts with a time such as +0.012s: %w", err)
	}
	r.At = start.Add(d)
	var stage string
	if stage, rest, err = word(rest, "  "); err != nil {
		return r, err
	}
	r.Stage = Stage(stage)
	if r.Subject, rest, err = word(rest, "  "); err != nil {
		return r, err
	}
	if r.From, r.To, rest, err = parseTransition(rest); err != nil {
		return r, err
	}
	if r.Cause, rest, err = word(rest, "  "); err != nil {
		return r, err
	}
	for rest != "" && rest != empty {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			return r, fmt.Errorf("field %q has no =", rest)
		}
		var v string
		if v, rest, err = word(after, " "); err != nil {
			return r, err
		}
		if v == "" && after[0] == '-' {
			v = empty // "-" is a value here, not an empty column
		}
		r.Fields = append(r.Fields, Field{Key: key, Value: v})
	}
	return r, nil
}

func parseTransition(s string) (from, to, rest string, err error) {
	if s == "" {
		return "", "", "", nil
	}
	if s[0] != '"' {
		col, rest := cut(s, "  ")
		if col == empty {
			return "", "", rest, nil
		}
		first, second, moved := strings.Cut(col, " "+arrow)
		if !moved {
			return "", col, rest, nil
		}
		if second = strings.TrimPrefix(second, " "); second == "" || second[0] != '"' {
			return first, second, rest, nil
		}
		// The second state is quoted and may hold two spaces: read it from the whole rest of the line.
		to, rest, err = word(s[len(first)+len(" "+arrow+" "):], "  ")
		return first, to, rest, err
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", "", err
	}
	state, err := strconv.Unquote(quoted)
	if err != nil {
		return "", "", "", err
	}
	after, moved := strings.CutPrefix(s[len(quoted):], " "+arrow)
	if !moved {
		return "", state, strings.TrimLeft(s[len(quoted):], " "), nil
	}
	if after == "" || strings.HasPrefix(after, "  ") {
		return state, "", strings.TrimLeft(after, " "), nil
	}
	to, rest, err = word(after[1:], "  ")
	return state, to, rest, err
}

// word reads one cell up to sep; a quoted one is unquoted, "-" is empty.
func word(s, sep string) (w, rest string, err error) {
	if s == "" {
		return "", "", nil
	}
	if s[0] == '"' {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", fmt.Errorf("bad quotes in %q: %w", s, err)
		}
		w, err := strconv.Unquote(quoted)
		rest = strings.TrimPrefix(s[len(quoted):], sep)
		return w, strings.TrimLeft(rest, " "), err
	}
	w, rest = cut(s, sep)
	if w == empty {
		w = ""
	}
	return w, rest, nil
}

func cut(s, sep string) (w, rest string) {
	w, rest, _ = strings.Cut(s, sep)
	return w, strings.TrimLeft(rest, " ")
}
