package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
)

const (
	// minWatch is the least that a watch without a timeout of its own lasts; it ends at random up to twice that, so that
	// clients do not all come back at once.
	minWatch = 30 * time.Minute
	// bookmarkEvery is the interval of bookmarks in an idle watch that wants them.
	bookmarkEvery = time.Minute
	// bookmarkEnd is how long before its end such a watch gets a last bookmark.
	bookmarkEnd = 2 * time.Second
	// flushFrom is how many gathered bytes are sent although more events are at hand.
	flushFrom = 64 << 10
)

// streamed is the suffix of the media type of a watch.
const streamed = ";stream=watch"

// watchWrite is how long a client may take to read what it is sent. Tests shorten it.
var watchWrite = time.Minute

// watch serves one watch until the client goes, its time is over, or the changes it needs are no longer there.
func (c *call) watch(u user.Info) error {
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	f := c.form
	if f.media == yamlType {
		return onlyThese(jsonType+streamed, protoType+streamed)
	}
	fr, gvr := &framer{form: f, kind: c.kind}, []string{c.info.GV.Group, c.info.GV.Version, c.info.Resource}
	fr.count, fr.sizes = c.s.metrics.watchEvents.WithLabelValues(gvr...), c.s.metrics.watchSizes.WithLabelValues(gvr...)
	if f.as == table {
		if fr.tabler, err = newTabler(c.kind, f.in, c.r.URL.Query().Get("includeObject"), c.s.c.Now); err != nil {
			return err
		}
	}
	s, err := c.s.c.Verbs.Watch(c.r.Context(), u, c.info.ref(), o)
	if err != nil && !toldByEvent(err, o) {
		return err
	}
	if err == nil {
		defer s.Close()
	}
	t := c.overHTTP
	if wsstream.IsWebSocketRequest(c.r) {
		t = c.overWebSocket
	}
	to, ok := t(f)
	if !ok {
		return nil
	}
	defer to.close()
	if err != nil {
		to.end(fr, err)
		return nil
	}
	c.stream(s, fr, o, to)
	return nil
}

// toldByEvent tells whether clients expect an error as an event of the stream: that a version is gone and, where they asked for
// the initial state, that their version is too new.
func toldByEvent(err error, o *internalversion.ListOptions) bool {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		return false
	}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	return known.Status().Code == http.StatusGone || initial && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// teller sends the frames of a watch to its client.
type teller struct {
	gone  context.Context // ends when the client goes
	send  func(frames []byte) error
	cut   func() // ends a send under way
	close func()
}

// overHTTP begins the answer, so that the client gets its headers before the first event.
func (c *call) overHTTP(f form) (teller, bool) {
	contentType := jsonType
	if f.media == protoType {
		contentType = protoType + streamed
	}
	c.header()
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	c.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(c.w)
	_ = out.Flush()
	send := func(frames []byte) error {
		if _, err := c.w.Write(frames); err != nil {
			return err
		}
		return out.Flush()
	}
	cut := func() { _ = out.SetWriteDeadline(time.Now()) } // writers of tests have no deadlines
	return teller{gone: c.r.Context(), send: send, cut: cut, close: func() {}}, true
}

func (t *teller) end(fr *framer, err error) {
	if b, encErr := fr.status(nil, statusOf(err)); encErr == nil {
		_ = t.send(b) // the client has gone: nobody to tell
	}
}

// lifetime is how long a watch lasts. A negative timeout is answered and ends at once.
func lifetime(o *internalversion.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	return time.Duration(float64(minWatch) * (1 + rand.Float64())) //nolint:gosec // spreading load, not hiding anything
}

