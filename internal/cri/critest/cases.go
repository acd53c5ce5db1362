package critest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

// lifecycle: states and times on the way of one container, and what was put in is told again.
func lifecycle(t *testing.T, p *pod) {
	before := time.Now().Add(-time.Second).UnixNano()
	p.run()
	sb, err := p.rt.PodSandboxStatus(p.ctx(), p.sandbox)
	p.must(err)
	s := sb.GetStatus()
	if s.GetState() != runtimev1.PodSandboxState_SANDBOX_READY || s.GetMetadata().GetUid() != p.uid || s.GetCreatedAt() < before ||
		s.GetLabels()["critest"] != p.uid || s.GetAnnotations()["note"] != "kept" {
		t.Fatalf("sandbox: %+v", s)
	}
	if !p.env.HostNetwork && s.GetNetwork().GetIp() == "" {
		t.Fatal("a sandbox with a network of its own has an address")
	}
	id := p.create("a", 3, sh("sleep inf")...)
	st := p.status(id)
	if st.GetState() != runtimev1.ContainerState_CONTAINER_CREATED || st.GetStartedAt() != 0 || st.GetMetadata().GetAttempt() != 3 ||
		st.GetLabels()["name"] != "a" || st.GetAnnotations()["note"] != "kept" || st.GetImageRef() == "" || st.GetImage().GetImage() == "" {
		t.Fatalf("created: %+v", st)
	}
	if !strings.HasSuffix(st.GetLogPath(), "a_3.log") {
		t.Fatalf("log path %q", st.GetLogPath())
	}
	p.must(p.rt.StartContainer(p.ctx(), id))
	st = p.status(id)
	if st.GetState() != runtimev1.ContainerState_CONTAINER_RUNNING || st.GetStartedAt() < st.GetCreatedAt() || st.GetFinishedAt() != 0 {
		t.Fatalf("running: %+v", st)
	}
	p.must(p.rt.StopContainer(p.ctx(), id, 0))
	st = p.status(id)
	if st.GetState() != runtimev1.ContainerState_CONTAINER_EXITED || st.GetFinishedAt() < st.GetStartedAt() || st.GetExitCode() != 137 {
		t.Fatalf("stopped: %+v", st)
	}
	p.must(p.rt.RemoveContainer(p.ctx(), id))
	p.must(p.rt.StopPodSandbox(p.ctx(), p.sandbox))
	sb, err = p.rt.PodSandboxStatus(p.ctx(), p.sandbox)
	p.must(err)
	if sb.GetStatus().GetState() != runtimev1.PodSandboxState_SANDBOX_NOTREADY {
		t.Fatal("a stopped sandbox is not ready")
	}
	p.must(p.rt.RemovePodSandbox(p.ctx(), p.sandbox))
	if _, err := p.rt.PodSandboxStatus(p.ctx(), p.sandbox); !cri.IsNotFound(err) {
		t.Fatalf("removed sandbox: %v", err)
	}
}

func exitCodes(t *testing.T, p *pod) {
	p.run()
	for _, x := range []struct {
		name, script string
		code         int32
		reason       string
	}{
		{"zero", "exit 0", 0, "Completed"},
		{"three", "exit 3", 3, "Error"},
		{"later", "sleep 1; exit 42", 42, "Error"},
	} {
		st := p.ended(p.start(x.name, sh(x.script)...))
		if st.GetExitCode() != x.code || st.GetReason() != x.reason {
			t.Errorf("%s: code %d reason %q", x.name, st.GetExitCode(), st.GetReason())
		}
	}
}

// stopIgnoringTerm: TERM first, KILL after the grace; the call returns when the container has ended.
func stopIgnoringTerm(t *testing.T, p *pod) {
	p.run()
	deaf := p.start("deaf", sh("trap '' TERM; sleep 100")...)
	polite := p.start("polite", sh("trap 'exit 7' TERM; sleep 100 & wait")...)
	time.Sleep(300 * time.Millisecond) // until the shell has set its trap: nothing tells
	at := time.Now()
	p.must(p.rt.StopContainer(p.ctx(), deaf, 2*time.Second))
	if d := time.Since(at); d < 1900*time.Millisecond || d > 20*time.Second {
		t.Errorf("killed after %s", d)
	}
	if st := p.status(deaf); st.GetState() != runtimev1.ContainerState_CONTAINER_EXITED || st.GetExitCode() != 137 {
		t.Errorf("%+v", st)
	}
	at = time.Now()
	p.must(p.rt.StopContainer(p.ctx(), polite, 30*time.Second))
	if st := p.status(polite); st.GetExitCode() != 7 || time.Since(at) > 20*time.Second {
		t.Errorf("after %s: %+v", time.Since(at), st)
	}
	// A shorter grace overtakes a longer one.
	deaf = p.start("deaf2", sh("trap '' TERM; sleep 100")...)
	time.Sleep(300 * time.Millisecond)
	first := make(chan error, 1)
	go func() { first <- p.rt.StopContainer(context.Background(), deaf, time.Minute) }()
	time.Sleep(100 * time.Millisecond)
	p.must(p.rt.StopContainer(p.ctx(), deaf, time.Second))
	if st := p.status(deaf); st.GetState() != runtimev1.ContainerState_CONTAINER_EXITED {
		t.Errorf("%+v", st)
	}
	p.must(<-first)
}

