package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// defaultStabilization is how long a higher wish is remembered before there are fewer replicas, where the autoscaler does not say it.
const defaultStabilization = 5 * time.Minute

// history is what an autoscaler has wished for and done, as far back as it matters. It is not kept anywhere: who starts begins with what
// there is.
type history struct {
	wishes     []past
	ups, downs []past
}

// past is a number of replicas at a time: wished for, or added or taken away.
type past struct {
	replicas int32
	at       time.Time
}

// since drops what is older than a time.
func since(all []past, from time.Time) []past {
	out := all[:0:0]
	for _, p := range all {
		if !p.at.Before(from) {
			out = append(out, p)
		}
	}
	return out
}

// change is how many replicas were added or taken away in the period before now.
func change(all []past, seconds int32, now time.Time) (sum int32) {
	from := now.Add(-time.Duration(seconds) * time.Second)
	for _, p := range all {
		if p.at.After(from) {
			sum += p.replicas
		}
	}
	return sum
}

// limits are what a wish is fitted into.
type limits struct {
	behavior *autoscalingv2.HorizontalPodAutoscalerBehavior // nil for none, complete otherwise
	min, max int32
}

// verdict is a condition's reason and message.
type verdict struct{ reason, message string }

// What can be said of a number.
var (
	ready       = verdict{"ReadyForNewScale", "recommended size matches current size"}
	heldUp      = verdict{"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"}
	heldDown    = verdict{"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
	inRange     = verdict{"DesiredWithinRange", "the desired count is within the acceptable range"}
	tooMany     = verdict{"TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	tooFew      = verdict{"TooFewReplicas", "the desired replica count is less than the minimum replica count"}
	tooFastUp   = verdict{"ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	tooFastDown = verdict{"ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
)

// fit makes of a wish what may be done now, and notes the wish. stable says whether recent wishes held it, limited whether a limit did.
func (h *history) fit(current, wish int32, l limits, now time.Time) (n int32, stable, limited verdict) {
	held := h.stabilized(current, wish, l.behavior, now)
	stable = ready
	if held != wish {
		stable = heldUp
		if l.behavior != nil && wish >= current {
			stable = heldDown
		}
	}
	n, limited = h.limited(current, held, l, now)
	return n, stable, limited
}

// stabilized is the wish among recent ones: not fewer than the highest of the window for going down, and not more than the lowest of
// that for going up.
func (h *history) stabilized(current, wish int32, b *autoscalingv2.HorizontalPodAutoscalerBehavior, now time.Time) int32 {
	down, up := defaultStabilization, time.Duration(0)
	if b != nil {
		down, up = window(b.ScaleDown, defaultStabilization), window(b.ScaleUp, 0)
	}
	lowest, highest := wish, wish
	for _, p := range h.wishes {
		if p.at.After(now.Add(-up)) {
			lowest = min(lowest, p.replicas)
		}
		if p.at.After(now.Add(-down)) || b == nil && p.at.Equal(now.Add(-down)) {
			highest = max(highest, p.replicas)
		}
	}
	h.wishes = append(since(h.wishes, now.Add(-max(up, down))), past{wish, now})
	if b == nil {
		return highest
	}
	return min(max(current, lowest), highest)
}

func window(r *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

// limited keeps a number within the autoscaler's bounds, and its way there within what may change at a time.
func (h *history) limited(current, wish int32, l limits, now time.Time) (int32, verdict) {
	fastest, slowest := max(2*int64(current), 4), int64(l.min)
	if b := l.behavior; b != nil {
		fastest, slowest = math.MaxInt32, 0
		if wish > current {
			fastest = max(h.allowed(current, b.ScaleUp, +1, now), int64(current))
		}
		if wish < current {
			slowest = min(h.allowed(current, b.ScaleDown, -1, now), int64(current))
		}
		if wish == current {
			return wish, inRange
		}
	}
	most, least, above, below := int64(l.max), int64(l.min), tooMany, tooFew
	if fastest < most {
		most, above = fastest, tooFastUp
	}
	if slowest > least {
		least, below = slowest, tooFastDown
	}
	switch {
	case int64(wish) < least && (l.behavior == nil || wish < current):
		return int32(least), below
	case int64(wish) > most && (l.behavior == nil || wish > current):
		return int32(most), above
	}
	return wish, inRange
}

// allowed is the number that the policies let one come to by now, upwards (+1) or downwards (-1): each counts from what there was when
// its period began.
func (h *history) allowed(current int32, r *autoscalingv2.HPAScalingRules, way int64, now time.Time) int64 {
	if *r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		return int64(current)
	}
	var out int64
	for i, p := range r.Policies {
		start := int64(current) - int64(change(h.ups, p.PeriodSeconds, now)) + int64(change(h.downs, p.PeriodSeconds, now))
		n := start + way*int64(p.Value)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			share := float64(start) * (1 + float64(way)*float64(p.Value)/100)
			n = int64(share) // towards fewer
			if way > 0 {
				n = int64(math.Ceil(share)) // else few replicas would never become more
			}
		}
		least := *r.SelectPolicy == autoscalingv2.MinChangePolicySelect
		if i == 0 || (n*way < out*way) == least && n != out {
			out = n
		}
	}
	return min(max(out, math.MinInt32), math.MaxInt32)
}

// scaled notes what was done. Without behavior nobody asks for it.
func (h *history) scaled(from, to int32, b *autoscalingv2.HorizontalPodAutoscalerBehavior, now time.Time) {
	switch {
	case b == nil || from == to:
	case to > from:
		h.ups = append(since(h.ups, now.Add(-longest(b.ScaleUp))), past{to - from, now})
	default:
		h.downs = append(since(h.downs, now.Add(-longest(b.ScaleDown))), past{from - to, now})
	}
}

func longest(r *autoscalingv2.HPAScalingRules) (out time.Duration) {
	for _, p := range r.Policies {
		out = max(out, time.Duration(p.PeriodSeconds)*time.Second)
	}
	return out
}
