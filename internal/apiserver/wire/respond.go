package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// gzipFrom is the size from which answers are compressed for clients on other machines. On loopback, bytes cost less than
// compressing them.
const gzipFrom = 128 << 10

// call is one request on its way through the wire.
type call struct {
	s    *Server
	w    *response
	r    *http.Request
	info info
	kind *registry.Kind
	form form // of the answer, once there is a kind
	size int  // of the answer, where it is one piece
	warn warnings

	audited *audit.Request // nil without an audit log
}

// options are those of a write, with the query's dryRun.
func (c *call) options(dryRun []string) verbs.Options {
	return verbs.Options{DryRun: len(dryRun) > 0, Warn: c.warn.add}
}

// writer are the options of a write whose fields become owned by manager or, without one, by the program of the user agent.
func (c *call) writer(dryRun []string, manager string) verbs.Options {
	o := c.options(dryRun)
	o.Manager = manager
	if manager == "" {
		o.Manager = program(c.r.UserAgent())
	}
	return o
}

// program is the part of a user agent before the slash, without unprintable characters and no longer than a manager may be.
func program(agent string) string {
	name, _, _ := strings.Cut(agent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > metavalidation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (c *call) header() {
	for _, h := range c.warn.headers() {
		c.w.Header().Add("Warning", h)
	}
	c.warn = nil
}

// object answers with one object in the client's form.
func (c *call) object(code int, obj runtime.Object, e *view.Entry) {
	f := c.form
	if f.media == "" { // a part of an object that is served in a form of its own
		var err error
		if f, err = negotiate(c.r, true); err != nil {
			c.fail(err)
			return
		}
	}
	if c.kind != nil && c.kind.Served != nil && f.as == whole {
		obj, e = c.kind.Out(obj), nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	switch f.as {
	case table:
		t, err := newTabler(c.kind, f.in, c.r.URL.Query().Get("includeObject"), c.s.c.Now)
		if err != nil {
			c.fail(err)
			return
		}
		tab, err := t.objectTable(obj)
		if err != nil {
			c.fail(err)
			return
		}
		obj, e, gvk = tab, nil, f.in.WithKind(tableKind)
	case partial:
		obj, e, gvk = partialOf(obj, f.in), nil, f.in.WithKind(partialKind)
	case partials:
		c.fail(otherForm(partialsKind, "not a list", c.kind, ""))
		return
	}
	c.answers(obj)
	b, err := objectBody(f, gvk, obj, e)
	c.body(code, f, b, err)
}

// list answers with a list.
func (c *call) list(l *verbs.List) {
	f := c.form
	var b *body
	var err error
	switch f.as {
	case table:
		var t *tabler
		if t, err = newTabler(c.kind, f.in, c.r.URL.Query().Get("includeObject"), c.s.c.Now); err == nil {
			b, err = t.listBody(f, l)
		}
	case partial:
		err = otherForm(partialKind, "a list", c.kind, "List")
	case partials:
		b, err = objectBody(f, f.in.WithKind(partialsKind), listPartial(l, f.in), nil)
	default:
		l = shown(c.kind, l)
		b, err = listBody(f, l)
	}
	if _, told := err.(apierrors.APIStatus); told { //nolint:errorlint // made here
		c.fail(err)
		return
	}
	c.answersList(l, f, b)
	c.body(http.StatusOK, f, b, err)
}

// shown is a list in the version in which its kind is served.
func shown(k *registry.Kind, l *verbs.List) *verbs.List {
	if k.Served == nil {
		return l
	}
	out := *l
	out.Items = make([]*view.Entry, len(l.Items))
	for i, e := range l.Items {
		out.Items[i] = &view.Entry{Key: e.Key, Rev: e.Rev, Object: k.Out(e.Object), Meta: e.Meta}
	}
	return &out
}

// status answers with a metav1.Status.
func (c *call) status(code int, st *metav1.Status) {
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	c.answers(st)
	writeStatus(c.w, c.r, code, st, c.header)
}

func (c *call) fail(err error) {
	c.answers(statusOf(err))
	writeError(c.w, c.r, err, c.header)
}

func (c *call) body(code int, f form, b *body, err error) {
	if err != nil {
		c.fail(apierrors.NewInternalError(err))
		return
	}
	c.header()
	c.size = b.size
	writeBody(c.w, c.r, code, f.contentType(), b)
}

// writeBody sends an answer, compressed where that pays.
func writeBody(w http.ResponseWriter, r *http.Request, code int, contentType string, b *body) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	if b.size >= gzipFrom && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && !onLoopback(r) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		w.WriteHeader(code)
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return // an impossible level
		}
		if write(z, b) == nil {
			_ = z.Close() // the client may have gone
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(b.size))
	w.WriteHeader(code)
	joinAnswer(r)
	if r.Method != http.MethodHead {
		_ = write(w, b) // the client may have gone
	}
}

// chunk is the size up to which small pieces are gathered for one write: as many frames as are sent together. HTTP/2 wakes its
// writer and flushes at each write, so that single frames cost half as much again.
const chunk = framesAtOnce << 14

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk); return &b }}

