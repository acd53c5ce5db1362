package wire

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxInFlight bounds the requests for resources that are served at once, long ones excepted.
	maxInFlight = 600
	// flightWait is how long a request may wait for its turn before it is sent away, for comeBack at least.
	flightWait = 10 * time.Second
	comeBack   = time.Second
)

// flight counts the requests under way: those beyond its size wait.
type flight chan struct{}

// enter says whether the request's turn has come in time.
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

// tooMany sends a request away that did not get its turn.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(int(comeBack.Seconds())))
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
