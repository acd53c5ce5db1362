package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Agent is how probes and hooks name themselves to servers.
const Agent = "kube-probe/1.37"

// transport opens a connection for each request, to whatever answers there, and closes it afterwards. two says that servers over TLS may
// choose HTTP/2.
func transport(timeout time.Duration, two bool) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout}
	return &http.Transport{
		ForceAttemptHTTP2:  two,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a probe asks whether the server answers, not who it is
		DisableKeepAlives:  true,
		DisableCompression: true, // one that has its own Accept-Encoding may still get one
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			return conn, err
		},
	}
}

// Client opens one connection for each request and verifies no certificate. It follows redirects on the same host, up to 10; a
// redirect to another host is the answer. Timeout 0 leaves the limit to the request's context.
func Client(timeout time.Duration) *http.Client { return client(timeout, false) }

func client(timeout time.Duration, two bool) *http.Client {
	return &http.Client{
		Transport: transport(timeout, two), Timeout: timeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= 10 {
				return errors.New("stopped after 10 redirects")
			}
			return nil
		},
	}
}

// Request makes the request of an HTTP probe or hook. agent and accept are sent unless its headers say otherwise.
func Request(ctx context.Context, h *v1.HTTPGetAction, c *v1.Container, ip, agent, accept string) (*http.Request, error) {
	port, err := Port(h.Port, c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(h.Path)
	if err != nil { // a path that cannot be parsed is sent as it is
		u = &url.URL{Path: h.Path}
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	u.Scheme, u.Host = strings.ToLower(cmp.Or(string(h.Scheme), "http")), net.JoinHostPort(cmp.Or(h.Host, ip), port)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range h.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			req.Host = header.Value
		}
	}
	// An empty value says that the header must not be sent.
	defaults := map[string]string{"User-Agent": agent, "Accept": accept}
	for name, value := range defaults {
		if _, ok := req.Header[name]; !ok {
			req.Header.Set(name, value)
		} else if name == "Accept" && req.Header.Get(name) == "" {
			req.Header.Del(name)
		}
	}
	return req, nil
}

func get(ctx context.Context, h *v1.HTTPGetAction, t Target, timeout time.Duration) (Result, error) {
	req, err := Request(ctx, h, t.Container, t.IP, Agent, "*/*")
	if err != nil {
		return Result{}, err
	}
	res, err := client(timeout, true).Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{Output: err.Error()}, nil
	}
	text, err := body(res)
	if err != nil {
		return Result{Began: true}, err
	}
	switch code := res.StatusCode; {
	case code < http.StatusOK, code >= http.StatusBadRequest:
		return Result{Output: fmt.Sprintf("HTTP probe failed with statuscode: %d", code)}, nil
	case code >= http.StatusMultipleChoices:
		return Result{OK: true, Warn: "Probe terminated redirects, Response body: " + text}, nil
	}
	return Result{OK: true, Output: text}, nil
}

func body(res *http.Response) (string, error) {
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxOutput)) // a longer answer need not come to its end
	return string(b), err
}
