package token

import "time"

const (
	// longest is how long a token is shown at most, however long it lives.
	longest = 24 * time.Hour
	// spread keeps tokens that were made together from being renewed together.
	spread = 10 * time.Second
	// again is how long after a failure the next attempt comes.
	again = time.Minute
	// setBack is by how much the clock must be set back for a token to be replaced: servers allow for a minute.
	setBack = 30 * time.Second
)

// renewAt is when a token is replaced that was asked for with this life and ends then: when four fifths of its life or a day have
// passed, less jitter (up to spread).
func renewAt(ends time.Time, life, jitter time.Duration) time.Time {
	used := min(life-life/5, longest)
	return ends.Add(used - life - jitter)
}