// stream copies events to the client; everything at hand goes out in one write.
func (c *call) stream(s *verbs.Stream, fr *framer, o *internalversion.ListOptions, to teller) {
	life := lifetime(o)
	ctx, cancel := context.WithTimeout(to.gone, life)
	defer cancel()
	if closing, _ := ctx.Value(closingKey{}).(context.Context); closing != nil {
		defer context.AfterFunc(closing, cancel)()
	}
	marks := newMarks(s, life)
	defer marks.end()
	// A client that does not read is cut off after this time, and until then holds one buffer.
	writing := newPatience(c.s.patience, to.cut)
	defer writing.stop()
	var buf []byte
	var told int64
	ready := s.Ready()
	for {
		// Hundreds of watches of one kind wake at each change, so that every case of this select counts.
		select {
		case <-ctx.Done():
			return
		case <-marks.due:
			marks.next()
			buf = c.bookmark(s, fr, buf, &told)
		case <-ready:
			var err error
			if buf, err = c.next(ctx, s, fr, buf); err != nil {
				if ctx.Err() == nil && !errors.Is(err, errNoList) {
					writing.begin()
					to.end(fr, err)
				}
				return
			}
			ready = s.Ready()
			if len(buf) < flushFrom && isClosed(ready) {
				continue
			}
		}
		if len(buf) == 0 {
			continue
		}
		writing.begin()
		if to.send(buf) != nil {
			return
		}
		writing.end()
		if cap(buf) > 4*flushFrom {
			buf = nil // after a burst, do not keep its memory while the watch may be idle
		}
		buf = buf[:0]
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// marks are the times at which a watch that wants bookmarks is due one: periodically, and shortly before its end.
type marks struct {
	due   <-chan time.Time // nil: never
	timer *time.Timer
	last  time.Time
}

func newMarks(s *verbs.Stream, life time.Duration) *marks {
	m := &marks{}
	if s.Bookmarks() {
		m.last = time.Now().Add(life - min(bookmarkEnd, life/2))
		m.timer = time.NewTimer(m.pause())
		m.due = m.timer.C
	}
	return m
}

func (m *marks) pause() time.Duration {
	if left := time.Until(m.last); left > 0 {
		return min(bookmarkEvery, left)
	}
	return bookmarkEvery // the watch ends before
}

func (m *marks) next() { m.timer.Reset(m.pause()) }

func (m *marks) end() {
	if m.timer != nil {
		m.timer.Stop()
	}
}

// next appends the frames of the next events.
func (c *call) next(ctx context.Context, s *verbs.Stream, fr *framer, buf []byte) ([]byte, error) {
	events, err := s.Next(ctx)
	if err != nil {
		return buf, err
	}
	fr.count.Add(float64(len(events)))
	for i := range events {
		before := len(buf)
		if buf, err = fr.event(buf, &events[i]); err != nil {
			return buf, err
		}
		fr.sizes.Observe(float64(len(buf) - before))
	}
	return buf, nil
}

func (c *call) bookmark(s *verbs.Stream, fr *framer, buf []byte, told *int64) []byte {
	rev := s.Progress()
	if rev <= *told {
		return buf
	}
	e := s.Bookmark(rev)
	b, err := fr.event(buf, &e)
	if err != nil {
		return buf
	}
	*told = rev
	return b
}

// errNoList ends a watch that asked for its objects as lists. As upstream has it, the answer is 200 and ends silently at the
// first object; errors before that are sent.
var errNoList = errors.New("an object of a watch is not a list")

// framer turns events into bytes of one media type.
//
//	JSON:     {"type":"ADDED","object":{...}}\n
//	protobuf: length (4 bytes, big endian), then a WatchEvent: type (1), a RawExtension (2) whose raw (1) is the enveloped object
type framer struct {
	form   form
	kind   *registry.Kind
	tabler *tabler
	count  prometheus.Counter  // of events
	sizes  prometheus.Observer // of each, in bytes
}

func (f *framer) event(buf []byte, e *verbs.Event) ([]byte, error) {
	obj, entry := e.Object, e.Entry
	if f.kind != nil && f.kind.Served != nil && f.form.as == whole {
		obj, entry = f.kind.Out(obj), nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	switch f.form.as {
	case table:
		var err error
		if obj, err = f.tabler.objectTable(obj); err != nil {
			return buf, err
		}
		entry, gvk = nil, f.form.in.WithKind(tableKind)
	case partials:
		return buf, errNoList
	case partial:
		obj, entry, gvk = partialOf(obj, f.form.in), nil, f.form.in.WithKind(partialKind)
	}
	bytesOf := objectBytes
	if e.Ended && entry != nil {
		bytesOf = endedBytes
	}
	raw, err := bytesOf(f.form.media, obj, entry)
	if err != nil {
		return buf, err
	}
	return f.frame(buf, e.Type, gvk, raw), nil
}

func (f *framer) status(buf []byte, st *metav1.Status) ([]byte, error) {
	var raw []byte
	var err error
	if f.form.media == protoType {
		raw, err = st.Marshal()
	} else {
		raw, err = json.Marshal(st)
	}
	if err != nil {
		return buf, err
	}
	return f.frame(buf, watch.Error, statusGVK, raw), nil
}

func (f *framer) frame(buf []byte, typ watch.EventType, gvk schema.GroupVersionKind, raw []byte) []byte {
	if f.form.media != protoType {
		buf = append(buf, `{"type":"`...)
		buf = append(buf, typ...)
		buf = append(buf, `","object":`...)
		buf = append(buf, raw...)
		return append(buf, "}\n"...)
	}
	object := envelopeLen(gvk, len(raw))
	ext := fieldLen(object)
	size := fieldLen(len(typ)) + fieldLen(ext)
	buf = binary.BigEndian.AppendUint32(buf, uint32(size))
	buf = append(buf, 0x0a)
	buf = appendUvarint(buf, len(typ))
	buf = append(buf, typ...)
	buf = append(buf, 0x12)
	buf = appendUvarint(buf, ext)
	buf = append(buf, 0x0a)
	buf = appendUvarint(buf, object)
	buf = appendEnvelopeHead(buf, gvk, len(raw))
	buf = append(buf, raw...)
	return append(buf, protoTail...)
}
