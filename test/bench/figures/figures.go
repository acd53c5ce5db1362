// Package figures prints what was measured, one line a figure, and keeps it for the report:
//
//	figure <name> <value> <unit>
//
// Who was measured is the last part of a name. Where two were, their ratio stands beside its parts under both names.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

// Those that are compared: a ratio is the first over the second.
const (
	Podo  = "podo"
	Floor = "floor" // the runtime alone
	Peer  = "peer"  // upstream's components
	Other = "other" // a cluster that ran already
)

var pairs = [][2]string{{Podo, Floor}, {Podo, Peer}, {Podo, Other}, {Peer, Floor}}

// Samples are the results of one measure, by who was measured.
type Samples map[string][]float64

// Add adds a result.
func (s Samples) Add(who string, value float64) { s[who] = append(s[who], value) }

// Time adds durations, in milliseconds.
func (s Samples) Time(who string, all ...time.Duration) {
	for _, d := range all {
		s.Add(who, float64(d.Microseconds())/1000)
	}
}

// Figure is one of them.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Book collects the figures of a run.
type Book struct {
	Out io.Writer
	all []Figure
}

// Add prints and keeps one figure.
func (b *Book) Add(name string, value float64, unit string) {
	b.all = append(b.all, Figure{name, value, unit})
	fmt.Fprintf(b.Out, "figure %s %.4g %s\n", name, value, unit)
}

// Median is the middle of the samples, for each who was measured, and the ratios.
func (b *Book) Median(name, unit string, s Samples) { b.quantile(name, unit, 0.5, s) }

// Spread is the median and the 99th percentile of times, each with its ratios.
func (b *Book) Spread(name string, s Samples) {
	b.quantile(name+".p50", "ms", 0.5, s)
	b.quantile(name+".p99", "ms", 0.99, s)
}

func (b *Book) quantile(name, unit string, q float64, s Samples) {
	of := map[string]float64{}
	for _, who := range slices.Sorted(maps.Keys(s)) {
		if len(s[who]) > 0 {
			of[who] = Quantile(s[who], q)
			b.Add(name+"."+who, of[who], unit)
		}
	}
	for _, p := range pairs {
		first, ok1 := of[p[0]]
		second, ok2 := of[p[1]]
		if ok1 && ok2 && second != 0 {
			b.Add(name+"."+p[0]+"/"+p[1], first/second, "x")
		}
	}
}

// Quantile q of the values (0.5 is the median), the nearest rank from above.
func Quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// Report is the file that a run leaves: where, when and what.
type Report struct {
	Date    time.Time `json:"date"`
	Commit  string    `json:"commit,omitempty"`
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	Figures []Figure  `json:"figures"`
}

// Machine is where a run was.
type Machine struct {
	CPUs     int     `json:"cpus"`
	MemoryMB int     `json:"memoryMB"`
	Kernel   string  `json:"kernel"`
	Load     float64 `json:"load"` // when the run began: above some tenths, others worked too
}

// Write puts the report into a file.
func (b *Book) Write(file string, r Report) error {
	r.Figures = b.all
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}
