package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/runtime"
)

// kill9 podo | agent NAME | containerd | shim POD | container POD CONTAINER: kill -9 by process id, and wait until it is gone.
func cmdKill9(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	var pid int
	var err error
	switch {
	case len(args) == 1 && args[0] == "podo":
		pid, err = pidFile(filepath.Join(c.dir, "lock"))
	case len(args) == 1 && args[0] == "containerd":
		pid, err = processOf(func(p process) bool {
			return filepath.Base(p.argv0()) == "containerd" && strings.Contains(p.cmdline, c.dir)
		})
	case len(args) == 2 && args[0] == "agent":
		pid, err = pidFile(filepath.Join(machineOf(ts, args[1]).dir, "lock"))
	case len(args) == 2 && args[0] == "shim":
		pid, err = c.shimOf(args[1])
	case len(args) == 3 && args[0] == "container":
		pid, err = c.containerProcess(args[1], args[2])
	default:
		ts.Fatalf("usage: kill9 podo | agent NAME | containerd | shim POD | container POD CONTAINER")
	}
	ts.Check(err)
	ts.Check(kill9(pid))
}

// dead podo: wait until it has ended by itself.
func cmdDead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || args[0] != "podo" {
		ts.Fatalf("usage: dead podo")
	}
	pid, err := pidFile(filepath.Join(of(ts).dir, "lock"))
	ts.Check(err)
	if err := ended(pid, 0); !errors.Is(err, unix.ESRCH) {
		ts.Check(err)
	}
}

// kill9 kills and waits for the end.
func kill9(pid int) error { return ended(pid, unix.SIGKILL) }

// ended sends a signal, if there is one, and waits for the end by pidfd: no polling, no other process of the same number.
func ended(pid int, signal unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if signal != 0 {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil {
			return err
		}
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 10_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Errorf("process %d has not ended within 10 s: %v", pid, err)
		}
		return nil
	}
}

// gone: nothing of the story's server runs or is mounted any more.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	if left := leftovers(of(ts).dir); len(left) > 0 {
		ts.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

type process struct {
	pid     int
	cmdline string // arguments separated by spaces
	cgroup  string
}

func (p process) argv0() string { return strings.SplitN(p.cmdline, " ", 2)[0] }

func processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		cmdline, err := os.ReadFile(d + "/cmdline")
		if err != nil || len(cmdline) == 0 {
			continue
		}
		cgroup, _ := os.ReadFile(d + "/cgroup")
		all = append(all, process{pid, strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " ")), string(cgroup)})
	}
	return all
}

