package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// special serves subresources that are not a part of the object. It reports whether it has answered.
func (c *call) special(u user.Info) bool {
	if c.kind.Resource != "pods" || c.kind.GVK.Group != "" || c.info.Name == "" {
		return false
	}
	var serve func(user.Info) error
	var methods []string
	switch c.info.Subresource {
	case "binding":
		serve, methods = c.bind, []string{http.MethodPost}
	case "eviction":
		serve, methods = c.evict, []string{http.MethodPost}
	case "log":
		serve, methods = c.log, []string{http.MethodGet}
	case "exec", "attach", "portforward":
		serve, methods = c.connect, []string{http.MethodGet, http.MethodPost}
	default:
		return false
	}
	if !slices.Contains(methods, c.r.Method) {
		c.fail(statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource"))
		return true
	}
	if err := serve(u); err != nil {
		c.fail(err)
	}
	return true
}

var bindingGVK = v1.SchemeGroupVersion.WithKind("Binding")

// bind also serves POST .../bindings, where the name is the object's.
func (c *call) bind(u user.Info) error {
	var o metav1.CreateOptions
	o.Kind = "CreateOptions"
	if err := params(c.r.URL.Query(), &o, metavalidation.ValidateCreateOptions); err != nil {
		return err
	}
	b := &v1.Binding{}
	if err := c.decode(bindingGVK, b, o.FieldValidation); err != nil {
		return err
	}
	if c.info.Name != "" {
		if b.Name != "" && b.Name != c.info.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", b.Name, c.info.Name))
		}
		b.Name = c.info.Name
	}
	if b.Namespace != "" && b.Namespace != c.info.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", b.Namespace, c.info.Namespace))
	}
	b.Namespace = c.info.Namespace
	if err := c.s.c.Verbs.Bind(c.r.Context(), u, b, c.options(o.DryRun)); err != nil {
		return err
	}
	c.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// evict deletes a pod as an eviction asks. Disruption budgets are not served yet, so none can forbid it.
func (c *call) evict(u user.Info) error {
	e := &policyv1.Eviction{}
	if err := c.decode(policyv1.SchemeGroupVersion.WithKind("Eviction"), e, metav1.FieldValidationIgnore); err != nil {
		return err
	}
	if e.Name != "" && e.Name != c.info.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	ref := c.info.ref()
	if err := c.s.c.Verbs.Authorize(c.r.Context(), u, "create", ref); err != nil {
		return err
	}
	ref.Subresource = ""
	o := e.DeleteOptions
	if o == nil {
		o = &metav1.DeleteOptions{}
	}
	if _, _, err := c.s.c.Verbs.Delete(c.r.Context(), u, ref, o, c.options(o.DryRun)); err != nil {
		return err
	}
	c.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// pod reads the pod that a connection is for, once the user may make it. The kubelet works on what it has been told, so what the
// view has is new enough unless the pod is not there yet.
func (c *call) pod(u user.Info) (*v1.Pod, error) {
	ctx, ref := c.r.Context(), c.info.ref()
	if err := c.s.c.Verbs.Authorize(ctx, u, c.info.Verb, ref); err != nil {
		return nil, err
	}
	if c.info.Verb == "get" && c.info.Subresource != "log" {
		// A WebSocket starts with a GET, but what follows is no reading.
		if err := c.s.c.Verbs.Authorize(ctx, u, "create", ref); err != nil {
			return nil, err
		}
	}
	return c.s.c.Verbs.Pod(ctx, ref.Namespace, ref.Name)
}

// containerOf picks the container that a request means; "" means the only one.
func containerOf(pod *v1.Pod, name string) (string, error) {
	names := func(list []v1.Container) string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = list[i].Name
		}
		return strings.Join(out, " ")
	}
	if name == "" {
		switch len(pod.Spec.Containers) {
		case 1:
			return pod.Spec.Containers[0].Name, nil
		case 0:
			return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
		}
		msg := fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", pod.Name, names(pod.Spec.Containers))
		if len(pod.Spec.InitContainers) > 0 {
			msg += fmt.Sprintf(" or one of the init containers: [%s]", names(pod.Spec.InitContainers))
		}
		return "", apierrors.NewBadRequest(msg)
	}
	is := func(c v1.Container) bool { return c.Name == name }
	if slices.ContainsFunc(pod.Spec.Containers, is) || slices.ContainsFunc(pod.Spec.InitContainers, is) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name }) {
		return name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}

// kubelet is where a node's kubelet answers, and how it is spoken to.
func (c *call) kubelet(pod *v1.Pod, path string, q url.Values) (*url.URL, error) {
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	node, err := c.s.c.Verbs.Node(c.r.Context(), pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	host := ""
	for _, a := range node.Status.Addresses {
		if a.Type == v1.NodeInternalIP || host == "" && a.Type == v1.NodeHostName {
			host = a.Address
			if a.Type == v1.NodeInternalIP {
				break
			}
		}
	}
	if host == "" {
		return nil, apierrors.NewInternalError(fmt.Errorf("node %s has no InternalIP address yet", node.Name))
	}
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = c.s.c.KubeletPort
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: path, RawQuery: q.Encode()}, nil
}

// kubeletTransport speaks HTTP/1.1, because upgrades do.
func kubeletTransport(t *tls.Config) *http.Transport {
	t = t.Clone()
	t.NextProtos = []string{"http/1.1"}
	return &http.Transport{
		TLSClientConfig:     t,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
	}
}

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
		return fmt.Errorf("Get %q: %w", location.String(), err) //nolint:staticcheck // upstream's text
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return kubeletError(res, pod.Name)
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
