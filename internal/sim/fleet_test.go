package sim

import "testing"

// TestFleet simulates fifty nodes in three zones, of which some, a zone, or all are lost for longer than pods may wait, while users
// roll out and drain, and controllers are killed.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("fifty nodes take a while")
	}
	n := *steps
	if *seed == 0 {
		n = min(n, 20)
	}
	for _, s := range seeds()[:1] {
		play(t, Options{Seed: s, Nodes: 50}, n, users, owners, fate, outages)
	}
}
