package recorder

import (
	"cmp"
	"container/list"
	"slices"

	"podo.dev/podo/internal/timeline"
)

// memory holds pods' records within bounds. live is ordered by last record, done by the time of deletion; eviction takes the
// front of done, then the front of live.
type memory struct {
	perPod, total int
	count         int
	logs          map[timeline.PodRef]*podLog
	byName        map[timeline.PodRef][]*podLog // UID empty
	live, done    *list.List
	words         *words
}

func newMemory(perPod, total int) *memory {
	return &memory{
		perPod: perPod, total: total, logs: map[timeline.PodRef]*podLog{}, byName: map[timeline.PodRef][]*podLog{},
		live: list.New(), done: list.New(), words: newWords(),
	}
}

func (m *memory) add(r timeline.Record) {
	l := m.logOf(r.Pod)
	switch {
	case l.head.n < m.perPod/4:
		l.head.add(m.words, r)
		m.count++
	case l.tail.n < m.perPod-m.perPod/4:
		l.tail.add(m.words, r)
		m.count++
	default:
		l.tail.dropFirst()
		l.tail.add(m.words, r)
	}
	switch {
	case l.finished:
	case r.Stage == timeline.Deleted:
		l.finished = true
		m.live.Remove(l.place)
		l.place = m.done.PushBack(l)
	default:
		m.live.MoveToBack(l.place)
	}
	for m.count > m.total {
		m.evict(l)
	}
}

// logOf finds or makes a pod's log. Records from before the pod had a UID are taken over by the first log that has one.
func (m *memory) logOf(pod timeline.PodRef) *podLog {
	if l := m.logs[pod]; l != nil {
		return l
	}
	name := timeline.PodRef{Namespace: pod.Namespace, Name: pod.Name}
	if l := m.logs[name]; l != nil && pod.UID != "" {
		delete(m.logs, name)
		l.pod = pod
		m.logs[pod] = l
		return l
	}
	l := &podLog{pod: pod}
	l.place = m.live.PushBack(l)
	m.logs[pod] = l
	m.byName[name] = append(m.byName[name], l)
	return l
}

// evict drops one pod's records, but never those of keep.
func (m *memory) evict(keep *podLog) {
	for _, from := range []*list.List{m.done, m.live} {
		for e := from.Front(); e != nil; e = e.Next() {
			if l := e.Value.(*podLog); l != keep {
				m.drop(l, from)
				return
			}
		}
	}
	// Only keep is left: total >= perPod makes that impossible.
	panic("timeline recorder: one pod is over the bound of all")
}

func (m *memory) drop(l *podLog, from *list.List) {
	from.Remove(l.place)
	m.count -= l.len()
	delete(m.logs, l.pod)
	name := timeline.PodRef{Namespace: l.pod.Namespace, Name: l.pod.Name}
	rest := slices.DeleteFunc(m.byName[name], func(x *podLog) bool { return x == l })
	if len(rest) == 0 {
		delete(m.byName, name)
		return
	}
	m.byName[name] = rest
}

// records selects in order of Seq. A query by UID also finds that pod's records from before it had one.
func (m *memory) records(q timeline.Query) []timeline.Record {
	var out []timeline.Record
	uid := q.UID
	q.UID = ""
	visit := func(l *podLog) {
		if uid != "" && l.pod.UID != uid {
			return
		}
		l.each(m.words, func(r timeline.Record) {
			if q.Match(r) {
				out = append(out, r)
			}
		})
	}
	if q.Namespace != "" && q.Name != "" {
		for _, l := range m.byName[timeline.PodRef{Namespace: q.Namespace, Name: q.Name}] {
			visit(l)
		}
	} else {
		for _, l := range m.logs {
			visit(l)
		}
	}
	slices.SortFunc(out, func(a, b timeline.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}