func write(w io.Writer, b *body) error {
	if len(b.pieces) < 4 {
		for _, p := range b.pieces {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	shared := chunks.Get().(*[]byte)
	defer chunks.Put(shared)
	buf := (*shared)[:0]
	for _, p := range b.pieces {
		if len(buf)+len(p) > chunk {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if len(p) >= chunk {
			if _, err := w.Write(p); err != nil {
				return err
			}
			continue
		}
		buf = append(buf, p...)
	}
	_, err := w.Write(buf)
	return err
}

func onLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// statusOf is an error in the form that clients know.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	st := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown}
	if errors.As(err, &known) {
		st = known.Status()
		if st.Code == 0 {
			st.Code = http.StatusInternalServerError
		}
	} else {
		st.Message = err.Error()
	}
	st.Kind, st.APIVersion = "Status", "v1"
	return &st
}

func writeError(w http.ResponseWriter, r *http.Request, err error, header func()) {
	st := statusOf(err)
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	writeStatus(w, r, int(st.Code), st, header)
}

var statusGVK = schema.GroupVersionKind{Version: "v1", Kind: "Status"}

func writeStatus(w http.ResponseWriter, r *http.Request, code int, st *metav1.Status, header func()) {
	st.Kind, st.APIVersion = statusGVK.Kind, statusGVK.Version
	f, ok := formOfStatus(r)
	if !ok && code < http.StatusBadRequest { // a success has been negotiated before
		f, _ = negotiate(r, true)
		f.as, f.in, ok = whole, schema.GroupVersion{}, true
	}
	var b *body
	var err error
	if ok {
		b, err = objectBody(f, statusGVK, st, nil)
	} else { // errors are sent even to clients that do not accept the form
		f.media = jsonType
		b, err = rawStatus(st)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("encoding the answer: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if header != nil {
		header()
	}
	writeBody(w, r, code, f.contentType(), b)
}

// rawStatus is a Status in the form of upstream's server for clients that accept none: indented, without a newline.
func rawStatus(st *metav1.Status) (*body, error) {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return nil, err
	}
	var b body
	b.add(text)
	return &b, nil
}

// response remembers the status code that was sent, for metrics and for recovery from a panic. It passes on what streams need.
type response struct {
	http.ResponseWriter
	code  int
	began func(code int) // called once, before the code is sent; may be nil
}

// begin notes the code that goes out.
func (r *response) begin(code int) {
	if r.code != 0 {
		return
	}
	r.code = code
	if r.began != nil {
		r.began(code)
	}
}

func (r *response) WriteHeader(code int) {
	r.begin(code)
	r.ResponseWriter.WriteHeader(code)
}

func (r *response) Write(b []byte) (int, error) {
	r.begin(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush implements http.Flusher: the proxies ask for it by type.
func (r *response) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack implements http.Hijacker, for upgrades.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, b, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.begin(http.StatusSwitchingProtocols)
	}
	return c, b, err
}