// cannotStart: the start fails, the container has exited with a code that is not 0, and does not start again.
func cannotStart(t *testing.T, p *pod) {
	p.run()
	id := p.create("a", 0, "/does/not/exist")
	if err := p.rt.StartContainer(p.ctx(), id); err == nil {
		t.Fatal("started")
	}
	if st := p.status(id); st.GetState() != runtimev1.ContainerState_CONTAINER_EXITED || st.GetExitCode() == 0 || st.GetReason() == "" {
		t.Fatalf("%+v", st)
	}
	if err := p.rt.StartContainer(p.ctx(), id); err == nil {
		t.Fatal("started again")
	}
}

// idempotence: stop and remove succeed for what has stopped, is gone or never was.
func idempotence(t *testing.T, p *pod) {
	p.run()
	id := p.start("a", sh("sleep 100")...)
	for range 2 {
		p.must(p.rt.StopContainer(p.ctx(), id, 0))
	}
	for range 2 {
		p.must(p.rt.RemoveContainer(p.ctx(), id))
	}
	p.must(p.rt.StopContainer(p.ctx(), id, time.Second))
	running := p.start("b", sh("sleep 100")...)
	p.must(p.rt.RemoveContainer(p.ctx(), running)) // a running one is killed
	for range 2 {
		p.must(p.rt.StopPodSandbox(p.ctx(), p.sandbox))
	}
	for range 2 {
		p.must(p.rt.RemovePodSandbox(p.ctx(), p.sandbox))
	}
	p.must(p.rt.StopPodSandbox(p.ctx(), p.sandbox))
}

func notFound(t *testing.T, p *pod) {
	p.run()
	if _, err := p.rt.ContainerStatus(p.ctx(), "nothing"); !cri.IsNotFound(err) {
		t.Errorf("ContainerStatus: %v", err)
	}
	if _, err := p.rt.PodSandboxStatus(p.ctx(), "nothing"); !cri.IsNotFound(err) {
		t.Errorf("PodSandboxStatus: %v", err)
	}
	if err := p.rt.StartContainer(p.ctx(), "nothing"); !cri.IsNotFound(err) {
		t.Errorf("StartContainer: %v", err)
	}
	if _, _, _, err := p.rt.ExecSync(p.ctx(), "nothing", []string{"true"}, 0); !cri.IsNotFound(err) {
		t.Errorf("ExecSync: %v", err)
	}
	if _, err := p.rt.CreateContainer(p.ctx(), "nothing", p.containerConfig("a", 0, "true"), p.sandboxConfig(0)); err == nil {
		t.Error("created in a sandbox that is not there")
	}
}

func filters(t *testing.T, p *pod) {
	p.run()
	a := p.start("a", sh("sleep 100")...)
	b := p.create("b", 0, sh("sleep 100")...)
	list := func(f *runtimev1.ContainerFilter) string {
		t.Helper()
		cs, err := p.rt.ListContainers(p.ctx(), f)
		p.must(err)
		names := map[string]bool{}
		for _, c := range cs {
			names[c.GetLabels()["name"]] = true
			if c.GetPodSandboxId() != p.sandbox || c.GetAnnotations()["note"] != "kept" {
				t.Errorf("%+v", c)
			}
		}
		out := ""
		for _, n := range []string{"a", "b"} {
			if names[n] {
				out += n
			}
		}
		return out
	}
	mine := map[string]string{"critest": p.uid}
	running := &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING}
	for _, x := range []struct {
		f    *runtimev1.ContainerFilter
		want string
	}{
		{&runtimev1.ContainerFilter{LabelSelector: mine}, "ab"},
		{&runtimev1.ContainerFilter{LabelSelector: mine, State: running}, "a"},
		{&runtimev1.ContainerFilter{Id: b}, "b"},
		{&runtimev1.ContainerFilter{PodSandboxId: p.sandbox}, "ab"},
		{&runtimev1.ContainerFilter{LabelSelector: map[string]string{"critest": p.uid, "name": "a"}}, "a"},
		{&runtimev1.ContainerFilter{LabelSelector: map[string]string{"critest": "nobody"}}, ""},
	} {
		if got := list(x.f); got != x.want {
			t.Errorf("%+v: %q, want %q", x.f, got, x.want)
		}
	}
	_ = a
	sbs, err := p.rt.ListPodSandbox(p.ctx(), &runtimev1.PodSandboxFilter{LabelSelector: mine})
	p.must(err)
	if len(sbs) != 1 || sbs[0].GetId() != p.sandbox || sbs[0].GetMetadata().GetUid() != p.uid {
		t.Errorf("%+v", sbs)
	}
}

