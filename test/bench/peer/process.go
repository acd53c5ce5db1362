package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one program of the peer; its output goes to a file in the data folder.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan error // gets the result, once
	log   string
}

func (p *Peer) launch(name string, args ...string) (*process, error) {
	proc := &process{name: name, ended: make(chan error, 1), log: p.dir(name + ".log")}
	out, err := os.Create(proc.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	proc.cmd = exec.Command(filepath.Join(p.cfg.Bin, name), args...)
	proc.cmd.Stdout, proc.cmd.Stderr, proc.cmd.Dir = out, out, p.cfg.DataDir
	// It must not outlive the benchmark.
	proc.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := proc.cmd.Start(); err != nil {
		return nil, err
	}
	p.procs = append(p.procs, proc)
	go func() { proc.ended <- proc.cmd.Wait() }()
	return proc, nil
}

// until asks again and again whether the program is ready. It fails when the program ends, with the end of its output.
func (proc *process) until(ctx context.Context, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case err := <-proc.ended:
			proc.ended <- err
			return fmt.Errorf("peer: %s ended: %w\n%s", proc.name, err, proc.tail())
		case <-ctx.Done():
			return fmt.Errorf("peer: %s is not ready: %w\n%s", proc.name, ctx.Err(), proc.tail())
		case <-tick.C:
		}
	}
	return nil
}

func (proc *process) tail() string {
	f, err := os.Open(proc.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 2000 {
		_, _ = f.Seek(-2000, io.SeekEnd) // a shorter tail is as good
	}
	b, _ := io.ReadAll(f)
	return string(b)
}

// stop ends it, by force after ten seconds. It may have ended already.
func (proc *process) stop() error {
	_ = proc.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-proc.ended:
		return nil
	case <-time.After(10 * time.Second):
	}
	err := proc.cmd.Process.Kill()
	<-proc.ended
	return err
}

// unmountBelow takes away what a kubelet mounted for pods, deepest first, so that the folder can be removed.
func unmountBelow(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	var errs []error
	for i := len(lines) - 1; i >= 0; i-- {
		f := strings.Fields(lines[i])
		if len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			if err := unix.Unmount(f[4], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", f[4], err))
			}
		}
	}
	return errors.Join(errs...)
}
