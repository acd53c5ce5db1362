// Package tokencleaner deletes bootstrap tokens whose time is over.
package tokencleaner

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/jointoken"
)

// Left is how long a token still has: false for one that has no end. An end that cannot be read is over.
func Left(s *v1.Secret, now time.Time) (left time.Duration, ends bool) {
	text := string(s.Data["expiration"])
	if s.Type != jointoken.SecretType || text == "" {
		return 0, false
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, true
	}
	return max(end.Sub(now), 0), true
}
