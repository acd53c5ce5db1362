package framework

// Mark is a time in the life of a cluster, for Since.
type Mark struct {
	layout uint64
	at     int
}

// maxChanges bounds how many changes of stamps are remembered.
const maxChanges = 8192

// changes are the slots whose stamps have changed, the newest last.
type changes struct {
	slots   []int32
	dropped int    // before those in slots
	layout  uint64 // grows when nodes change their slots
}

func (l *changes) changed(slot int) {
	if len(l.slots) == maxChanges {
		l.dropped += maxChanges / 2
		l.slots = append(l.slots[:0], l.slots[maxChanges/2:]...)
	}
	l.slots = append(l.slots, int32(slot))
}

func (l *changes) moved() {
	l.layout++
	l.slots, l.dropped = l.slots[:0], 0
}

// Mark is now.
func (c *Cluster) Mark() Mark { return Mark{c.log.layout, c.log.dropped + len(c.log.slots)} }

// Since are the slots whose stamps have changed since a mark, some perhaps several times; ok is false when that is not known any more.
// The answer holds until the cluster changes.
func (c *Cluster) Since(m Mark) (slots []int32, ok bool) {
	if m.layout != c.log.layout || m.at < c.log.dropped {
		return nil, false
	}
	return c.log.slots[m.at-c.log.dropped:], true
}
