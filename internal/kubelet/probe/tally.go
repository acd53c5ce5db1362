package probe

import v1 "k8s.io/api/core/v1"

// tally counts results of one probe in a row and tells when its verdict turns.
//
//	unknown ── successThreshold in a row ──► ok ── failureThreshold in a row ──► failed ──► ok ...
//	   └────── failureThreshold in a row ─────────────────────────────────────────► ▲
type tally struct {
	known bool // there is a verdict
	ok    bool // the verdict, when known
	last  bool // the last result
	run   int  // how many times in a row it has come

	broken bool // the probe could not be run the last time
}

// word is the verdict as the timeline tells it.
func (t *tally) word() string {
	switch {
	case t.broken:
		return "error"
	case !t.known:
		return "unknown"
	case t.ok:
		return "ok"
	}
	return "failed"
}

// add takes one result and tells whether the verdict has turned, or has become known.
func (t *tally) add(ok bool, p *v1.Probe) (turned bool) {
	if t.run > 0 && t.last == ok {
		t.run++
	} else {
		t.last, t.run = ok, 1
	}
	need := max(int(p.FailureThreshold), 1)
	if ok {
		need = max(int(p.SuccessThreshold), 1)
	}
	if t.run < need || t.known && t.ok == ok {
		return false
	}
	t.known, t.ok = true, ok
	return true
}