// logs: lines in the CRI format, in the folder of the sandbox.
func logs(t *testing.T, p *pod) {
	p.run()
	p.ended(p.start("a", sh("echo one; echo two words")...))
	lines := strings.Split(logText(t, filepath.Join(p.config.LogDirectory, "a_0.log")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{"one", "two words"} {
		f := strings.SplitN(lines[i], " ", 4)
		if len(f) != 4 || f[1] != "stdout" || f[2] != "F" || f[3] != want {
			t.Fatalf("%q", lines[i])
		}
		if _, err := time.Parse(time.RFC3339Nano, f[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func execSync(t *testing.T, p *pod) {
	p.run()
	id := p.start("a", sh("sleep 100")...)
	out, _, code, err := p.rt.ExecSync(p.ctx(), id, sh("echo hello; exit 4"), 10*time.Second)
	p.must(err)
	if string(out) != "hello\n" || code != 4 {
		t.Errorf("%q %d", out, code)
	}
	if _, _, _, err := p.rt.ExecSync(p.ctx(), id, sh("sleep 100"), time.Second); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("timeout: %v", err)
	}
	if st := p.status(id); st.GetState() != runtimev1.ContainerState_CONTAINER_RUNNING {
		t.Error("a command that times out ends the container")
	}
}

// events: created, started and stopped of a container arrive in order, with what they are about.
func events(t *testing.T, p *pod) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan *runtimev1.ContainerEventResponse, 100)
	connected := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- p.rt.Events(ctx, func() { close(connected) }, out) }()
	select {
	case <-connected:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	p.run()
	id := p.start("a", sh("sleep 1; exit 5")...)
	var got []runtimev1.ContainerEventType
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for len(got) < 3 {
		select {
		case e := <-out:
			if e.GetContainerId() != id {
				continue
			}
			got = append(got, e.GetContainerEventType())
			if e.GetPodSandboxStatus().GetMetadata().GetUid() != p.uid {
				t.Errorf("%+v", e)
			}
		case <-timeout.C:
			t.Fatalf("events: %v", got)
		}
	}
	want := []runtimev1.ContainerEventType{
		runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT, runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("events: %v", got)
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the end of a stream has a reason")
	}
}

func images(t *testing.T, p *pod) {
	img, err := p.rt.ImageStatus(p.ctx(), &runtimev1.ImageSpec{Image: p.env.Image})
	p.must(err)
	if img == nil || img.GetId() == "" {
		t.Fatalf("%+v", img)
	}
	byID, err := p.rt.ImageStatus(p.ctx(), &runtimev1.ImageSpec{Image: img.GetId()})
	p.must(err)
	if byID.GetId() != img.GetId() {
		t.Errorf("by id: %+v", byID)
	}
	none, err := p.rt.ImageStatus(p.ctx(), &runtimev1.ImageSpec{Image: p.env.Absent})
	if none != nil || err != nil {
		t.Errorf("absent: %+v %v", none, err)
	}
	if _, err := p.rt.PullImage(p.ctx(), &runtimev1.ImageSpec{Image: p.env.Absent}, nil, nil); err == nil {
		t.Error("pulled what is nowhere")
	}
	p.must(p.rt.RemoveImage(p.ctx(), &runtimev1.ImageSpec{Image: p.env.Absent}))
	all, err := p.rt.ListImages(p.ctx())
	p.must(err)
	found := false
	for _, i := range all {
		found = found || i.GetId() == img.GetId()
	}
	if !found {
		t.Errorf("%s is not listed", p.env.Image)
	}
	fs, err := p.rt.ImageFsInfo(p.ctx())
	p.must(err)
	if len(fs.GetImageFilesystems()) == 0 {
		t.Error("no image filesystem")
	}
}

// deadline: a call ends with its context.
func deadline(t *testing.T, p *pod) {
	p.run()
	id := p.start("a", sh("trap '' TERM; sleep 100")...)
	time.Sleep(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	at := time.Now()
	err := p.rt.StopContainer(ctx, id, time.Minute)
	if status.Code(err) != codes.DeadlineExceeded || !cri.IsUnavailable(err) || time.Since(at) > 10*time.Second {
		t.Fatalf("after %s: %v", time.Since(at), err)
	}
	if st := p.status(id); st.GetState() != runtimev1.ContainerState_CONTAINER_RUNNING {
		t.Fatal("killed though its caller gave up")
	}
}

// namesAreReserved: no two of one name and attempt, which is what keeps a lost answer from doubling anything.
func namesAreReserved(t *testing.T, p *pod) {
	p.run()
	if _, err := p.rt.RunPodSandbox(p.ctx(), p.config, ""); !cri.IsTaken(err) {
		t.Errorf("a second sandbox of one name and attempt: %v", err)
	}
	p.create("a", 0, sh("sleep 100")...)
	if _, err := p.rt.CreateContainer(p.ctx(), p.sandbox, p.containerConfig("a", 0, sh("sleep 100")...), p.config); !cri.IsTaken(err) {
		t.Errorf("a second container of one name and attempt: %v", err)
	}
	p.create("a", 1, sh("sleep 100")...)
}