func processOf(want func(process) bool) (int, error) {
	var found []int
	for _, p := range processes() {
		if want(p) {
			found = append(found, p.pid)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%d processes match, want 1: %v", len(found), found)
	}
	return found[0], nil
}

func pidFile(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// containerProcess finds a container's first process by its container ID in the process's cgroup.
func (c *cluster) containerProcess(pod, container string) (int, error) {
	out, err := c.kubectl("get", "pod", pod, "-o",
		fmt.Sprintf(`jsonpath={.status.containerStatuses[?(@.name==%q)].containerID}`, container))
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	_, id, ok := strings.Cut(strings.TrimSpace(out), "://")
	if !ok {
		return 0, fmt.Errorf("pod %s has no running container %s: %q", pod, container, out)
	}
	first, number := 0, 0
	for _, p := range processes() {
		if !strings.Contains(p.cgroup, id) {
			continue
		}
		if n, err := innerPID(p.pid); err == nil && (first == 0 || n < number) {
			first, number = p.pid, n
		}
	}
	if first == 0 {
		return 0, fmt.Errorf("no process in the cgroup of container %s", id)
	}
	return first, nil
}

// innerPID is a process's number where it lives: the first one there has the lowest, while the host's numbers begin anew at some 32,000.
func innerPID(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	numbers := strings.Fields(line)
	if len(numbers) == 0 {
		return 0, fmt.Errorf("process %d is in no namespace", pid)
	}
	return strconv.Atoi(numbers[len(numbers)-1])
}

// shimOf is the parent of the pod's first container's process.
func (c *cluster) shimOf(pod string) (int, error) {
	name, err := c.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.containers[0].name}")
	if err != nil {
		return 0, err
	}
	pid, err := c.containerProcess(pod, strings.TrimSpace(name))
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return strconv.Atoi(fields[1])
}

func (c *cluster) kubectl(args ...string) (string, error) {
	argv := c.kubectlLine(args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// leftovers lists what a stopped server must not leave on the host: processes, mounts (network namespaces are some), its bridge, cgroups,
// firewall table and volatile folder.
func leftovers(dir string) []string {
	l := runtime.LayoutFor(dir)
	var left []string
	for _, p := range processes() {
		if p.pid != os.Getpid() && strings.Contains(p.cmdline, dir) && !strings.Contains(p.cmdline, "e2e.test") {
			left = append(left, fmt.Sprintf("process %d: %s", p.pid, p.cmdline))
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for _, line := range strings.Split(string(mounts), "\n") {
			if strings.Contains(line, dir) || strings.Contains(line, l.Run+"/") {
				left = append(left, "mount: "+line)
			}
		}
	}
	for _, pattern := range []string{
		l.Run, "/sys/class/net/" + l.Bridge, "/sys/fs/cgroup/podo-" + l.ID, "/sys/fs/cgroup/*/podo-" + l.ID,
	} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	if tables, err := exec.Command("nft", "list", "tables").Output(); err != nil || strings.Contains(string(tables), l.Table) {
		left = append(left, fmt.Sprintf("nftables table %s (%v)", l.Table, err))
	}
	return left
}

// until runs a podo or kubectl command and returns when a line of its output matches.
func until(c *cluster, pattern string, args []string, limit time.Duration) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	argv := append([]string{c.podo, args[0], "--data-dir", c.dir}, args[1:]...)
	if args[0] == "kubectl" {
		argv = c.kubectlLine(args[1:]...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.kubeconfig())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer func() {
		timer.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	}()
	var seen []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if re.MatchString(lines.Text()) {
			return nil
		}
		seen = append(seen, lines.Text())
	}
	return fmt.Errorf("no line of %v matched in %s; it printed:\n%s", args, limit, strings.Join(seen, "\n"))
}

// forward POD PORT 'REGEXP' [KUBECTL]: port-forward to the pod, GET / through it twice, and match the answer. KUBECTL is the program,
// by default the built-in one.
func cmdForward(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: forward POD PORT 'REGEXP' [KUBECTL]")
	}
	c := of(ts)
	argv := []string{c.podo, "kubectl", "--data-dir", c.dir}
	if len(args) == 4 {
		argv = []string{args[3], "--kubeconfig", filepath.Join(c.dir, "kubeconfig")}
	}
	reached(ts, append(argv, "port-forward", "pod/"+args[0], ":"+args[1]), "/", args[2])
}

// proxied PATH 'REGEXP': what kubectl proxy answers for a path matches.
func cmdProxied(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: proxied PATH 'REGEXP'")
	}
	c := of(ts)
	reached(ts, []string{c.podo, "kubectl", "--data-dir", c.dir, "proxy", "--port=0"}, args[0], args[1])
}

// reached runs a command that says on its first line at which local address it listens, and asks there twice. Whoever is killed in place of
// kubectl takes it along.
func reached(ts *testscript.TestScript, argv []string, path, want string) {
	cmd := exec.Command(argv[0], argv[1:]...)
	end := func() { _ = cmd.Process.Kill() }
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	defer func() {
		end()
		_ = cmd.Wait()
	}()
	timer := time.AfterFunc(30*time.Second, end)
	defer timer.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	for range 2 {
		resp, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + addr + path)
		ts.Check(err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		if ok, err := regexp.Match(want, body); err != nil || !ok {
			ts.Fatalf("through %q came %q, want a match of %s (%v)", strings.TrimSpace(line), body, want, err)
		}
	}
	end()
	_ = cmd.Wait()
	if conn, err := net.DialTimeout("tcp", addr, 10*time.Second); err == nil {
		conn.Close()
		ts.Fatalf("%q has been killed and somebody still listens at %s", argv, addr)
	}
}
