// Package hook runs the lifecycle hooks of containers: postStart and preStop.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/probe"
)

// agent is how hooks name themselves to servers.
const agent = "kube-lifecycle/1.37"

// Event tells users about a container of a pod. It must not block.
type Event func(pod *v1.Pod, container, eventType, reason, message string)

// Metrics count what hooks go through.
type Metrics interface {
	HTTPFallback() // a server was heard over plain HTTP where HTTPS was asked for
	SleepCut()     // a sleep did not come to its end
}

// Hooks implements worker.Hooks.
type Hooks struct {
	rt     probe.Runtime
	event  Event
	client *http.Client
	count  Metrics
}

// New makes Hooks; exec hooks run by rt.
func New(rt probe.Runtime, event Event) *Hooks {
	return &Hooks{rt: rt, event: event, client: probe.Client(0), count: noMetrics{}}
}

// Counted has m count from now on.
func (k *Hooks) Counted(m Metrics) *Hooks {
	k.count = m
	return k
}

type noMetrics struct{}

func (noMetrics) HTTPFallback() {}
func (noMetrics) SleepCut()     {}

// RunHook runs h until it ends or ctx does. Its error is upstream's message for the container's status and the log. It is not for
// events, since a command's output may hold secrets.
func (k *Hooks) RunHook(ctx context.Context, pod *v1.Pod, c *v1.Container, containerID string, h *v1.LifecycleHandler, podIP string) error {
	failed := func(kind string, what any, err error, more string) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s lifecycle hook (%v) for Container %q in Pod \"%s_%s(%s)\" failed - error: %w%s",
			kind, what, c.Name, pod.Name, pod.Namespace, pod.UID, err, more)
	}
	switch {
	case h.Exec != nil:
		out, err := k.exec(ctx, containerID, h.Exec.Command)
		return failed("Exec", h.Exec.Command, err, fmt.Sprintf(", message: %q", out))
	case h.HTTPGet != nil:
		return failed("HTTP", h.HTTPGet.Path, k.get(ctx, pod, h.HTTPGet, c, podIP), "")
	case h.Sleep != nil:
		err := sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		if err != nil {
			k.count.SleepCut()
		}
		return failed("Sleep", h.Sleep.Seconds, err, "")
	}
	//lint:ignore ST1005 upstream's text
	return fmt.Errorf("Cannot run handler: invalid handler: %v", h)
}

func (k *Hooks) exec(ctx context.Context, id string, cmd []string) (output []byte, err error) {
	stdout, stderr, code, err := k.rt.ExecSync(ctx, id, cmd, 0)
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), code, stderr)
	}
	return append(stdout, stderr...), err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.New("container terminated before sleep hook finished")
	}
}

// get sends the request. Any answer is a success, even one that breaks off. When HTTPS was asked for and the server speaks plain
// HTTP, it is asked again over plain HTTP.
func (k *Hooks) get(ctx context.Context, pod *v1.Pod, h *v1.HTTPGetAction, c *v1.Container, ip string) error {
	req, err := probe.Request(ctx, h, c, ip, agent, "*/*")
	if err != nil {
		return err
	}
	res, err := k.client.Do(req)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		req = req.Clone(ctx)
		req.URL.Scheme = "http"
		req.Header.Del("Authorization") // it was meant for an encrypted connection
		if res, err = k.client.Do(req); err == nil {
			k.count.HTTPFallback()
			k.event(pod, "", v1.EventTypeWarning, "LifecycleHTTPFallback",
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.ContentLength <= mostBody {
		_, _ = io.CopyN(io.Discard, res.Body, mostBody)
	}
	return nil
}

// mostBody is how much of an answer is read; of a longer one nothing is. A server that has begun to answer has done what it was
// asked for.
const mostBody = 10 << 10
