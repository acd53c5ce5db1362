// Package scripts runs the lifecycle scripts: each .txt file tells one fault or promise. Verbs go in, the timeline's text
// comes out, and must be what the file says. `go test ./test/scripts -rewrite` writes what came out into the files.
//
//	# text                          a remark
//	offer IMAGE [absent] [pull=2s]  an image in the registry, and present unless absent
//	withdraw IMAGE                  takes it out of the registry
//	pod NAME                        creates a pod; the indented lines that follow are its spec, in YAML
//	edit NAME                       likewise, merged into the spec
//	delete NAME [grace=30]          asks for its end; grace=0 is by force
//	sleep 5s                        lets time pass
//	restart | stop | start          of the kubelet; the runtime goes on
//	kill POD CONTAINER CODE [oom]   ends a container from outside
//	kill-sandbox POD                ends its sandbox and all in it
//	vanish POD                      makes the runtime forget it without a word
//	hang | resume                   the runtime stands still, and goes on
//	fail OP [times=N] [after] TEXT  calls of the runtime fail; after: they happen all the same; late=20s instead: so much later
//	heal                            ends what fail began
//	drop-events                     breaks the event stream
//	timeline POD                    prints the timeline of a pod
//	status POD                      prints its status in short
//	events POD                      prints what users were told about it
//	why POD                         prints what is to be said of it: why it is as it is, what to do, how it got there
//	left                            prints what the node holds of pods that have gone
//
// The last five are followed by a line of four dashes and the expected text, up to an empty line.
package scripts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/timeline"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into the scripts")

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(f, ".txt"), func(t *testing.T) {
			in, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var out string
			synctest.Test(t, func(t *testing.T) { out = play(t, string(in)) })
			if out == string(in) || t.Failed() {
				return
			}
			if *rewrite {
				if err := os.WriteFile(f, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("another story than the file tells (-rewrite accepts it):\n%s", diff(string(in), out))
		})
	}
}

// script is one file being played.
type script struct {
	t      *testing.T
	rig    *kubelettest.Rig
	resume func()
	heal   []func()
}

// play runs a script and returns it with what came out.
func play(t *testing.T, text string) string {
	s := &script{t: t, rig: kubelettest.NewRig(t, nil), resume: func() {}}
	defer s.rig.Close()
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		args := strings.Fields(line)
		if len(args) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var block strings.Builder
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
			i++
			block.WriteString(lines[i] + "\n")
			out.WriteString(lines[i] + "\n")
		}
		got, prints := s.do(args, block.String())
		synctest.Wait()
		if !prints {
			continue
		}
		out.WriteString("----\n" + got + "\n")
		if i+1 < len(lines) && lines[i+1] == "----" { // skip what was expected
			for i++; i+1 < len(lines) && lines[i] != ""; i++ {
			}
		}
	}
	s.resume()
	return out.String()
}

