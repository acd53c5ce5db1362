package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/cri/critest"
	"podo.dev/podo/internal/cri/fake"
)

func TestSuite(t *testing.T) {
	critest.Run(t, func(t *testing.T) critest.Env {
		r := fake.New()
		r.Offer(fake.Image{Name: "busybox", Size: 1 << 20, Local: true})
		return critest.Env{Runtime: r, Image: "busybox", Absent: "nowhere/nothing:1", LogRoot: t.TempDir()}
	})
}

func config(name string) *runtimev1.PodSandboxConfig {
	return &runtimev1.PodSandboxConfig{Metadata: &runtimev1.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: name}}
}

// Faults are what they say, in fake time.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fake.New()
		ctx := context.Background()
		boom := errors.New("boom")
		r.Fail(fake.Fault{Op: "RunPodSandbox", Err: boom, Times: 1})
		if _, err := r.RunPodSandbox(ctx, config("a"), ""); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		r.Fail(fake.Fault{Op: "RunPodSandbox", Err: boom, Times: 1, After: true})
		if _, err := r.RunPodSandbox(ctx, config("a"), ""); !errors.Is(err, boom) || len(r.Sandboxes()) != 1 {
			t.Fatal(err, r.Sandboxes())
		}
		r.Latency("Version", 3*time.Second)
		at := time.Now()
		if _, err := r.Version(ctx); err != nil || time.Since(at) != 3*time.Second {
			t.Fatal(err, time.Since(at))
		}
		resume := r.Hang()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := r.Status(short); !cri.IsUnavailable(err) {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, resume)
		at = time.Now()
		if _, err := r.Status(ctx); err != nil || time.Since(at) != time.Minute {
			t.Fatal(err, time.Since(at))
		}
	})
}
