package nodettl

import "testing"

func TestSteps(t *testing.T) {
	for _, c := range []struct{ from, nodes, seconds int }{
		{0, 0, 0}, {0, 100, 0}, {0, 101, 15}, {1, 95, 15}, {1, 90, 15}, {1, 89, 0}, {1, 501, 30}, {0, 5000, 300}, {4, 1800, 300}, {4, 1799, 60}, {4, 1, 0},
	} {
		if got := Seconds(Step(c.from, c.nodes)); got != c.seconds {
			t.Errorf("%d nodes from step %d: %d s, want %d", c.nodes, c.from, got, c.seconds)
		}
	}
}
