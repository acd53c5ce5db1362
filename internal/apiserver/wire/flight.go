package wire

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxInFlight bounds the requests for resources that are served at once, long ones excepted.
	maxInFlight = 600
	// flightWait is how long a request may wait for its turn before it is sent away.
	flightWait = 10 * time.Second
)

// flight counts the requests under way: those beyond its size wait.
type flight chan struct{}

func (f flight) enter(ctx context.Context) error {
	select {
	case f <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, flightWait)
	defer cancel()
	select {
	case f <- struct{}{}:
		return nil
	case <-ctx.Done():
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	}
}

func (f flight) leave() { <-f }
