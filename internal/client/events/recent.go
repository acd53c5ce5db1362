package events

// recent has values of the keys that were asked for last, a bounded number of them. They lie in a row: each by itself would be an object among
// the garbage of its event, of which a page is held for as long as one object in it is.
type recent[V any] struct {
	max    int
	at     map[key]int32
	places []place[V] // the first is the ring's: newer than it is the oldest, older than it the newest
}

type place[V any] struct {
	key          key
	value        V
	older, newer int32
}

func newRecent[V any](maximum int) *recent[V] {
	return &recent[V]{max: maximum, at: map[key]int32{}, places: make([]place[V], 1)}
}

// of is the value of a key, to be changed in place before another one is asked for; one that is not known is made.
func (r *recent[V]) of(k key) *V {
	i, known := r.at[k]
	switch {
	case known:
		r.leave(i)
	case len(r.at) < r.max:
		i = int32(len(r.places)) //nolint:gosec // at most max
		r.places = append(r.places, place[V]{key: k})
	default: // the oldest is forgotten
		i = r.places[0].newer
		r.leave(i)
		delete(r.at, r.places[i].key)
		r.places[i] = place[V]{key: k}
	}
	if !known {
		r.at[k] = i
	}
	p, ring := &r.places[i], &r.places[0]
	p.older, p.newer = ring.older, 0
	r.places[p.older].newer, ring.older = i, i
	return &p.value
}

func (r *recent[V]) leave(i int32) {
	p := &r.places[i]
	r.places[p.older].newer, r.places[p.newer].older = p.newer, p.older
}
