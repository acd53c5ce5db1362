package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/podlife"
)

type anySandbox struct{ Specs }

func (anySandbox) Sandbox(*v1.Pod, uint32, string) (*runtimev1.PodSandboxConfig, error) {
	return &runtimev1.PodSandboxConfig{}, nil
}
func (anySandbox) Handler(*v1.Pod) (string, error) { return "", nil }

type failing struct {
	cri.Runtime
	Observer
	run, status, look error
}

func (f failing) RunPodSandbox(context.Context, *runtimev1.PodSandboxConfig, string) (string, error) {
	return "s", f.run
}

func (f failing) Sandbox(context.Context, string) (podlife.SandboxInfo, error) {
	return podlife.SandboxInfo{Ready: true}, f.status
}

func (f failing) Pod(context.Context, types.UID) (podlife.Observed, error) {
	return podlife.Observed{}, f.look
}

// What keeps a sandbox from being made, and a pod from being looked at, is told under upstream's reason for it.
func TestReasonsOfWhatFails(t *testing.T) {
	no := status.Error(codes.Unknown, "no")
	for name, c := range map[string]struct {
		failing
		network         string
		host, look      bool
		reason, message string
	}{
		"made in vain":             {failing: failing{run: no}, message: "rpc error: code = Unknown desc = no"},
		"without a network":        {failing: failing{run: no}, network: "container runtime network not ready: x", reason: "NetworkNotReady", message: "network is not ready: container runtime network not ready: x"},
		"on the host's network":    {failing: failing{run: no}, network: "x", host: true, message: "rpc error: code = Unknown desc = no"},
		"of which nothing is told": {failing: failing{status: no}, reason: "FailedPodSandBoxStatus", message: "Unable to get pod sandbox status: rpc error: code = Unknown desc = no"},
		"a look":                   {failing: failing{look: no}, look: true, reason: "FailedSync", message: "error determining status: rpc error: code = Unknown desc = no"},
		"a look at nobody":         {failing: failing{look: status.Error(codes.Unavailable, "away")}, look: true, message: "away"},
		"a look that was given up": {failing: failing{look: context.Canceled}, look: true, message: context.Canceled.Error()},
	} {
		p := &v1.Pod{}
		p.Spec.HostNetwork = c.host
		w := &Workers{
			ctx: t.Context(), slots: make(chan struct{}, 1),
			cfg: Config{
				Specs: anySandbox{}, Runtime: c.failing, Observer: c.failing, CallTimeout: time.Minute,
				NetworkProblem: func() string { return c.network },
			},
		}
		n := newPod(w, p, podlife.Begin(podlife.Defaults(), p, time.Now()))
		var got *podlife.Failure
		if c.look {
			got = n.prepare(podlife.Observe{})().(podlife.Observation).Fail
		} else {
			got = n.prepare(podlife.CreateSandbox{})().(podlife.SandboxCreated).Fail
		}
		if got == nil || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("%s: %+v", name, got)
		}
		if errors.Is(c.status, no) && !got.Unsure {
			t.Errorf("%s: it is there, and not looked for", name)
		}
	}
}

// A message gets into a status, whatever bytes a hook's command or a file's name had.
func TestMessagesAreText(t *testing.T) {
	said := "exited with 1: a\xff\xe2\x82 €"
	for name, err := range map[string]error{"an error": errors.New(said), "a failure": &podlife.Failure{Reason: "FailedMount", Message: said}} {
		if got, want := failure(err, "").Message, "exited with 1: a\uFFFD\uFFFD\uFFFD €"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	hook := fmt.Errorf("Exec lifecycle hook ([\xff]) failed - error: %w", status.Error(codes.Unknown, said)) //nolint:staticcheck // upstream's text
	if got, want := failedHook(hook).Message, "Exec lifecycle hook ([\uFFFD]) failed - error: rpc error: code = Unknown desc = exited with 1: a\uFFFD\uFFFD\uFFFD €"; got != want {
		t.Errorf("a hook's: %q, want %q", got, want)
	}
	if failure(nil, "X") != nil || failedHook(nil) != nil {
		t.Error("no error is a failure")
	}
	if got := failure(&podlife.Failure{Message: "m"}, "X"); got.Reason != "X" {
		t.Errorf("the reason of one that has none is %q", got.Reason)
	}
}
