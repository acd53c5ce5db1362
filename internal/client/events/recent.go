package events

// recent has values of the keys that were asked for last, a bounded number of them.
type recent[V any] struct {
	max    int
	places map[key]*place[V]
	ring   place[V] // of all places: newer than it is the oldest, older than it the newest
}

type place[V any] struct {
	key          key
	value        V
	older, newer *place[V]
}

func newRecent[V any](maximum int) *recent[V] {
	r := &recent[V]{max: maximum, places: map[key]*place[V]{}}
	r.ring.older, r.ring.newer = &r.ring, &r.ring
	return r
}

// of is the value of a key, to be changed in place; one that is not known is made.
func (r *recent[V]) of(k key) *V {
	p := r.places[k]
	switch {
	case p != nil:
		p.leave()
	case len(r.places) < r.max:
		p = &place[V]{key: k}
		r.places[k] = p
	default: // the oldest is forgotten
		p = r.ring.newer
		p.leave()
		delete(r.places, p.key)
		*p = place[V]{key: k}
		r.places[k] = p
	}
	p.older, p.newer = r.ring.older, &r.ring
	p.older.newer, p.newer.older = p, p
	return &p.value
}

func (p *place[V]) leave() { p.older.newer, p.newer.older = p.newer, p.older }