func (s *script) do(args []string, block string) (output string, prints bool) {
	rt, opts := s.rig.Runtime, options(args)
	switch args[0] {
	case "offer":
		pull, _ := time.ParseDuration(opts["pull"]) //nolint:errcheck // none given
		_, absent := opts["absent"]
		rt.Offer(fake.Image{Name: args[1], Size: 1 << 20, Pull: pull, Local: !absent})
	case "withdraw":
		rt.Withdraw(args[1])
	case "pod":
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: args[1]}}
		s.yaml(block, &p.Spec)
		s.rig.API.Create(p)
	case "edit":
		s.rig.API.Edit(args[1], func(p *v1.Pod) { s.yaml(block, &p.Spec) })
	case "delete":
		grace := int64(30)
		if g, ok := opts["grace"]; ok {
			grace = int64(s.number(g))
		}
		s.rig.API.Delete(args[1], grace)
	case "sleep":
		d, err := time.ParseDuration(args[1])
		s.must(err)
		time.Sleep(d)
	case "restart":
		s.rig.Restart()
	case "stop":
		s.rig.Stop()
	case "start":
		s.rig.Start()
	case "kill":
		_, oom := opts["oom"]
		if !rt.Kill(args[1], args[2], int32(s.number(args[3])), oom) {
			s.t.Errorf("%s of %s does not run", args[2], args[1])
		}
	case "kill-sandbox":
		rt.KillSandbox(args[1])
	case "vanish":
		rt.Vanish(args[1])
	case "hang":
		s.resume = rt.Hang()
	case "resume":
		s.resume()
	case "fail":
		_, after := opts["after"]
		f := fake.Fault{Op: fake.Op(args[1]), After: after, Err: status.Error(codes.Unknown, rest(args[2:]))}
		if after {
			f.Err = status.Error(codes.Unavailable, rest(args[2:]))
		}
		if d, ok := opts["late"]; ok {
			by, err := time.ParseDuration(d)
			s.must(err)
			f.Late, f.Err = by, status.Error(codes.DeadlineExceeded, rest(args[2:]))
		}
		if n, ok := opts["times"]; ok {
			f.Times = s.number(n)
		}
		s.heal = append(s.heal, rt.Fail(f))
	case "heal":
		for _, h := range s.heal {
			h()
		}
	case "drop-events":
		rt.DropEvents()
	case "timeline":
		return timeline.Lines(s.rig.Records(args[1])), true
	case "status":
		return s.status(args[1]), true
	case "events":
		var b strings.Builder
		for _, e := range s.rig.Events() {
			if about, what, _ := strings.Cut(e, ": "); strings.Fields(about)[0] == args[1] {
				b.WriteString("  " + strings.TrimSpace(strings.TrimPrefix(about, args[1])+"  "+what) + "\n")
			}
		}
		return b.String(), true
	case "why":
		if p := s.rig.API.Pod(args[1]); p != nil {
			p = p.DeepCopy()
			p.Spec.NodeName = "here" // there is no scheduler
			return explain.Pod(explain.Facts{Pod: p, Records: s.rig.Records(args[1]), Now: time.Now()}).Text(time.Now()) + "\n", true
		}
		records := s.rig.Records(args[1])
		return explain.Gone(explain.Past{Records: records, Others: records, Reader: true, Now: time.Now()}).Text(time.Now()) + "\n", true
	case "left":
		r := s.rig
		return fmt.Sprintf("  containers=%d sandboxes=%d volumes=%d cgroups=%d remembered=%d workers=%d\n", len(rt.Containers()), len(rt.Sandboxes()),
			r.Volumes.Mounted(), r.Cgroups.Count(), r.Checkpoints.Len(), len(r.Kubelet.Workers())), true
	default:
		s.t.Fatalf("unknown verb %q", args[0])
	}
	return "", false
}

func options(args []string) map[string]string {
	out := map[string]string{}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		out[k] = v
	}
	return out
}

// rest is the free text after options.
func rest(args []string) string {
	for len(args) > 0 && (args[0] == "after" || strings.Contains(args[0], "=")) {
		args = args[1:]
	}
	return strings.Join(args, " ")
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) number(text string) int {
	s.t.Helper()
	n, err := strconv.Atoi(text)
	s.must(err)
	return n
}

func (s *script) yaml(block string, into *v1.PodSpec) {
	s.t.Helper()
	s.must(yaml.UnmarshalStrict([]byte(block), into))
}

func (s *script) status(pod string) string {
	p := s.rig.API.Pod(pod)
	if p == nil {
		return "  gone\n"
	}
	var b strings.Builder
	st := p.Status
	fmt.Fprintf(&b, "  %s\n", strings.TrimSpace(strings.Join([]string{string(st.Phase), st.Reason, st.Message}, " ")))
	for _, l := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for _, c := range l {
			fmt.Fprintf(&b, "  %s: ready=%t restarts=%d %s", c.Name, c.Ready, c.RestartCount, stateText(c.State))
			if c.LastTerminationState.Terminated != nil {
				fmt.Fprintf(&b, ", before: %s", stateText(c.LastTerminationState))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func stateText(s v1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return strings.TrimSpace("waiting " + s.Waiting.Reason + " " + s.Waiting.Message)
	case s.Running != nil:
		return "running"
	}
	return strings.TrimSpace(fmt.Sprintf("terminated %d %s %s", s.Terminated.ExitCode, s.Terminated.Reason, s.Terminated.Message))
}

// diff shows the lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		a, c := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			c = g[i]
		}
		if a != c {
			fmt.Fprintf(&b, "line %d\n  file: %s\n  now:  %s\n", i+1, a, c)
		}
	}
	return b.String()
}
