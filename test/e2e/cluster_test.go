// Package e2e runs bin/podo on real containers. Each file in testdata is a session that a person could type; it gets a server of its
// own (data directory, ports, pod network), so stories run side by side and may kill what they like. After each story
// nothing may be left: no process, mount, network namespace, cgroup, bridge or nftables table.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cluster is one story's server.
type cluster struct {
	dir      string // data directory; short, since unix sockets live below it
	podo     string
	https    int
	kubelet  int
	podCIDR  string
	registry *registry
	env      []string // further variables of its podo's environment

	site  *site  // nil: the server is alone
	real  string // podo itself, where podo is a wrapper that runs it on the server's machine
	fault func(format string, args ...any)
}

type clusterKey struct{}

var stories atomic.Int32

func TestStories(t *testing.T) {
	t.Parallel() // the stories and the tests beside each other
	if os.Geteuid() != 0 {
		t.Fatal("the e2e lane runs containers and needs root")
	}
	podo, err := filepath.Abs("../../bin/podo")
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range []string{podo, "../../bin/images/busybox.tar", "../../bin/images/hello.tar"} {
		if _, err := os.Stat(need); err != nil {
			t.Fatalf("%v: run `make build images` first", err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setup(t, env, podo) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"podo":     cmdPodo,
			"kubectl":  cmdKubectl,
			"up":       cmdUp,
			"kill9":    cmdKill9,
			"dead":     cmdDead,
			"gone":     cmdGone,
			"same":     cmdSame,
			"traces":   cmdTraces,
			"registry": cmdRegistry,
			"within":   cmdWithin,
			"until":    cmdUntil,
			"forward":  cmdForward,
			"proxied":  cmdProxied,
			"lister":   cmdLister,
			"var":      cmdVar,
			"nodes":    cmdNodes,
			"agent":    cmdAgent,
			"on":       cmdOn,
			"wire":     cmdWire,
			"sign":     cmdSign,
		},
		Condition: condition,
	})
}

