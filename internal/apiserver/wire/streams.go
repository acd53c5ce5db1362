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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// log copies a container's log from its kubelet.
func (c *call) log(u user.Info) error {
	pod, err := c.pod(u)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	if err := checkLog(q); err != nil {
		return err
	}
	container, err := containerOf(pod, q.Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		c.header()
		c.w.Header().Set("Content-Type", "text/plain")
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	pass := url.Values{}
	for _, k := range []string{"follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"} {
		if v := q.Get(k); v != "" {
			pass.Set(k, v)
		}
	}
	location, err := c.kubelet(pod, fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container), pass)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, location.String(), nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	res, err := c.s.kubelets.RoundTrip(req)
	if err != nil {
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Get %q: %w", location.String(), err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return kubeletError(res, pod.Name)
	}
	if wsstream.IsWebSocketRequest(c.r) {
		// A browser's way to follow a log: one message for each piece, whole or in base64 by the protocol that it asked for.
		return wsstream.NewReader(res.Body, true, wsstream.NewDefaultReaderProtocols()).Copy(c.w, c.r)
	}
	c.header()
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusOK)
	copyFlushing(c.r.Context(), c.w, res.Body)
	return nil
}

// checkLog refuses log options that do not hold, with upstream's field names.
func checkLog(q url.Values) error {
	invalid := func(name, value, msg string) error {
		return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), "", field.ErrorList{field.Invalid(field.NewPath(name), value, msg)})
	}
	for _, k := range []struct {
		name string
		min  int64
	}{{"tailLines", 0}, {"limitBytes", 1}, {"sinceSeconds", 1}} {
		s := q.Get(k.name)
		if s == "" {
			continue
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if n < k.min {
			return invalid(k.name, s, map[int64]string{0: "must be greater than or equal to 0", 1: "must be greater than 0"}[k.min])
		}
	}
	if t := q.Get("sinceTime"); t != "" {
		if q.Get("sinceSeconds") != "" {
			return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), "", field.ErrorList{
				field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"),
			})
		}
		if _, err := time.Parse(time.RFC3339, t); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return nil
}

// kubeletError is a kubelet's refusal as the API's.
func kubeletError(res *http.Response, name string) error {
	const limit = 10 << 10
	b, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		b = []byte("unable to read server response")
	}
	text := string(b)
	switch res.StatusCode {
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(text)
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(text))
	}
	return apierrors.NewGenericServerResponse(res.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, name, text, 0, true)
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

// connect hands exec, attach and port-forward on to the kubelet. Current clients speak WebSocket to us and the runtime's
// streaming server speaks SPDY (and an older WebSocket protocol): what the two have in common passes verbatim, the rest is
// translated (exec, attach) or tunnelled (port-forward).
func (c *call) connect(u user.Info) error {
	pod, err := c.pod(u)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	flag := func(name string) bool { return q.Get(name) == "true" || q.Get(name) == "1" }
	streams := proxy.Options{Stdin: flag("stdin"), Stdout: flag("stdout"), Stderr: flag("stderr"), Tty: flag("tty")}
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
		for name, on := range map[string]bool{"input": streams.Stdin, "output": streams.Stdout, "error": streams.Stderr, "tty": streams.Tty} {
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
	c.upgrade(location, streams)
	return nil
}

func (c *call) upgrade(location *url.URL, streams proxy.Options) {
	up := utilproxy.NewUpgradeAwareHandler(location, c.s.kubelets, false, true, utilproxy.NewErrorResponder(responder{c}))
	up.UseLocationHost = true
	var h http.Handler = up
	switch {
	case c.info.Subresource == "portforward" && wsstream.IsWebSocketRequestWithTunnelingProtocol(c.r):
		h = proxy.NewTunnelingHandler(up)
	case c.info.Subresource != "portforward" && wsstream.IsWebSocketRequestWithStreamCloseProtocol(c.r):
		h = proxy.NewStreamTranslatorHandler(location, c.s.kubelets, 0, streams)
	}
	// The upgraded connection is the handler's; it needs the writer that can be hijacked.
	h.ServeHTTP(c.w, c.r)
}

// responder answers when no connection came about.
type responder struct{ c *call }

func (r responder) Error(err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		err = apierrors.NewInternalError(err)
	}
	r.c.fail(err)
}
