package wire

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apiserver/pkg/authentication/user"
)

// special serves subresources that are not a part of the object. It tells whether it has answered.
func (c *call) special(u user.Info) bool {
	if c.kind.Resource == "serviceaccounts" && c.info.Subresource == "token" && c.info.Name != "" {
		c.token(u)
		return true
	}
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
		c.fail(unrouted(http.StatusMethodNotAllowed))
		return true
	}
	if err := serve(u); err != nil {
		c.fail(err)
	}
	return true
}

var bindingGVK = v1.SchemeGroupVersion.WithKind("Binding")

// bind also serves POST .../bindings, where the name comes from the object and another right is needed.
func (c *call) bind(u user.Info) error {
	bind := c.s.c.Verbs.Bind
	if c.info.Resource == "bindings" {
		bind = c.s.c.Verbs.BindByCollection
		// Before the body is read, as for any write.
		if err := c.s.c.Verbs.Authorize(c.r.Context(), u, "create", c.info.ref()); err != nil {
			return err
		}
	}
	var o metav1.CreateOptions
	o.Kind = "CreateOptions"
	if err := params(c.r.URL.Query(), &o, metavalidation.ValidateCreateOptions); err != nil {
		return err
	}
	b := &v1.Binding{}
	if err := c.decode(bindingGVK, b, o.FieldValidation); err != nil {
		return err
	}
	if err := c.inPlace(b.Namespace); err != nil {
		return err
	}
	if c.info.Name != "" && b.Name != c.info.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	b.Namespace = c.info.Namespace
	if err := bind(c.r.Context(), u, b, c.options(o.DryRun)); err != nil {
		return err
	}
	c.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// inPlace refuses an object that is created below another one but names another namespace.
func (c *call) inPlace(namespace string) error {
	if namespace == "" || namespace == c.info.Namespace {
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// evict deletes a pod as an eviction asks.
func (c *call) evict(u user.Info) error {
	var create metav1.CreateOptions
	create.Kind = "CreateOptions"
	if err := params(c.r.URL.Query(), &create, metavalidation.ValidateCreateOptions); err != nil {
		return err
	}
	e := &policyv1.Eviction{}
	// The previous version has the same fields, and clients still send it.
	if err := c.decode(policyv1.SchemeGroupVersion.WithKind("Eviction"), e, create.FieldValidation, policyv1beta1.SchemeGroupVersion); err != nil {
		return err
	}
	if err := c.inPlace(e.Namespace); err != nil {
		return err
	}
	if e.Name != c.info.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	o := e.DeleteOptions
	switch {
	case o == nil:
		o = &metav1.DeleteOptions{DryRun: create.DryRun}
	case len(o.DryRun) == 0:
		o.DryRun = create.DryRun
	case len(create.DryRun) > 0 && !slices.Equal(o.DryRun, create.DryRun):
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", create.DryRun, o.DryRun)
	}
	if err := c.s.c.Verbs.Evict(c.r.Context(), u, c.info.Namespace, c.info.Name, o, c.options(o.DryRun)); err != nil {
		return err
	}
	c.status(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// pod reads the pod of a connection after checking that the user may connect. The kubelet has its own knowledge of the pod, so
// the view is fresh enough unless the pod is missing there.
func (c *call) pod(u user.Info) (*v1.Pod, error) {
	ctx, ref := c.r.Context(), c.info.ref()
	if err := c.s.c.Verbs.Authorize(ctx, u, c.info.Verb, ref); err != nil {
		return nil, err
	}
	if c.info.Verb == "get" && c.info.Subresource != "log" {
		// A WebSocket starts with a GET but is not read access.
		if err := c.s.c.Verbs.Authorize(ctx, u, "create", ref); err != nil {
			return nil, err
		}
	}
	return c.s.c.Verbs.Pod(ctx, ref.Namespace, ref.Name)
}

// containerOf finds the container that a request names; "" stands for the only one.
func containerOf(pod *v1.Pod, name string) (string, error) {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	if name == "" {
		switch len(pod.Spec.Containers) {
		case 1:
			return pod.Spec.Containers[0].Name, nil
		case 0:
			return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	if slices.Contains(names, name) {
		return name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}

// kubelet is the URL of the pod's kubelet for a request.
func (c *call) kubelet(pod *v1.Pod, path string, q url.Values) (*url.URL, error) {
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	u, err := c.kubeletOf(pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(c.kind.GroupResource(), pod.Spec.NodeName) // as upstream says it
	}
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = path, q.Encode()
	return u, nil
}

// kubeletOf is where a node's kubelet answers.
func (c *call) kubeletOf(name string) (*url.URL, error) {
	node, err := c.s.c.Verbs.Node(c.r.Context(), name)
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
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

// unverifiedTransport is kubeletTransport without verification, for a client that asks for it: a kubelet's log may tell why its
// certificate is invalid.
func unverifiedTransport(t *tls.Config) *http.Transport {
	u := kubeletTransport(t)
	u.TLSClientConfig.InsecureSkipVerify = true
	return u
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
