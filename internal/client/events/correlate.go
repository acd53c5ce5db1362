package events

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client-go's defaults, which every component of a cluster keeps to: of events that differ in their message alone so many are written in
// ten minutes before they become one; a source may tell so many events of one object at once, and then one in five minutes.
const (
	remembered  = 4096
	alike       = 10
	alikeWithin = 10 * time.Minute
	atOnce      = 25
	perSecond   = 1. / 300.
)

// correlator makes one event with a count of many that are alike, and holds back who tells too many. What it decides is what client-go's
// decides; but it counts without making a patch each time, since most events of a large Deployment are counted and then held back, and what
// it remembers of each event is some hundred bytes, since every pod has a few.
type correlator struct {
	seeds   seeds
	similar *recent[similar]
	told    *recent[said]
	limits  *recent[limit]
}

// similar are events that differ in their message alone.
type similar struct {
	messages []uint64 // hashes, fewer than alike
	last     time.Time
}

// said is what was written last of an event; count 0 is nothing yet.
type said struct {
	name  string
	first metav1.Time
	count int32
}

// limit is how many events a source may still tell of an object.
type limit struct {
	left float64
	at   time.Time // zero: it has told none
}

func newCorrelator() *correlator {
	return &correlator{
		seeds: newSeeds(), similar: newRecent[similar](remembered), told: newRecent[said](remembered),
		limits: newRecent[limit](remembered),
	}
}

// correlate is the event to write, under the name of the earlier one when its count is more than one, and the key for wrote; nil when
// nothing is to be written.
func (c *correlator) correlate(e *v1.Event) (event *v1.Event, k key) {
	now := time.Now()
	out, k := c.combine(e, now)
	s := c.told.of(k)
	if s.count > 0 {
		out.Name, out.FirstTimestamp, out.Count = s.name, s.first, s.count+1
	}
	*s = said{out.Name, out.FirstTimestamp, out.Count}
	if !c.limits.of(c.of(e, e.Type)).take(now) {
		return nil, k
	}
	return &out, k
}

// wrote takes in how the event is stored: another may have had its name.
func (c *correlator) wrote(e *v1.Event, k key) {
	*c.told.of(k) = said{e.Name, e.FirstTimestamp, e.Count}
}

// combine is the event itself, or one that stands for all that are similar when there have been too many, and the key under which it counts.
func (c *correlator) combine(e *v1.Event, now time.Time) (v1.Event, key) {
	kin := c.of(e, e.Type, e.Reason, e.ReportingController, e.ReportingInstance)
	s := c.similar.of(kin)
	if now.Sub(s.last) > alikeWithin {
		s.messages = nil
	}
	s.last = now
	if m := c.of(e, e.Message)[0]; !slices.Contains(s.messages, m) {
		s.messages = append(s.messages, m)
	}
	if len(s.messages) < alike {
		return *e, c.of(e, e.Type, e.Reason, e.InvolvedObject.FieldPath, e.Message)
	}
	s.messages = slices.Delete(s.messages, 0, 1)
	at := metav1.NewTime(now)
	return v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%v.%x", e.InvolvedObject.Name, now.UnixNano()), Namespace: e.Namespace},
		Count:      1, FirstTimestamp: at, LastTimestamp: at, InvolvedObject: e.InvolvedObject, Source: e.Source, Type: e.Type, Reason: e.Reason,
		Message: "(combined from similar events): " + e.Message,
	}, kin
}

func (l *limit) take(now time.Time) bool {
	if l.at.IsZero() {
		l.left = atOnce
	} else {
		l.left = min(atOnce, l.left+now.Sub(l.at).Seconds()*perSecond)
	}
	l.at = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}

// of is the key of a source, an object and some more.
func (c *correlator) of(e *v1.Event, more ...string) key {
	o := &e.InvolvedObject
	return c.seeds.of([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, more)
}

// key stands for texts. That two are the same by chance does not happen.
type key [2]uint64

type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

func (s *seeds) of(lists ...[]string) (k key) {
	for i, seed := range s {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, list := range lists {
			for _, text := range list {
				h.WriteString(text) //nolint:errcheck // never fails
				h.WriteByte(0)      //nolint:errcheck // never fails
			}
		}
		k[i] = h.Sum64()
	}
	return k
}
