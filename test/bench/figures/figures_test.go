package figures

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRatiosStandBesideTheirParts(t *testing.T) {
	var out strings.Builder
	b := Book{Out: &out}
	s := Samples{}
	s.Time(Podo, 20*time.Millisecond, 10*time.Millisecond, 90*time.Millisecond)
	s.Time(Floor, 10*time.Millisecond)
	s.Time(Peer, 40*time.Millisecond)
	s[Other] = nil // nothing of it was seen
	b.Spread("start", s)
	b.Median("rate", "pods/s", Samples{Podo: {8}, Peer: {0}})
	want := `figure start.p50.floor 10 ms
figure start.p50.peer 40 ms
figure start.p50.podo 20 ms
figure start.p50.podo/floor 2 x
figure start.p50.podo/peer 0.5 x
figure start.p50.peer/floor 4 x
figure start.p99.floor 10 ms
figure start.p99.peer 40 ms
figure start.p99.podo 90 ms
figure start.p99.podo/floor 9 x
figure start.p99.podo/peer 2.25 x
figure start.p99.peer/floor 4 x
figure rate.peer 0 pods/s
figure rate.podo 8 pods/s
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := b.Write(file, Report{Command: []string{"bench"}, Machine: Machine{CPUs: 2}}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(content, &r); err != nil || len(r.Figures) != strings.Count(want, "\n") || r.Figures[3].Name != "start.p50.podo/floor" {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestQuantile(t *testing.T) {
	var values []float64
	for i := range 200 {
		values = append(values, float64((i*7)%200)+1) // 1 to 200 in some order
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 101, 0.99: 199, 1: 200} {
		if got := Quantile(values, q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}
