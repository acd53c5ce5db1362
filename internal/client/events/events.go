// Package events records Kubernetes events through the client port. An event is handed over without blocking; similar ones become one with
// a count, and too many from one object are dropped, as client-go does it.
package events

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/client"
)

// Writer writes the events of all recorders that it has given out, one after the other. Its queue is 130 kB, whoever uses it.
type Writer struct {
	queue record.EventBroadcaster
	ctx   context.Context // the writer's life: client-go's interface hands none over
	c     client.Client
	log   *slog.Logger
}

// Start starts a writer that acts as c's user until ctx ends; what is still queued then is dropped. log may be nil.
func Start(ctx context.Context, c client.Client, log *slog.Logger) *Writer {
	if log != nil {
		ctx = klog.NewContext(ctx, logr.FromSlogHandler(log.Handler()))
	} else {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Writer{queue: record.NewBroadcaster(record.WithContext(ctx)), ctx: ctx, c: c, log: log}
	known := newCorrelator()
	w.queue.StartEventWatcher(func(e *v1.Event) { w.record(known, e) })
	return w
}

// Recorder is for one source of events: component and host are those of its events ("kubelet" and the node's name, "default-scheduler"
// and "").
func (w *Writer) Recorder(component, host string) record.EventRecorderLogger {
	return w.queue.NewRecorder(scheme, v1.EventSource{Component: component, Host: host})
}

// New is a recorder with a writer of its own.
func New(ctx context.Context, c client.Client, component, host string, log *slog.Logger) record.EventRecorderLogger {
	return Start(ctx, c, log).Recorder(component, host)
}

// scheme names the types of objects that carry no TypeMeta.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1.AddToScheme(s); err != nil {
		panic(err) // two types of one name in the library
	}
	return s
}()

// As client-go: so often is an event tried while nobody answers, and so long after one another; the first time sooner, so that not
// everybody comes back at once.
const (
	tries = 12
	pause = 10 * time.Second
)

// record writes one event, or counts it to one that is written. Everybody behind it waits while the API does not answer.
func (w *Writer) record(known *correlator, e *v1.Event) {
	e, key := known.correlate(text(e))
	if e == nil {
		return
	}
	deliver(w.ctx, w.log, e, func() error {
		out, err := w.write(e)
		if err == nil {
			known.wrote(out, key)
		}
		return err
	})
}

// text is e with a message that every client can read. A probe or a hook may write any bytes; each that is no text is shown as U+FFFD,
// as encoding it in JSON would. Readers of protobuf may refuse a list in which one string is no text.
func text(e *v1.Event) *v1.Event {
	if utf8.ValidString(e.Message) {
		return e
	}
	c := *e
	c.Message = string([]rune(e.Message))
	return &c
}

// deliver writes an event, again and again while nobody answers, until ctx ends.
func deliver(ctx context.Context, log *slog.Logger, e *v1.Event, write func() error) {
	wait := time.Duration(rand.Float64() * float64(pause))
	for try := 1; ; try++ {
		err := write()
		var answered apierrors.APIStatus
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
			log.Debug("an event is not taken", "event", e.Name, "namespace", e.Namespace, "err", err)
			return
		case errors.As(err, &answered) || try == tries:
			log.Warn("an event is lost", "event", e.Name, "namespace", e.Namespace, "reason", e.Reason, "err", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = pause
		}
	}
}

// write stores an event, new or over the earlier one with its new count. The earlier one is not read, since nodes may not read events: its
// version does not matter, and if it was deleted meanwhile, or its time was over, it is made anew.
func (w *Writer) write(e *v1.Event) (*v1.Event, error) {
	if e.Count > 1 {
		return written(w.c.Update(w.ctx, client.Events.At(e.Namespace, e.Name), e))
	}
	return w.create(e)
}

// nameTries bounds how many names are tried for one event.
const nameTries = 16

// create stores a new event. client-go names an event after its object and the time to the nanosecond: two of one object in one instant
// (a coarse or a simulated clock) would share a name, so the later one gets another.
func (w *Writer) create(e *v1.Event) (*v1.Event, error) {
	name := e.Name
	for try := 1; ; try++ {
		out, err := written(w.c.Create(w.ctx, client.Events.At(e.Namespace, ""), e))
		if !apierrors.IsAlreadyExists(err) || try == nameTries {
			return out, err
		}
		c := *e
		c.Name = name + "." + strconv.Itoa(try)
		e = &c
	}
}

func written(obj runtime.Object, err error) (*v1.Event, error) {
	if err != nil {
		return nil, err
	}
	return obj.(*v1.Event), nil
}
