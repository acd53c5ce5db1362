package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Printer writes the text form as records come, for followers: columns have fixed widths, since what comes is not known. Parse
// reads it too.
type Printer struct {
	w     io.Writer
	pod   PodRef
	start time.Time
}

// NewPrinter writes to w.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w} }

var fixedWidths = [6]int{10, 11, 12, 22, 18, 0}

// Print writes one record, under a head line when the pod is another one than before.
func (p *Printer) Print(r Record) error {
	if named := r.Pod.UID != ""; p.start.IsZero() || named && r.Pod != p.pod {
		// A pod's first records have no UID yet; they stand under the same head.
		unnamed := PodRef{Namespace: r.Pod.Namespace, Name: r.Pod.Name}
		if p.start.IsZero() || p.pod != unnamed {
			p.start = r.At
			fmt.Fprintf(p.w, "pod %s/%s", quote(r.Pod.Namespace), quote(r.Pod.Name))
			if named {
				fmt.Fprintf(p.w, "  uid=%s", quote(r.Pod.UID))
			}
			fmt.Fprintf(p.w, "  %s\n", r.At.UTC().Format(stamp))
		}
		p.pod = r.Pod
	}
	var b strings.Builder
	cols := r.columns(p.start)
	b.WriteString("  ")
	b.WriteString(strings.Repeat(" ", max(0, fixedWidths[0]-len(cols[0]))))
	last := len(cols) - 1
	for last > 1 && cols[last] == empty {
		last--
	}
	for c := 0; c < last; c++ {
		b.WriteString(cols[c])
		pad := 0
		if c > 0 {
			pad = max(0, fixedWidths[c]-utf8.RuneCountInString(cols[c]))
		}
		b.WriteString(strings.Repeat(" ", pad+2))
	}
	b.WriteString(cols[last] + "\n")
	_, err := io.WriteString(p.w, b.String())
	return err
}
