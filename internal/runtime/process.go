package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running containerd: our child, or one that an earlier podo left. It is held by a pidfd, which unlike a process
// number never comes to mean another process.
type process struct {
	pid    int
	config string // the configuration file it was started with
	child  bool
	fd     *os.File // readable when the process has ended
	done   chan struct{}
	err    error // how it ended, once done is closed
}

// hold opens a pidfd and watches for the end.
func hold(pid int, config string, child *exec.Cmd) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, config: config, child: child != nil, fd: os.NewFile(uintptr(fd), "pidfd"), done: make(chan struct{})}
	go p.watch(child)
	return p, nil
}

// watch closes done when the process has ended, or when release gave it up (possible only for one that is no child).
func (p *process) watch(child *exec.Cmd) {
	defer close(p.done)
	if child != nil {
		p.err = child.Wait()
		if p.err == nil {
			p.err = errors.New("exit status 0")
		}
		return
	}
	raw, err := p.fd.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, _ := unix.Poll(pfd, 0)
			return n > 0
		})
	}
	if err != nil {
		p.err = err
		return
	}
	p.err = errors.New("ended") // only a parent learns how it ended
}

// release gives the process up and leaves it running.
func (p *process) release() { p.fd.Close() }

// signal sends sig; a process that has ended is no error.
func (p *process) signal(sig unix.Signal) error {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}

// terminate asks the process to end, and kills it if it does not within grace.
func (p *process) terminate(ctx context.Context, grace time.Duration) error {
	if err := p.signal(unix.SIGTERM); err != nil {
		return err
	}
	return p.outlast(ctx, grace)
}

// outlast waits for the process's end, and kills it after grace.
func (p *process) outlast(ctx context.Context, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		return err
	}
	// It cannot refuse, but a process that waits in the kernel for a disk ends only when the disk answers.
	timer.Reset(killGrace)
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d was killed and has not ended within %v: what it waits for in the kernel does not answer", p.pid, killGrace)
	}
}

// find looks for containerd processes of this layout, whoever started them. The process table is the truth: there is no pid file
// that could be wrong after a crash. They are recognized by the program and the configuration folder on their command lines.
func find(program, configDir string) ([]*process, error) {
	return findArgs(func(args []string) (string, bool) {
		if len(args) < 3 || args[0] != program || args[1] != "--config" || filepath.Dir(args[2]) != configDir {
			return "", false
		}
		return args[2], true
	})
}

// findArgs holds all other processes whose command line match accepts; the returned config becomes the process's.
func findArgs(match func(args []string) (config string, ok bool)) ([]*process, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []*process
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		config, ok := match(commandOf(pid))
		if !ok {
			continue
		}
		p, err := hold(pid, config, nil)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			continue // ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		// Between the look and the hold the number may have passed to another process: look again, now that it cannot.
		if again, ok := match(commandOf(pid)); !ok || again != config {
			p.release()
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

// commandOf is a process's command line, at least one word; a zombie or a kernel thread has an empty one.
func commandOf(pid int) []string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return []string{""}
	}
	return strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00")
}

// start runs containerd in a session of its own, its output going to a file: nothing ties it to the life of this process.
func start(program, config, logFile, notify string, logLevel string) (*process, error) {
	if err := rotate(logFile); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, "--config", config, "--log-level", logLevel)
	cmd.Dir = "/"
	cmd.Env = environment(os.Environ(), filepath.Dir(program), notify)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Descriptors that someone gave this process without close-on-exec (a pipe of `podo up`, systemd's sockets) must not stay
	// open in containerd.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w: is the data directory on a file system mounted noexec?", err)
		}
		return nil, err
	}
	p, err := hold(cmd.Process.Pid, config, cmd)
	if err != nil { // without pidfds (before Linux 5.3) nothing here works
		cmd.Process.Kill() //nolint:errcheck // best effort
		cmd.Wait()         //nolint:errcheck // it was killed
		return nil, fmt.Errorf("pidfd_open: %w (Linux 5.3 or newer is needed)", err)
	}
	return p, nil
}

// environment is ours, with the carried programs first on PATH and nft's usual places on it, and notify as the socket for
// readiness.
func environment(own []string, bin, notify string) []string {
	env := slices.DeleteFunc(slices.Clone(own), func(kv string) bool {
		return strings.HasPrefix(kv, "NOTIFY_SOCKET=") || strings.HasPrefix(kv, "LISTEN_") || strings.HasPrefix(kv, "PATH=")
	})
	path := bin + ":" + systemPath
	for _, kv := range own {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok && p != "" {
			path = bin + ":" + p + ":" + systemPath
		}
	}
	return append(env, "PATH="+path, "NOTIFY_SOCKET="+notify)
}

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
