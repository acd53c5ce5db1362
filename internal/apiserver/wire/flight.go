package wire

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxInFlight bounds the resource requests that are served at once, long-running ones excepted.
	maxInFlight = 600
	// flightWait is how long a request may wait for its turn before it is refused; the client comes back after comeBack at least.
	flightWait = 10 * time.Second
	comeBack   = time.Second
)

// flight counts the requests under way; others wait.
type flight chan struct{}

// enter tells whether the request got its turn in time.
func (f flight) enter(ctx context.Context) bool {
	select {
	case f <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, flightWait)
	defer cancel()
	select {
	case f <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f flight) leave() { <-f }

// tooMany refuses a request that did not get its turn.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(int(comeBack.Seconds())))
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