// condition adds [stock-kubectl]: a stock kubectl is on the PATH.
func condition(cond string) (bool, error) {
	if cond == "stock-kubectl" {
		_, err := exec.LookPath("kubectl")
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

func setup(t *testing.T, env *testscript.Env, podo string) error {
	dir, err := os.MkdirTemp("", "podo-e2e-")
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	n := stories.Add(1)
	c := &cluster{dir: dir, podo: podo, https: ports[0], kubelet: ports[1], podCIDR: fmt.Sprintf("10.%d.%d.0/24", 90+n/200, n%200)}
	c.fault = t.Errorf
	env.Values[clusterKey{}] = c
	env.Values[tracesKey{}] = &map[string]int{}
	images, err := filepath.Abs("../../bin/images")
	if err != nil {
		return err
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	env.Setenv("DATA", dir)
	env.Setenv("IMAGES", images)
	helm, err := filepath.Abs("../../bin/helm")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Setenv("HELM", helm)
	env.Setenv("CHART", filepath.Join(filepath.Dir(examples), "test", "helm", "chart"))
	env.Setenv("PODO", podo)
	env.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	env.Setenv("HTTPS_PORT", strconv.Itoa(c.https))
	env.Setenv("HOME", env.WorkDir)
	documents, err := strconv.Atoi(cmp.Or(os.Getenv("DOCUMENTS"), "2000")) // of which one is broken
	if err != nil {
		return err
	}
	env.Setenv("DOCUMENTS", strconv.Itoa(documents))
	env.Setenv("MADE", strconv.Itoa(documents-1))
	env.Defer(func() {
		if t.Failed() {
			t.Logf("server log of %s:\n%s", dir, tail(filepath.Join(dir, "log", "podo.log"), 25))
		}
		c.registry.close()
		if out, err := c.run("down", "--grace", "1s"); err != nil {
			t.Errorf("podo down: %v\n%s", err, out)
		}
		for _, left := range leftovers(dir) {
			t.Errorf("left behind after podo down: %s", left)
		}
		if out, err := c.run("reset", "--yes"); err != nil {
			t.Errorf("podo reset: %v\n%s", err, out)
		}
	})
	return nil
}

func (c *cluster) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.podo, append(args, "--data-dir", c.dir)...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func of(ts *testscript.TestScript) *cluster { return ts.Value(clusterKey{}).(*cluster) }

// result checks a command's end against `!`.
func result(ts *testscript.TestScript, neg bool, what string, err error) {
	switch {
	case err != nil && !neg:
		ts.Fatalf("%s: %v", what, err)
	case err == nil && neg:
		ts.Fatalf("%s: succeeded, want a failure", what)
	}
}

// podo VERB ARGS...: bin/podo on the story's data directory.
func cmdPodo(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	all := append([]string{args[0], "--data-dir", c.dir}, args[1:]...)
	result(ts, neg, "podo "+strings.Join(args, " "), ts.Exec(c.podo, all...))
}

// kubectl ARGS...: the built-in kubectl.
func cmdKubectl(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	argv := c.kubectlLine(args...)
	if ts.Getenv("KUBECONFIG") == "" {
		argv = append([]string{"env", c.kubeconfig()}, argv...)
	}
	result(ts, neg, "kubectl "+strings.Join(args, " "), ts.Exec(argv[0], argv[1:]...))
}

// kubectlLine is the built-in kubectl as `podo kubectl` runs it, which it does here until it has unpacked it, and where kubectl runs on another
// machine: on such a machine as this one's the start of podo is half of what a command takes, a thousand times.
func (c *cluster) kubectlLine(args ...string) []string {
	kubectl := filepath.Join(c.dir, "bin", "kubectl")
	if _, err := os.Stat(kubectl); err != nil || c.site != nil {
		return append([]string{c.podo, "kubectl", "--data-dir", c.dir}, args...)
	}
	return append([]string{"env", "GOGC=400", kubectl}, args...)
}

// kubeconfig is the environment's word for the story's own cluster.
func (c *cluster) kubeconfig() string { return "KUBECONFIG=" + filepath.Join(c.dir, "kubeconfig") }

// up [FLAGS...]: start the story's server, wait for Ready, import the test images on the first start.
func cmdUp(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	_, err := os.Stat(filepath.Join(c.dir, "kubeconfig"))
	first := err != nil
	all := append([]string{
		"up", "--data-dir", c.dir, "--node-name", "node-a", "--v=4",
		"--https-port", strconv.Itoa(c.https), "--kubelet-port", strconv.Itoa(c.kubelet), "--pod-cidr", c.podCIDR,
	}, args...)
	err = ts.Exec(c.podo, all...)
	result(ts, neg, "podo up", err)
	if err == nil && first {
		if out, err := c.run("image", "import", ts.Getenv("IMAGES")+"/busybox.tar", ts.Getenv("IMAGES")+"/hello.tar"); err != nil {
			ts.Fatalf("podo image import: %v\n%s", err, out)
		}
	}
}

// until 'REGEXP' COMMAND...: wait until the (watching) command prints a matching line, then end it; a minute at most. The command must
// end by itself or stream (kubectl get -w, logs -f, podo timeline -f): nothing is polled.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until 'REGEXP' COMMAND...")
	}
	if err := until(of(ts), args[0], args[1:], time.Minute); err != nil {
		ts.Fatalf("until %s: %v", args[0], err)
	}
}

// within DURATION VERB...: as podo VERB, but it must end in that time.
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	began := time.Now()
	switch args[1] {
	case "kubectl":
		cmdKubectl(ts, neg, args[2:])
	case "up":
		cmdUp(ts, neg, args[2:])
	default:
		cmdPodo(ts, neg, args[1:])
	}
	if took := time.Since(began); took > limit {
		ts.Fatalf("%s took %s, want at most %s", strings.Join(args[1:], " "), took.Round(time.Millisecond), limit)
	}
}

// var NAME FILE: set an environment variable to a file's content.
func cmdVar(ts *testscript.TestScript, neg bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// same FILE FILE: both hold the same text.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	a, b := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	if (a == b) == neg {
		ts.Fatalf("%s is %q, %s is %q", args[0], a, args[1], b)
	}
}

// lastPort is the last port that freePorts has looked at.
var lastPort atomic.Int32

// freePorts finds ports that nobody uses. The two below each are its own too, since a kubelet listens on one of them. They are below those that
// the kernel gives to whoever asks for any, and each is given away once, so that nobody else has taken it by the time that it is used.
func freePorts(n int) ([]int, error) {
	const first, last, apart = 11000, 19990, 10
	lastPort.CompareAndSwap(0, int32(first+os.Getpid()%((last-first)/apart)*apart))
	var ports []int
	for range (last - first) / apart {
		port := int(lastPort.Add(apart))
		if port > last {
			lastPort.CompareAndSwap(int32(port), first)
			continue
		}
		if unused(port) && unused(port-2) {
			if ports = append(ports, port); len(ports) == n {
				return ports, nil
			}
		}
	}
	return nil, errors.New("all ports are in use")
}

func unused(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	return err == nil && l.Close() == nil
}

func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(content, []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return string(bytes.Join(all, []byte("\n")))
}
