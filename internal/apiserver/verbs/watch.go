package verbs

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// initialAtOnce is how many events of the initial state are returned together: their readers hold their encodings.
const initialAtOnce = 100

// Event is one line of a watch.
type Event struct {
	Type watch.EventType
	// Object is read-only and may be shared.
	Object runtime.Object
	// Entry is set when Object is the published object, or with Ended, so that its cached encodings can be used.
	Entry *view.Entry
	// Ended says that Object is Entry's object at the revision at which it ended for this watch. All watches share that form,
	// since the revision is that of the object's next write, whichever it is.
	Ended bool
}

// Stream turns the view's changes of a resource into the events of one watch.
type Stream struct {
	Kind      *registry.Kind
	selector  selector
	w         *view.Watcher
	view      *view.View
	initial   []Event // the state that the watch starts with
	bookmarks bool
}

// Watch starts a watch. Without a resourceVersion, or with "0", and at any version with sendInitialEvents, it begins with an
// ADDED event for each existing object. A client that accepts bookmarks is told the end of these by an annotated one.
func (v *Verbs) Watch(ctx context.Context, u user.Info, ref client.Ref, o *internalversion.ListOptions) (*Stream, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, u, "watch", named(ref, o), o.FieldSelector); err != nil {
		return nil, err
	}
	o = withWatch(o)
	if errs := listvalidation.ValidateListOptions(o, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	s := &Stream{Kind: k, view: v.c.View, bookmarks: o.AllowWatchBookmarks}
	if s.selector, err = newSelector(k, ref.Namespace, o); err != nil {
		return nil, err
	}
	revision, err := parseRev(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if revision == 0 || initial {
		l, err := v.stateFor(ctx, k, s.selector, o, revision)
		if err != nil {
			return nil, err
		}
		revision = l.Rev
		if initial {
			for _, e := range l.Items {
				s.initial = append(s.initial, Event{Type: watch.Added, Object: e.Object, Entry: e})
			}
		}
		if initial && o.AllowWatchBookmarks {
			b := s.Bookmark(l.Rev)
			accessor(b.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			s.initial = append(s.initial, b)
		}
	}
	if s.w, err = v.c.View.Watch(k.Stored().GroupResource(), revision); err != nil {
		return nil, watchError(err, revision, v.c.View.Snapshot().Rev())
	}
	return s, nil
}

func withWatch(o *internalversion.ListOptions) *internalversion.ListOptions {
	c := *o
	c.Watch = true
	internalversion.SetListOptionsDefaults(&c, true)
	return &c
}

// stateFor reads what a watch starts with.
func (v *Verbs) stateFor(ctx context.Context, k *registry.Kind, sel selector, o *internalversion.ListOptions, revision int64) (*List, error) {
	p := page{selector: sel}
	if k.NotCached {
		return v.listStore(ctx, p, 0)
	}
	var s view.Snapshot
	var err error
	switch {
	case revision > 0:
		s, err = v.atLeast(ctx, revision)
	case o.ResourceVersion == "":
		if s, err = v.c.View.Fresh(ctx); err != nil {
			err = viewError(err)
		}
	default:
		s = v.c.View.Snapshot()
	}
	if err != nil {
		return nil, err
	}
	l := p.take(s)
	return l, v.unread(&p, l)
}

func watchError(err error, asked, current int64) error {
	if errors.Is(err, view.ErrGone) {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", asked, current))
	}
	return viewError(err)
}

// Next blocks until there are events. No events and no error means that time has passed without any for this watch.
func (s *Stream) Next(ctx context.Context) ([]Event, error) {
	if n := min(len(s.initial), initialAtOnce); n > 0 {
		out := s.initial[:n]
		if s.initial = s.initial[n:]; len(s.initial) == 0 {
			s.initial = nil // which holds them all
		}
		return out, nil
	}
	changes, _, err := s.w.Next(ctx)
	if err != nil {
		if errors.Is(err, view.ErrGone) {
			err = watchError(err, s.w.Progress(), s.view.Snapshot().Rev())
		}
		return nil, err
	}
	var out []Event
	for i := range changes {
		if e, ok := s.event(&changes[i]); ok {
			out = append(out, e)
		}
	}
	return out, nil
}

// event is what a change means to a watch of selected objects: one that begins to match is added, one that no longer matches is
// deleted.
func (s *Stream) event(c *view.Change) (Event, bool) {
	was, is := s.selector.matches(c.Old), s.selector.matches(c.New)
	switch {
	case is && was:
		return Event{Type: watch.Modified, Object: c.New.Object, Entry: c.New}, true
	case is:
		return Event{Type: watch.Added, Object: c.New.Object, Entry: c.New}, true
	case was:
		return Event{Type: watch.Deleted, Object: withRev(c.Old.Object, formatRev(c.Rev)), Entry: c.Old, Ended: true}, true
	}
	return Event{}, false
}

// Ready is closed when Next would not block. Take it anew after each Next.
func (s *Stream) Ready() <-chan struct{} {
	if s.initial != nil {
		return closed
	}
	return s.w.Ready()
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Progress is the revision up to which everything has been delivered; 0 during the initial state, since a client that resumed
// from a bookmark then would miss the rest of it.
func (s *Stream) Progress() int64 {
	if s.initial != nil {
		return 0
	}
	return s.w.Progress()
}

// Bookmarks says that the client wants them.
func (s *Stream) Bookmarks() bool { return s.bookmarks }

// Bookmark is an event that says only how far the watch is.
func (s *Stream) Bookmark(rev int64) Event {
	obj := s.Kind.New()
	obj.GetObjectKind().SetGroupVersionKind(s.Kind.Stored().GVK)
	accessor(obj).SetResourceVersion(formatRev(rev))
	return Event{Type: watch.Bookmark, Object: obj}
}

// Close ends the watch.
func (s *Stream) Close() { s.w.Close() }
