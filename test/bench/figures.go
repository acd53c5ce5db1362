package main

import (
	"fmt"
	"slices"
	"time"
)

type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

type figures struct{ all []figure }

func (f *figures) add(name string, value float64, unit string) {
	f.all = append(f.all, figure{name, value, unit})
	fmt.Printf("figure %s %.4g %s\n", name, value, unit)
}

func (f *figures) ms(name string, d time.Duration) {
	f.add(name, float64(d.Microseconds())/1000, "ms")
}

// ratio prints both parts and their quotient.
func (f *figures) ratio(name string, ours, theirs time.Duration) {
	f.ms(name+".podo", ours)
	f.ms(name+".floor", theirs)
	f.add(name+".ratio", float64(ours)/float64(theirs), "x")
}

// quantile q of the durations (0.5 is the median).
func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}
