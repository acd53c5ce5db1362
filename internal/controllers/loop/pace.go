package loop

import (
	"sync"
	"time"

	"podo.dev/podo/internal/view"
)

// pace slows down a key that is written again and again: two controllers, or a controller and a user, undo each other's work for ever.
// What a key may write at once is more than any rollout does, so that nobody else is held up.
type pace struct {
	mu   sync.Mutex
	keys map[view.Key]allowance
}

type allowance struct {
	left float64
	at   time.Time
}

const (
	paceBurst  = 100 // writes of one key without a pause
	paceSecond = 5.0 // and from then on
)

func (p *pace) refilled(key view.Key, now time.Time) float64 {
	a, ok := p.keys[key]
	if !ok {
		return paceBurst
	}
	return min(paceBurst, a.left+now.Sub(a.at).Seconds()*paceSecond)
}

// wrote counts a write.
func (p *pace) wrote(key view.Key, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil || len(p.keys) > 10_000 {
		old := p.keys
		p.keys = map[view.Key]allowance{}
		for k, a := range old {
			if a.left+now.Sub(a.at).Seconds()*paceSecond < paceBurst {
				p.keys[k] = a
			}
		}
	}
	p.keys[key] = allowance{p.refilled(key, now) - 1, now}
}

// wait is how long a key must wait for its next turn.
func (p *pace) wait(key view.Key, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.refilled(key, now)
	if left >= 1 {
		return 0
	}
	return time.Duration((1 - left) / paceSecond * float64(time.Second))
}
