// Package hook runs the lifecycle hooks of containers: postStart and preStop.
package hook

import (
	"context"
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

// Hooks implements worker.Hooks.
type Hooks struct {
	rt     probe.Runtime
	client *http.Client
}

// New makes Hooks; exec hooks run by rt.
func New(rt probe.Runtime) *Hooks { return &Hooks{rt: rt, client: probe.Client(0)} }

// RunHook runs h to its end or ctx's. Its error is for the log: a command's output may hold secrets.
func (k *Hooks) RunHook(ctx context.Context, _ *v1.Pod, c *v1.Container, containerID string, h *v1.LifecycleHandler, podIP string) error {
	switch {
	case h.Exec != nil:
		stdout, stderr, code, err := k.rt.ExecSync(ctx, containerID, h.Exec.Command, 0)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command '%s' exited with %d: %s", strings.Join(h.Exec.Command, " "), code, append(stdout, stderr...))
		}
		return nil
	case h.HTTPGet != nil:
		return k.get(ctx, h.HTTPGet, c, podIP)
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("container terminated before sleep hook finished: %w", ctx.Err())
		}
	}
	return fmt.Errorf("invalid handler: exec, httpGet or sleep must be set")
}

// get asks; any answer is a success. A server that speaks plain HTTP although HTTPS was asked for is asked again its way.
func (k *Hooks) get(ctx context.Context, h *v1.HTTPGetAction, c *v1.Container, ip string) error {
	req, err := probe.Request(ctx, h, c, ip, agent, "*/*")
	if err != nil {
		return err
	}
	res, err := k.client.Do(req)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		req = req.Clone(ctx)
		req.URL.Scheme = "http"
		req.Header.Del("Authorization") // it was meant for a connection that nobody reads
		res, err = k.client.Do(req)
	}
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 10<<10))
	return err
}
