package timeline

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The text form. A pod's records stand under a head line, one a line, in columns that two or more spaces part:
//
//	pod default/hello  uid=7c1e  2026-11-29T14:00:00.000Z
//	  +0.000s  accepted   -       -                   -              user=admin
//	  +0.004s  attempt    -       unschedulable       Unschedulable  nodes=1 rejected="1 Insufficient cpu"
//	  +0.012s  bound      -       node-a
//	  +1.310s  container  app     Created -> Running
//	  when     stage      subject transition          cause          fields
//
// Times count from the pod's first record, to the millisecond. An empty column is "-"; empty columns at the end are left out.
// What could be misread (two spaces in a row, quotes, control characters, a lone "-") is quoted as Go does. The transition
// is "From -> To", "To" when there is no From, "From ->" when there is no To. Parse reads all of it back.

const (
	stamp = "2006-01-02T15:04:05.000Z07:00"
	arrow = "->"
	empty = "-"
)

// Format is the text of one or more pods' records. Pods come in the order of their first records.
func Format(records []Record) string {
	var b bytes.Buffer
	for i, g := range Group(records) {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "pod %s/%s", quote(g.Pod.Namespace), quote(g.Pod.Name))
		if g.Pod.UID != "" {
			fmt.Fprintf(&b, "  uid=%s", quote(g.Pod.UID))
		}
		fmt.Fprintf(&b, "  %s\n", g.Records[0].At.UTC().Format(stamp))
		b.WriteString(Lines(g.Records))
	}
	return b.String()
}

// Lines is the text of one pod's records without the head line: what scripts compare, because it holds neither a
// date nor an identifier.
func Lines(records []Record) string {
	if len(records) == 0 {
		return ""
	}
	records = sorted(records)
	rows := make([][6]string, len(records))
	var width [6]int
	for i, r := range records {
		rows[i] = r.columns(records[0].At)
		for c, cell := range rows[i] {
			width[c] = max(width[c], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString("  ")
		b.WriteString(strings.Repeat(" ", width[0]-utf8.RuneCountInString(row[0])))
		last := len(row) - 1
		for last > 1 && row[last] == empty {
			last--
		}
		for c := 0; c <= last; c++ {
			b.WriteString(row[c])
			if c < last {
				pad := 0
				if c > 0 {
					pad = width[c] - utf8.RuneCountInString(row[c])
				}
				b.WriteString(strings.Repeat(" ", pad+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Line is one record without its time, for logs and messages.
func (r Record) Line() string {
	cols := r.columns(r.At)
	out := cols[1:2]
	for _, c := range cols[2:] {
		if c != empty {
			out = append(out, c)
		}
	}
	return strings.Join(out, "  ")
}

func (r Record) columns(start time.Time) [6]string {
	fields := make([]string, 0, len(r.Fields))
	for _, f := range r.Fields {
		v := f.Value
		if v == "" || strings.ContainsRune(v, ' ') || needsQuote(v) {
			v = strconv.Quote(v)
		}
		fields = append(fields, f.Key+"="+v)
	}
	return [6]string{
		offset(r.At.Sub(start)), quote(string(r.Stage)), quote(r.Subject), transition(r.From, r.To), quote(r.Cause),
		orEmpty(strings.Join(fields, " ")),
	}
}

// offset prints +1.234s, +1m01.234s, +2h03m04.500s.
func offset(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	d = d.Round(time.Millisecond)
	h, m, s := int(d/time.Hour), int(d%time.Hour/time.Minute), (d % time.Minute).Seconds()
	switch {
	case h > 0:
		return fmt.Sprintf("%s%dh%02dm%06.3fs", sign, h, m, s)
	case m > 0:
		return fmt.Sprintf("%s%dm%06.3fs", sign, m, s)
	}
	return fmt.Sprintf("%s%.3fs", sign, s)
}

func transition(from, to string) string {
	switch {
	case from == "" && to == "":
		return empty
	case from == "":
		return quoteState(to)
	case to == "":
		return quoteState(from) + " " + arrow
	}
	return quoteState(from) + " " + arrow + " " + quoteState(to)
}

func quoteState(s string) string {
	if strings.Contains(s, arrow) {
		return strconv.Quote(s)
	}
	return quote(s)
}

func quote(s string) string {
	if s == "" {
		return empty
	}
	if s == empty || needsQuote(s) {
		return strconv.Quote(s)
	}
	return s
}

func orEmpty(s string) string {
	if s == "" {
		return empty
	}
	return s
}

func needsQuote(s string) bool {
	if strings.Contains(s, "  ") || s[0] == ' ' || s[len(s)-1] == ' ' || strings.ContainsRune(s, '"') || !utf8.ValidString(s) {
		return true
	}
	return strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

// sorted orders records by time, then by sequence. It never changes its argument.
func sorted(records []Record) []Record {
	out := slices.Clone(records)
	slices.SortStableFunc(out, func(a, b Record) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		switch {
		case a.Seq < b.Seq:
			return -1
		case a.Seq > b.Seq:
			return 1
		}
		return 0
	})
	return out
}
