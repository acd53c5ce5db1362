package events

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"

	"podo.dev/podo/internal/client"
)

// SeriesWriter writes events of the newer form (events.k8s.io/v1), as upstream's scheduler does: each says what was done and to what else that is
// related. Those that differ in their text alone, of one version of an object, are one with a series; that it goes on is written when it
// begins, every half hour, and when it is over.
//
//	first ──again──► series of 2, written ──again──► counted ──half an hour──► written
//	  │                                                 └──six minutes of silence──► written, and forgotten
//	  └──six minutes──► forgotten
type SeriesWriter struct {
	queue chan *v1.Event
	last  atomic.Int64    // that names an event, in nanoseconds
	ctx   context.Context // the writer's life
	c     client.Client
	log   *slog.Logger
}

// The times and the length of the queue, which is two of a thousand there, are client-go's.
const (
	queued  = 2000
	over    = 6 * time.Minute
	renewed = 30 * time.Minute
)

// StartSeries starts a writer that acts as c's user until ctx ends; what is still queued then is dropped. log may be nil.
func StartSeries(ctx context.Context, c client.Client, log *slog.Logger) *SeriesWriter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &SeriesWriter{queue: make(chan *v1.Event, queued), ctx: ctx, c: c, log: log}
	go w.run()
	return w
}

// Series records events of one controller.
type Series struct {
	w                    *SeriesWriter
	controller, instance string
}

// Recorder is for one controller ("default-scheduler").
func (w *SeriesWriter) Recorder(controller string) *Series {
	host, _ := os.Hostname() // as client-go: without one the name ends there
	return &Series{w, controller, controller + "-" + host}
}

// Eventf records that something was done (action) about an object; related is what else it is about, or nil. It never blocks: where too many
// are queued it is dropped.
func (s *Series) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	of, err := reference.GetReference(scheme, about)
	if err != nil {
		s.w.log.Warn("an event is about nothing that can be named", "reason", reason, "err", err)
		return
	}
	e := &v1.Event{
		InvolvedObject: *of, Type: kind, Reason: reason, Action: action, Message: fmt.Sprintf(note, args...), EventTime: metav1.NowMicro(),
		ReportingController: s.controller, ReportingInstance: s.instance,
	}
	if related != nil {
		if e.Related, err = reference.GetReference(scheme, related); err != nil {
			s.w.log.Warn("an event is related to nothing that can be named", "reason", reason, "err", err)
		}
	}
	e.Namespace = of.Namespace
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	e.Name = util.GenerateEventName(of.Name, s.w.stamp(e.EventTime.UnixNano()))
	select {
	case s.w.queue <- e:
	default:
		s.w.log.Debug("an event is dropped: too many are queued", "event", e.Name, "reason", reason)
	}
}

// stamp is a time, or a little later: client-go names an event after its object and the time, which may be the same for two of them (a coarse or a
// simulated clock).
func (w *SeriesWriter) stamp(now int64) int64 {
	for {
		last := w.last.Load()
		if now <= last {
			now = last + 1
		}
		if w.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// run writes one event after the other.
func (w *SeriesWriter) run() {
	known := newSeries()
	var tick <-chan time.Time // while a series goes on
	for {
		select {
		case <-w.ctx.Done():
			return
		case e := <-w.queue:
			if out := known.correlate(e, time.Now()); out != nil {
				w.put(out)
			}
			if tick == nil && len(known.going) > 0 {
				tick = time.After(over)
			}
		case <-tick:
			for _, e := range known.due(time.Now()) {
				w.put(e)
			}
			if tick = nil; len(known.going) > 0 {
				tick = time.After(over)
			}
		}
	}
}

// put writes an event. Everybody behind it waits while nobody answers.
func (w *SeriesWriter) put(e *v1.Event) {
	deliver(w.ctx, w.log, e, func() error { return w.write(e) })
}

var newer = client.Resource{Group: "events.k8s.io", Resource: "events"}

// write stores an event, or that its series goes on. One whose time was over is made anew.
func (w *SeriesWriter) write(e *v1.Event) error {
	if e.Series != nil {
		_, err := w.c.Mutate(w.ctx, newer.At(e.Namespace, e.Name), func(o runtime.Object) (bool, error) {
			series := *e.Series
			o.(*v1.Event).Series = &series
			return true, nil
		})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := w.c.Create(w.ctx, newer.At(e.Namespace, ""), e)
	return err
}

// series are the events that may still become one with later ones.
type series struct {
	seeds seeds
	told  *recent[once]
	going map[key]*ongoing
}

// once is an event of which there is no second one yet: what a second needs of it.
type once struct {
	name string
	at   metav1.MicroTime
}

// ongoing is an event with its series.
type ongoing struct {
	event *v1.Event
	wrote time.Time
}

func newSeries() *series {
	return &series{seeds: newSeeds(), told: newRecent[once](remembered), going: map[key]*ongoing{}}
}

// correlate is what is to be written of an event now; nil: nothing.
func (s *series) correlate(e *v1.Event, now time.Time) *v1.Event {
	k := s.key(e)
	if on := s.going[k]; on != nil {
		on.event.Series.Count++
		on.event.Series.LastObservedTime = e.EventTime
		return nil
	}
	first := s.told.of(k)
	if first.name == "" || first.at.Add(over).Before(now) || len(s.going) >= remembered {
		*first = once{e.Name, e.EventTime}
		return e
	}
	e.Series = &v1.EventSeries{Count: 2, LastObservedTime: e.EventTime}
	e.Name, e.EventTime = first.name, first.at
	*first = once{}
	s.going[k] = &ongoing{e, now}
	return e
}

// due are the series that are over, which are forgotten, and those that have not been written for long.
func (s *series) due(now time.Time) (out []*v1.Event) {
	for k, on := range s.going {
		switch {
		case on.event.Series.LastObservedTime.Add(over).Before(now):
			delete(s.going, k)
		case on.wrote.Add(renewed).After(now):
			continue
		}
		on.wrote = now
		out = append(out, on.event)
	}
	return out
}

// key is of all that an event says but its text.
func (s *series) key(e *v1.Event) key {
	ref := func(o *v1.ObjectReference) []string {
		if o == nil {
			return nil
		}
		return []string{o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion, o.ResourceVersion, o.FieldPath}
	}
	return s.seeds.of([]string{e.Type, e.Action, e.Reason, e.ReportingController, e.ReportingInstance}, ref(&e.InvolvedObject), ref(e.Related))
}
