package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrLocked says that another podo supervises the same containerd.
var ErrLocked = errors.New("another podo runs on this data directory")

// lock takes over the supervision. The kernel releases the lock when this process ends in any way; containerd does not inherit
// it.
func (r *Runtime) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.layout.Run, 0o711); err != nil { // its parent too: see prepare
		return nil, err
	}
	f, err := os.OpenFile(r.layout.Lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s): stop it, or choose another --data-dir", ErrLocked, r.cfg.DataDir)
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

func (r *Runtime) program() string { return filepath.Join(r.layout.Bin, "containerd") }

// ensure returns a containerd that serves with this configuration: the one that runs already, or a new one.
func (r *Runtime) ensure(ctx context.Context, config string) (*process, error) {
	p, err := r.takeOver(ctx, config)
	if err != nil || p != nil {
		return p, err
	}
	notify, err := listenNotify(r.layout.Notify)
	if err != nil {
		return nil, err
	}
	defer notify.Close()
	left := r.remember()
	p, err = start(r.program(), config, r.layout.Log, r.layout.Notify, r.cfg.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("starting containerd: %w", err)
	}
	r.event(Event{Kind: Starting, PID: p.pid})
	err = r.becomeReady(ctx, p, notify)
	if err == nil {
		r.letGo(ctx, left)
		return p, nil
	}
	if ctx.Err() == nil { // when we end ourselves it may go on: the next podo takes it over
		err = errors.Join(err, p.terminate(ctx, stopGrace))
	}
	p.release()
	return nil, err
}

// remember lists what a starting containerd may have forgotten: it existed before, and nothing later is among it.
func (r *Runtime) remember() running {
	var err error
	if r.forgotten, err = attachments(r.layout.Bridge); err != nil {
		r.cfg.Log.Warn("cannot look for sandboxes that containerd may have forgotten", "err", err)
	}
	left, err := r.leftRunning()
	if err != nil {
		r.cfg.Log.Warn("cannot look for containers that containerd may have forgotten", "err", err)
	}
	return left
}

func (r *Runtime) becomeReady(ctx context.Context, p *process, notify *notifySocket) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("containerd was not ready within %v: see %s", startLimit, r.layout.Log))
	defer cancel()
	said := make(chan error, 1)
	waiting, give := context.WithCancel(ctx)
	defer give()
	go func() { said <- notify.wait(waiting) }()
	select {
	case err := <-said:
		if err != nil {
			return err
		}
	case <-p.done:
		return fmt.Errorf("containerd ended before it was ready: %w%s", p.err, lastWords(r.layout.Log, ""))
	}
	err := r.check(ctx)
	if status.Code(err) == codes.Unimplemented {
		// It serves without the plug-in that pods need, which could not be loaded.
		why := lastWords(r.layout.Log, "io.containerd.grpc.v1.cri")
		if strings.Contains(why, "inotify") {
			why += "; the sysctl fs.inotify.max_user_instances says how many inotify instances a user may have"
		}
		return fmt.Errorf("containerd runs without its CRI plug-in%s", why)
	}
	return err
}

// takeOver looks for containerds of this data directory, keeps the first with the right configuration that answers, and ends the
// others. nil without an error: there is none to keep.
func (r *Runtime) takeOver(ctx context.Context, config string) (*process, error) {
	found, err := find(r.program(), r.layout.Config)
	if err != nil {
		return nil, err
	}
	var keep *process
	for _, p := range found {
		why := errors.New("one is enough")
		if keep == nil {
			if why = r.fit(ctx, p, config); why == nil {
				keep = p
				r.event(Event{Kind: TakenOver, PID: p.pid})
				continue
			}
		}
		if ctx.Err() == nil {
			err = errors.Join(err, r.replace(ctx, p, why))
		}
		p.release()
	}
	return keep, err
}

// replace ends a containerd so that another can start.
func (r *Runtime) replace(ctx context.Context, p *process, why error) error {
	r.event(Event{Kind: Replaced, PID: p.pid, Err: why})
	return p.terminate(ctx, orphanGrace)
}

