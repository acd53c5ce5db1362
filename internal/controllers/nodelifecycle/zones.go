package nodelifecycle

import "time"

// State is how a zone fares. It decides how fast its nodes' pods are given up:
//
//	Normal   one node in 10 s
//	Partial  more than two nodes, and 55 % of all, are not ready: one in 100 s in a zone of more than 50 nodes, none in a smaller one
//	Full     no node is ready: one in 10 s, unless all zones are like this. Then it is rather we who are cut off than they: nothing is
//	         given up, and what has been tainted is forgiven
type State int

// The states of a zone.
const (
	Normal State = iota
	Partial
	Full
)

const (
	usualPause    = 10 * time.Second
	carefulPause  = 100 * time.Second
	largeZone     = 50
	unhealthyPart = 0.55
)

// Zones knows of every node whether it is ready, and says whose pods may be given up now.
type Zones struct {
	nodes map[string]place
	zones map[string]*zone
	lost  bool // every zone is Full
}

type place struct {
	zone  string
	ready bool
}

type zone struct {
	ready, unready int
	state          State
	free           time.Time // when the next node may be given up
}

// NewZones makes one that knows no node.
func NewZones() *Zones { return &Zones{nodes: map[string]place{}, zones: map[string]*zone{}} }

// Lost says that no node at all is ready.
func (z *Zones) Lost() bool { return z.lost }

// Set takes in how a node is. changed says that others' pods may be given up at another pace from now on.
func (z *Zones) Set(node, in string, ready bool, now time.Time) (changed bool) {
	is := place{in, ready}
	had, known := z.nodes[node]
	if known && had == is {
		return false
	}
	if known {
		changed = z.count(had, -1, now)
	}
	z.nodes[node] = is
	changed = z.count(is, 1, now) || changed
	return z.judge() || changed
}

// Drop forgets a node.
func (z *Zones) Drop(node string, now time.Time) (changed bool) {
	had, known := z.nodes[node]
	if !known {
		return false
	}
	delete(z.nodes, node)
	changed = z.count(had, -1, now)
	return z.judge() || changed
}

// Each calls f for every zone, which has a node at least.
func (z *Zones) Each(f func(zone string, ready, unready int)) {
	for name, zn := range z.zones {
		f(name, zn.ready, zn.unready)
	}
}

// Unready are the nodes that are not ready.
func (z *Zones) Unready() (out []string) {
	for name, p := range z.nodes {
		if !p.ready {
			out = append(out, name)
		}
	}
	return out
}

func (z *Zones) count(p place, by int, now time.Time) (changed bool) {
	zn := z.zones[p.zone]
	if zn == nil {
		zn = &zone{}
		z.zones[p.zone] = zn
	}
	if p.ready {
		zn.ready += by
	} else {
		zn.unready += by
	}
	if zn.ready+zn.unready == 0 {
		delete(z.zones, p.zone)
		return true
	}
	was := zn.state
	zn.state = stateOf(zn.ready, zn.unready)
	if zn.state == was {
		return false
	}
	// At the new pace, a long pause of the old one is none.
	if pause, may := zn.pause(); may && zn.free.Sub(now) > pause {
		zn.free = now.Add(pause)
	}
	return true
}

func (z *Zones) judge() (changed bool) {
	lost := len(z.zones) > 0
	for _, zn := range z.zones {
		lost = lost && zn.state == Full
	}
	changed, z.lost = lost != z.lost, lost
	return changed
}

func stateOf(ready, unready int) State {
	switch {
	case ready == 0 && unready > 0:
		return Full
	case unready > 2 && float64(unready) >= unhealthyPart*float64(ready+unready):
		return Partial
	}
	return Normal
}

// pause is the time between two nodes; false when none may be given up.
func (zn *zone) pause() (time.Duration, bool) {
	switch {
	case zn.state != Partial:
		return usualPause, true
	case zn.ready+zn.unready > largeZone:
		return carefulPause, true
	}
	return 0, false
}

// GiveUp takes a node's turn: whether its pods may be given up now, and otherwise when to ask again; 0 when that is only of use
// after a change.
func (z *Zones) GiveUp(node string, now time.Time) (ok bool, wait time.Duration) {
	p, known := z.nodes[node]
	if !known { // one that its label keeps out of this count
		return !z.lost, 0
	}
	zn := z.zones[p.zone]
	pause, may := zn.pause()
	switch {
	case z.lost || !may:
		return false, 0
	case now.Before(zn.free):
		return false, zn.free.Sub(now)
	}
	zn.free = now.Add(pause)
	return true, 0
}
