package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"podo.dev/podo/internal/streams"
)

// log copies a container's log from its kubelet.
func (c *call) log(u user.Info) error {
	o, wrong := logOptions(c.r.URL.Query(), c.info.Name)
	pod, err := c.pod(u)
	switch {
	case wrong != nil && !apierrors.IsForbidden(err):
		return wrong
	case err != nil:
		return err
	}
	container, err := containerOf(pod, o.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		c.header()
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	location, err := c.kubelet(pod, fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container), logQuery(o))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, location.String(), nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	kubelets := c.s.kubelets
	if o.InsecureSkipTLSVerifyBackend {
		kubelets = c.s.unverified
	}
	res, err := kubelets.RoundTrip(req)
	if err != nil {
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Get %q: %w", location.String(), err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return kubeletError(res, pod.Name)
	}
	if wsstream.IsWebSocketRequest(c.r) {
		// The browser's way to follow a log: one message for each piece, as it is or in base64, depending on the protocol.
		return wsstream.NewReader(res.Body, true, wsstream.NewDefaultReaderProtocols()).Copy(c.w, c.r)
	}
	c.header()
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusOK)
	copyFlushing(c.r.Context(), c.w, res.Body)
	return nil
}

// logOptions reads a query as options for the log of a pod, and validates them. A flag is set by any value other than "0" and
// "false", and of repeated parameters the first counts, as in all queries.
func logOptions(q url.Values, name string) (*v1.PodLogOptions, error) {
	o := &v1.PodLogOptions{
		Container: q.Get("container"), Follow: asked(q["follow"]), Previous: asked(q["previous"]), Timestamps: asked(q["timestamps"]),
		InsecureSkipTLSVerifyBackend: asked(q["insecureSkipTLSVerifyBackend"]),
	}
	if since := q["sinceTime"]; len(since) > 0 {
		o.SinceTime = &metav1.Time{}
		if err := o.SinceTime.UnmarshalQueryParameter(since[0]); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	for _, number := range []struct {
		name string
		into **int64
	}{{"sinceSeconds", &o.SinceSeconds}, {"tailLines", &o.TailLines}, {"limitBytes", &o.LimitBytes}} {
		if !q.Has(number.name) {
			continue
		}
		n, err := strconv.ParseInt(q.Get(number.name), 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		*number.into = &n
	}
	var errs field.ErrorList
	if n := o.TailLines; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n, "must be greater than or equal to 0"))
	}
	if n := o.LimitBytes; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *n, "must be greater than 0"))
	}
	switch n := o.SinceSeconds; {
	case n != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case n != nil && *n < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *n, "must be greater than 0"))
	}
	if q.Has("stream") { // its feature gate is off
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), name, errs)
	}
	return o, nil
}

// logQuery is what a kubelet is asked.
func logQuery(o *v1.PodLogOptions) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	return q
}

// kubeletError is a kubelet's error as an API error.
func kubeletError(res *http.Response, name string) error {
	const limit = 50000
	b, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	text := string(b)
	switch res.StatusCode {
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(text)
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(text))
	}
	return apierrors.NewGenericServerResponse(res.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, name, text, 0, false)
}

// copyFlushing sends what comes as it comes.
func copyFlushing(ctx context.Context, w http.ResponseWriter, from io.Reader) {
	out := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			if out.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// errNoDryRun refuses a dry run of a connection, whose effects cannot be undone.
func errNoDryRun() error { return apierrors.NewBadRequest("dryRun is not supported") }

// connect passes exec, attach and port-forward on to the kubelet. Current clients speak WebSocket, and the runtime's streaming
// server speaks SPDY (and an older WebSocket protocol). What both know is passed on verbatim; the rest is translated (exec,
// attach) or tunnelled (port-forward).
func (c *call) connect(u user.Info) error {
	q := c.r.URL.Query()
	pod, err := c.pod(u)
	switch {
	case q.Has("dryRun") && !apierrors.IsForbidden(err):
		return errNoDryRun()
	case err != nil:
		return err
	}
	flag := func(name string) bool { return asked(q[name]) }
	o := streams.Options{Stdin: flag("stdin"), Stdout: flag("stdout"), Stderr: flag("stderr"), TTY: flag("tty")}
	pass := url.Values{}
	path := fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name)
	if c.info.Subresource == "portforward" {
		for _, p := range q["ports"] {
			pass.Add("port", p)
		}
	} else {
		container, err := containerOf(pod, q.Get("container"))
		if err != nil {
			return err
		}
		path = fmt.Sprintf("/%s/%s/%s/%s", c.info.Subresource, pod.Namespace, pod.Name, container)
		for name, on := range map[string]bool{"input": o.Stdin, "output": o.Stdout, "error": o.Stderr, "tty": o.TTY} {
			if on {
				pass.Set(name, "1")
			}
		}
		if c.info.Subresource == "exec" {
			pass["command"] = q["command"]
		}
	}
	location, err := c.kubelet(pod, path, pass)
	if err != nil {
		return err
	}
	c.upgrade(location, o)
	return nil
}

func (c *call) upgrade(location *url.URL, o streams.Options) {
	up := utilproxy.NewUpgradeAwareHandler(location, c.s.kubelets, false, true, utilproxy.NewErrorResponder(responder{c}))
	up.UseLocationHost = true
	var h http.Handler = up
	switch {
	case c.info.Subresource == "portforward" && wsstream.IsWebSocketRequestWithTunnelingProtocol(c.r):
		h = proxy.NewTunnelingHandler(up)
	case c.info.Subresource != "portforward" && wsstream.IsWebSocketRequestWithStreamCloseProtocol(c.r):
		h = streams.Handler{Location: location, Transport: c.s.kubelets, Options: o}
	}
	// The upgraded connection is the handler's, which needs the writer that can be hijacked.
	h.ServeHTTP(c.w, c.r)
}

// responder answers when no connection was made.
type responder struct{ c *call }

func (r responder) Error(err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		err = apierrors.NewInternalError(err)
	}
	r.c.fail(err)
}