// silence returns why the running containerd must be considered hung, after several questions in a row without an answer; nil
// when ctx ends. It is asked for its version, which no lock, disk or pod can delay. One late answer proves nothing: this process
// may have been stopped together with it.
func (r *Runtime) silence(ctx context.Context) error {
	c, err := r.cfg.Connect(r.layout.Socket)
	if err != nil {
		r.cfg.Log.Warn("whether containerd hangs will not be noticed", "err", err)
		return nil
	}
	defer c.Close() //nolint:errcheck // nothing is under way
	for missed := 0; missed < silentQuestions; {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, answerLimit)
		_, err = c.Version(asking)
		cancel()
		wait := questionEvery
		if missed++; err == nil {
			missed = 0
		} else {
			wait = answerLimit - time.Since(began) // it may have been refused at once
		}
		if !pause(ctx, max(wait, 0)) {
			return nil
		}
	}
	return fmt.Errorf("it hangs: %d questions in a row had no answer within %v each, the last: %w", silentQuestions, answerLimit, err)
}

// fit says why a running containerd cannot be kept.
func (r *Runtime) fit(ctx context.Context, p *process, config string) error {
	if p.config != config {
		return errors.New("its configuration or version is not this podo's")
	}
	if r.wasReady(p) {
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		return r.check(ctx)
	}
	return r.finish(ctx, p)
}

// finish waits for a containerd that an earlier podo started and did not see ready, as long as for any start: nothing is gained
// by ending it in the middle of that, and a podo that crashes repeatedly would never get one.
func (r *Runtime) finish(ctx context.Context, p *process) error {
	notify, err := listenNotify(r.layout.Notify)
	if err != nil {
		return err
	}
	defer notify.Close()
	left := r.remember()
	// It may have said so before anybody listened.
	asking, cancel := context.WithTimeout(ctx, firstLook)
	err = r.check(asking)
	cancel()
	if err != nil {
		err = r.becomeReady(ctx, p, notify)
	}
	if err == nil {
		r.letGo(ctx, left)
	}
	return err
}

// letGo ends and gives back what a containerd that has just started has forgotten.
func (r *Runtime) letGo(ctx context.Context, left running) {
	r.endForgotten(ctx, left)
	r.detachForgotten(ctx)
}

// wasReady tells whether a containerd was seen ready, by this podo or one before it.
func (r *Runtime) wasReady(p *process) bool {
	pid, err := os.ReadFile(r.layout.Ready)
	return err == nil && string(pid) == strconv.Itoa(p.pid)
}

// sawReady is what wasReady goes by.
func (r *Runtime) sawReady(p *process) error {
	return writeChanged(r.layout.Ready, []byte(strconv.Itoa(p.pid)), 0o600)
}

// check makes sure that containerd answers and has the sandbox image.
func (r *Runtime) check(ctx context.Context) (err error) {
	c, err := r.cfg.Connect(r.layout.Socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Version(ctx); err != nil {
		return fmt.Errorf("containerd does not answer: %w", err)
	}
	img, err := c.ImageStatus(ctx, &runtimev1.ImageSpec{Image: PauseImage})
	if err != nil || img != nil {
		return err
	}
	f, err := os.Open(filepath.Join(r.layout.Bin, "pause.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := c.Import(ctx, f); err != nil {
		return fmt.Errorf("importing the sandbox image: %w", err)
	}
	return nil
}

// Shutdown ends containerd, and only it: containers go on, their shims wait for the next containerd. It works before, during and after
// Run, also in a process that never ran it.
func (r *Runtime) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.down = true
	r.mu.Unlock()
	found, err := find(r.program(), r.layout.Config)
	for _, p := range found {
		err = errors.Join(err, p.terminate(ctx, stopGrace))
		p.release()
	}
	return err
}

// lastWords is the last line of the log that contains about, where containerd says why it gave up.
func lastWords(log, about string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data[max(0, len(data)-64<<10):])), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, about) {
			return "; the last it said (" + log + "): " + line
		}
	}
	return ""
}

// logLimit bounds containerd's log: beyond it, the content moves to the one older file.
const logLimit = 16 << 20

// rotate copies and truncates, since containerd holds the file open and appends.
func rotate(logFile string) error {
	fi, err := os.Stat(logFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() < logLimit {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(logFile)
	if err != nil {
		return err
	}
	data = data[max(0, len(data)-logLimit):]
	if err := os.WriteFile(logFile+".1", data, 0o640); err != nil {
		return err
	}
	return os.Truncate(logFile, 0)
}

// writeChanged writes file if its content differs, as a whole or not at all.
func writeChanged(file string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
