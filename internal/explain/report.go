package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Report is what `podo why` says about one object, or about several pods with the same finding: as data for programs, and as Text
// for people.
type Report struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Fine      bool      `json:"fine"` // nothing is to be done
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"`
	Why       string    `json:"why,omitempty"`
	Do        string    `json:"do,omitempty"`
	Log       *Log      `json:"log,omitempty"`  // where a container's own words are, which often say why
	Said      []string  `json:"said,omitempty"` // the last of those words, when the asker has read them
	How       []Step    `json:"how,omitempty"`  // how a pod got there
	Same      []string  `json:"same,omitempty"` // names of further pods with the same finding
	Below     []Report  `json:"below,omitempty"`
}

// Log names the log of a container.
type Log struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Previous  bool   `json:"previous,omitempty"` // that of the run before this one
}

// Step is a milestone of a pod's life.
type Step struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

func (r Report) id() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// Text is the report for people: the object's state on the first line, then why, what to do, and how it got there; what stands
// below it is indented. It does not end with a newline.
func (r Report) Text(now time.Time) string {
	var b strings.Builder
	r.write(&b, "", now)
	return strings.TrimSuffix(b.String(), "\n")
}

// plain is a text on one line without control characters: messages, logs and user names come from other people, who may want to
// attack the reader's terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

func (r Report) write(b *strings.Builder, indent string, now time.Time) {
	state := r.State
	if r.Since.IsZero() {
		state = strings.TrimSuffix(state, ",") // which separates it from the time
	}
	fmt.Fprintf(b, "%s%s %s %s", indent, r.Kind, r.id(), state)
	if !r.Since.IsZero() {
		fmt.Fprintf(b, " since %s (%s)", clock(r.Since, now), ago(now.Sub(r.Since)))
	}
	b.WriteString(".\n")
	part := func(label, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(b, "%s  %-5s%s\n", indent, label, sentence(plain(text)))
		}
	}
	part("Why", r.Why)
	for i, line := range r.Said {
		label := ""
		if i == 0 {
			label = "Log"
		}
		fmt.Fprintf(b, "%s  %-5s%s\n", indent, label, plain(line))
	}
	part("Do", r.Do)
	for i, s := range r.How {
		label := ""
		if i == 0 {
			label = "How"
		}
		fmt.Fprintf(b, "%s  %-5s%s  %s\n", indent, label, clock(s.At, now), plain(s.What))
	}
	if len(r.Same) > 0 {
		fmt.Fprintf(b, "%s  Same %s\n", indent, listed(r.Same))
	}
	for _, below := range r.Below {
		below.write(b, indent+"  ", now)
	}
}

// named is how many names are written out.
const named = 5

// listed are names, only some of them when there are many.
func listed(names []string) string {
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
}

// sentence ends a text with a full stop, unless a command to be copied is at its end.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "`") {
		return s
	}
	return s + "."
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// joined are two sentences, or the one that there is.
func joined(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return strings.TrimSuffix(strings.TrimSpace(first), ".") + ". " + second
}

// clock is a time of day, with its date when that is not today's.
func clock(at, now time.Time) string {
	at = at.UTC()
	if at.YearDay() != now.UTC().YearDay() || at.Year() != now.UTC().Year() {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("15:04:05")
}

// ago rounds a duration to what a person says.
func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return long(d) + " ago"
}

// long is a duration as a person says it.
func long(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.3g s", d.Truncate(100*time.Millisecond).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// count is a number of things.
func count[N ~int | ~int32](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
