// Package events records Kubernetes events through the client port. Queueing, aggregation and spam control are client-go's:
// an event is handed over without blocking, similar ones become one with a count, and too many from one object are dropped.
package events

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/client"
)

// New starts a recorder that writes as c's user until ctx ends; what is still queued then is dropped. component and host
// are the event's source ("kubelet" and the node's name, "default-scheduler" and "").
func New(ctx context.Context, c client.Client, component, host string, log *slog.Logger) record.EventRecorderLogger {
	if log != nil {
		ctx = klog.NewContext(ctx, logr.FromSlogHandler(log.Handler()))
	}
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(sink{ctx, c})
	return b.NewRecorder(scheme, v1.EventSource{Component: component, Host: host})
}

// scheme names the types of objects that carry no TypeMeta.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1.AddToScheme(s); err != nil {
		panic(err) // two types of one name in the library
	}
	return s
}()

// sink is record.EventSink over the port.
type sink struct {
	ctx context.Context // the recorder's life: client-go's interface hands none over
	c   client.Client
}

var _ record.EventSink = sink{}

// nameTries bounds how many names are tried for one event.
const nameTries = 16

// Create implements record.EventSink. client-go names an event after its object and the time to the nanosecond: two of
// one object in one instant (a coarse or a simulated clock) would share a name, so the later one gets another.
func (s sink) Create(e *v1.Event) (*v1.Event, error) {
	name := e.Name
	for try := 1; ; try++ {
		out, err := written(s.c.Create(s.ctx, client.Events.At(e.Namespace, ""), e))
		if !apierrors.IsAlreadyExists(err) || try == nameTries {
			return out, err
		}
		c := *e
		c.Name = name + "." + strconv.Itoa(try)
		e = &c
	}
}

// Update implements record.EventSink.
func (s sink) Update(e *v1.Event) (*v1.Event, error) {
	return written(s.c.Update(s.ctx, client.Events.At(e.Namespace, e.Name), e))
}

// Patch implements record.EventSink. client-go's patches of an event touch what follows from its count and nothing else, and
// come with the whole new event.
func (s sink) Patch(e *v1.Event, _ []byte) (*v1.Event, error) {
	return written(s.c.Mutate(s.ctx, client.Events.At(e.Namespace, e.Name), func(obj runtime.Object) (bool, error) {
		old := obj.(*v1.Event)
		old.Count, old.LastTimestamp, old.Message = e.Count, e.LastTimestamp, e.Message
		return true, nil
	}))
}

func written(obj runtime.Object, err error) (*v1.Event, error) {
	if err != nil {
		return nil, err
	}
	return obj.(*v1.Event), nil
}
