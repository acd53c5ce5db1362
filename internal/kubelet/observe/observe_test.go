package observe_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/kubelet/observe"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// C11, on containers that write real files: a big file, a long log, and a long log of one that succeeds.
func TestTerminationMessages(t *testing.T) {
	rt := fake.New()
	rt.Offer(fake.Image{Name: "busybox", Local: true})
	dir := t.TempDir()
	specs := kubelettest.Specs{Node: "n", LogRoot: filepath.Join(dir, "logs"), MessageRoot: dir}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	ctx := context.Background()
	sandbox, err := specs.Sandbox(pod, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	box, err := rt.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	fallback := v1.TerminationMessageFallbackToLogsOnError
	for name, x := range map[string]struct {
		policy v1.TerminationMessagePolicy
		cmd    string
	}{
		"a": {v1.TerminationMessageReadFile, "echo " + strings.Repeat("x", 9990) + " > /dev/termination-log; exit 1"},
		"b": {fallback, "repeat 200 line; exit 1"},
		"c": {fallback, "repeat 200 line; exit 0"},
		"d": {fallback, "repeat 200 " + strings.Repeat("y", 100) + "; exit 1"},
	} {
		c := &v1.Container{
			Name: name, Image: "busybox", Command: []string{"sh", "-c", x.cmd}, TerminationMessagePolicy: x.policy,
			TerminationMessagePath: v1.TerminationMessagePathDefault,
		}
		cfg, err := specs.Container(ctx, worker.ContainerInput{Pod: pod, Container: c, ImageRef: "busybox", Sandbox: sandbox})
		if err != nil {
			t.Fatal(err)
		}
		id, err := rt.CreateContainer(ctx, box, cfg, sandbox)
		if err == nil {
			err = rt.StartContainer(ctx, id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	obs := observe.New(rt)
	var got podlife.Observed
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got, err = obs.Pod(ctx, "u"); err != nil {
			t.Fatal(err)
		}
		ended := 0
		for _, c := range got.Containers {
			if c.State == podlife.InstanceExited {
				ended++
			}
		}
		if ended == 4 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 4 ended", ended)
		}
	}
	if len(got.Sandboxes) != 1 || !got.Sandboxes[0].Ready || got.Sandboxes[0].IPs[0] == "" {
		t.Errorf("%+v", got.Sandboxes)
	}
	want := map[string]string{
		"a": strings.Repeat("x", 4095) + "\n", "b": strings.Repeat("line\n", 80), "c": "", "d": strings.Repeat(strings.Repeat("y", 100)+"\n", 80)[80*101-2048:],
	}
	for _, c := range got.Containers {
		if c.Message != want[c.Name] {
			t.Errorf("%s: %d bytes, want %d: %.60q", c.Name, len(c.Message), len(want[c.Name]), c.Message)
		}
	}
}
