package events

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// client-go's defaults, which every component of a cluster keeps to: of events that differ in their message alone so many are written in
// ten minutes before they become one; a source may tell so many events of one object at once, and then one in five minutes.
const (
	remembered  = 4096
	alike       = 10
	alikeWithin = 600 // seconds
	atOnce      = 25
	perSecond   = 1. / 300.
)

// correlator makes one event with a count of many that are alike, and holds back who tells too many. It is client-go's in what it decides,
// but keeps the count without making a patch each time: most events of a large Deployment are counted and then held back.
type correlator struct {
	similar *record.EventAggregator
	spam    *record.EventSourceObjectSpamFilter
	told    *lru.Cache // said, by what client-go's aggregator calls the event
}

// said is what was written last of an event.
type said struct {
	name  string
	first metav1.Time
	count int32
}

func newCorrelator() *correlator {
	now := clock.RealClock{}
	return &correlator{
		similar: record.NewEventAggregator(remembered, record.EventAggregatorByReasonFunc, record.EventAggregatorByReasonMessageFunc, alike, alikeWithin, now),
		spam:    record.NewEventSourceObjectSpamFilter(remembered, atOnce, perSecond, now, tellerAndObject),
		told:    lru.New(remembered),
	}
}

// correlate is the event to write, under the name of the earlier one when its count is more than one, and the key for wrote; nil when
// nothing is to be written.
func (c *correlator) correlate(e *v1.Event) (event *v1.Event, key string) {
	e, key = c.similar.EventAggregate(e)
	out := *e
	if before, ok := c.told.Get(key); ok {
		b := before.(said)
		out.Name, out.FirstTimestamp, out.Count = b.name, b.first, b.count+1
	}
	c.told.Add(key, said{out.Name, out.FirstTimestamp, out.Count})
	if c.spam.Filter(&out) {
		return nil, key
	}
	return &out, key
}

// wrote takes in how the event is stored: another may have had its name.
func (c *correlator) wrote(e *v1.Event, key string) {
	c.told.Add(key, said{e.Name, e.FirstTimestamp, e.Count})
}

// tellerAndObject is whom the limit is for: a source, an object, and events of one type.
func tellerAndObject(e *v1.Event) string {
	o := &e.InvolvedObject
	return strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion, e.Type}, "\x00")
}
