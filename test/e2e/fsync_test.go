package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFsyncOrder shows that an acknowledged write is on the disk: a file copy or a kill -9 would never show a missing fsync, so the
// calls themselves are looked at. For each create, the kernel must have finished an fdatasync of etcd's write-ahead log
// between the request's start and its answer. And what the kubelet decided about a pod's end must be there too.
func TestFsyncOrder(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	pid, err := pidFile(filepath.Join(c.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	strace := exec.Command("strace", "-f", "-ttt", "-T", "-y", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o", trace, "-p", strconv.Itoa(pid))
	stderr, err := strace.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := strace.Start(); err != nil {
		t.Fatalf("%v: apt-get install strace (make e2e does)", err)
	}
	attached := bufio.NewScanner(stderr)
	if !attached.Scan() || !strings.Contains(attached.Text(), "attached") {
		t.Fatalf("strace: %s", attached.Text())
	}
	go func() { // keeps the pipe from filling
		for attached.Scan() {
		}
	}()

	type write struct {
		name       string
		start, end float64
	}
	var writes []write
	for i := range 10 {
		name := fmt.Sprintf("durable-%d", i)
		start := seconds()
		out, err := c.kubectl("create", "configmap", name, "--from-literal=a=b")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		writes = append(writes, write{name, start, seconds()})
	}
	if out, err := c.kubectl("run", "checkpointed", "--image=localhost/podo/busybox:dev", "--", "sleep", "3600"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := c.kubectl("wait", "--for=condition=Ready", "pod/checkpointed", "--timeout=60s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := c.kubectl("delete", "pod", "checkpointed", "--grace-period=1"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	strace.Process.Signal(unix.SIGINT)
	strace.Wait()

	calls, err := readTrace(trace)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		synced := false
		for _, call := range calls {
			if strings.HasPrefix(call.name, "f") && strings.HasSuffix(call.path, ".wal") && call.end > w.start && call.end < w.end {
				synced = true
			}
		}
		if !synced {
			t.Errorf("configmap %s was acknowledged without an fdatasync of the write-ahead log between %.6f and %.6f", w.name, w.start, w.end)
		}
	}
	checkCheckpoints(t, c.dir, calls)
}

// checkCheckpoints wants the decision to stop the pod on the disk: a checkpoint that was synced before it was renamed into place, and
// its folder after. (Checkpoints of a pod that runs need not survive the machine: its containers would not either.)
func checkCheckpoints(t *testing.T, dir string, calls []syscall) {
	folder := filepath.Join(dir, "kubelet", "state")
	renames, durable := 0, 0
	synced := map[string]bool{} // files synced and not yet renamed
	renamed := false            // one of these was renamed, and the folder is not synced yet
	for _, c := range calls {
		switch {
		case strings.HasPrefix(c.name, "rename") && strings.HasPrefix(c.path, folder+"/"):
			renames++
			renamed = synced[c.path]
			delete(synced, c.path)
		case strings.HasPrefix(c.name, "f") && c.path == folder && renamed:
			durable++
			renamed = false
		case strings.HasPrefix(c.name, "f") && strings.HasPrefix(c.path, folder+"/"):
			synced[c.path] = true
		}
	}
	if durable == 0 {
		t.Errorf("of %d checkpoints written while a pod started and was stopped, none was synced, renamed and its folder synced", renames)
	}
}

// syscall is one finished call; path is the synced file or the renamed source; end is wall time in seconds.
type syscall struct {
	name string
	path string
	end  float64
}

var (
	traceLine = regexp.MustCompile(`^(\d+) +(\d+\.\d+) (\w+)\((.*)\) += 0 .*<(\d+\.\d+)>$`)
	resumed   = regexp.MustCompile(`^(\d+) +(\d+\.\d+) <\.\.\. (\w+) resumed>.*= 0`)
	started   = regexp.MustCompile(`^(\d+) +(\d+\.\d+) (\w+)\((.*) <unfinished \.\.\.>$`)
)

func readTrace(path string) ([]syscall, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var calls []syscall
	open := map[string]string{} // thread -> arguments of its unfinished call
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if m := traceLine.FindStringSubmatch(lines.Text()); m != nil {
			calls = append(calls, syscall{m[3], argument(m[3], m[4]), number(m[2]) + number(m[5])})
		} else if m := started.FindStringSubmatch(lines.Text()); m != nil {
			open[m[1]] = m[4]
		} else if m := resumed.FindStringSubmatch(lines.Text()); m != nil {
			calls = append(calls, syscall{m[3], argument(m[3], open[m[1]]), number(m[2])})
		}
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("strace recorded nothing")
	}
	return calls, lines.Err()
}

var (
	fdPath = regexp.MustCompile(`<([^>]*)>`)
	quoted = regexp.MustCompile(`"([^"]*)"`)
)

func argument(call, args string) string {
	re := fdPath
	if strings.HasPrefix(call, "rename") {
		re = quoted
	}
	if m := re.FindStringSubmatch(args); m != nil {
		return m[1]
	}
	return ""
}

func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

func seconds() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// startCluster runs a server; more are flags of `podo up`.
func startCluster(t *testing.T, more ...string) *cluster {
	t.Helper()
	c := aCluster(t)
	c.start(t, more...)
	return c
}

// aCluster is a server that has not been started, and ends with the test.
func aCluster(t *testing.T) *cluster {
	t.Helper()
	podo, err := filepath.Abs("../../bin/podo")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "podo-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: dir, podo: podo, https: ports[0], kubelet: ports[1], podCIDR: fmt.Sprintf("10.%d.%d.0/24", 90, 199+stories.Add(1)%56)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server log:\n%s", tail(filepath.Join(dir, "log", "podo.log"), 60))
		}
		for _, verb := range [][]string{{"down", "--grace", "1s"}, {"reset", "--yes"}} {
			if out, err := c.run(verb...); err != nil {
				t.Errorf("podo %s: %v\n%s", verb[0], err, out)
			}
		}
	})
	return c
}

func (c *cluster) start(t *testing.T, more ...string) {
	t.Helper()
	for _, args := range [][]string{
		append([]string{"up", "--node-name", "node-a", "--https-port", strconv.Itoa(c.https), "--kubelet-port", strconv.Itoa(c.kubelet), "--pod-cidr", c.podCIDR}, more...),
		{"image", "import", "../../bin/images/busybox.tar"},
	} {
		if out, err := c.run(args...); err != nil {
			t.Fatalf("podo %v: %v\n%s", args, err, out)
		}
	}
}
