package linux

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Setting the clock to what it is is an event, and changes nothing for anybody.
func TestClockSet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, err := ClockSet(ctx)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
		t.Fatal("it tells of a clock that nobody set")
	default:
	}
	for range 2 { // it is armed again
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Fatal(err)
		}
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Skip("the clock cannot be set here: ", err)
		}
		select {
		case <-told:
		case <-time.After(5 * time.Second):
			t.Fatal("the clock was set, and nobody told")
		}
	}
}
