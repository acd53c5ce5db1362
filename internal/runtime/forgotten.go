package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// This file is about what runs on without containerd, and about a containerd that comes back without knowing it, because its data
// was lost or a shim did not answer in time. Such a containerd would neither report nor end it, while the pods are made again
// beside it.

// running are containers that runc knows, and shims, each named by its sandbox.
type running struct{ containers, shims []string }

// leftRunning is what runs.
func (r *Runtime) leftRunning() (left running, err error) {
	entries, err := os.ReadDir(r.runcRoot())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return left, err
	}
	for _, e := range entries {
		left.containers = append(left.containers, e.Name())
	}
	shims, err := r.findShims(func(string) bool { return true })
	for _, p := range shims {
		left.shims = append(left.shims, p.config)
		p.release()
	}
	return left, err
}

// runcRoot is runc's state of the containers of CRI, which is containerd's only client.
func (r *Runtime) runcRoot() string { return filepath.Join(r.layout.RuncDir, criNamespace) }

const criNamespace = "k8s.io"

// findShims holds the shims of this layout: their command lines name containerd's socket. Their config field holds the sandbox.
func (r *Runtime) findShims(which func(id string) bool) ([]*process, error) {
	return findArgs(func(args []string) (string, bool) {
		value := func(flag string) string {
			if i := slices.Index(args, flag); i > 0 && i+1 < len(args) {
				return args[i+1]
			}
			return ""
		}
		id := value("-id")
		return id, args[0] == filepath.Join(r.layout.Bin, "containerd-shim-runc-v2") && value("-address") == r.layout.Socket && which(id)
	})
}

// deleteContainers has runc kill and delete the containers that it knows. runc compares a process's start time, so it is safe
// when another process has got the number.
func (r *Runtime) deleteContainers(ctx context.Context, ids []string) error {
	var errs []error
	for _, id := range ids {
		out, err := exec.CommandContext(ctx, filepath.Join(r.layout.Bin, "runc"), "--root", r.runcRoot(), "delete", "--force", id).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("runc delete %s: %w: %s", id, err, bytes.TrimSpace(out)))
		}
	}
	return errors.Join(errs...)
}

// endShims ends the shims of sandboxes.
func (r *Runtime) endShims(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	shims, err := r.findShims(func(id string) bool { return slices.Contains(ids, id) })
	for _, p := range shims {
		err = errors.Join(err, p.terminate(ctx, time.Second))
		p.release()
	}
	return err
}

// known is what containerd has of sandboxes and containers.
func (r *Runtime) known(ctx context.Context) (known map[string]bool, err error) {
	c, err := r.cfg.Connect(r.layout.Socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	sandboxes, err := c.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	containers, err := c.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	known = map[string]bool{}
	for _, s := range sandboxes {
		known[s.GetId()] = true
	}
	for _, c := range containers {
		known[c.GetId()] = true
	}
	return known, nil
}

// endForgotten ends what ran before a containerd that has just started and that it does not have, or has given up (a container
// without a bundle). It runs before anybody is told that containerd is ready.
func (r *Runtime) endForgotten(ctx context.Context, left running) {
	if len(left.containers)+len(left.shims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	known, err := r.known(ctx)
	if err != nil {
		r.cfg.Log.Warn("cannot find out which containers containerd has forgotten", "err", err)
		return
	}
	bundle := func(id string) string {
		return filepath.Join(r.layout.State, "io.containerd.runtime.v2.task", criNamespace, id)
	}
	kept := func(id string) bool {
		_, err := os.Lstat(bundle(id))
		return known[id] && !errors.Is(err, fs.ErrNotExist)
	}
	left.containers, left.shims = slices.DeleteFunc(left.containers, kept), slices.DeleteFunc(left.shims, kept)
	if len(left.containers)+len(left.shims) == 0 {
		return
	}
	err = errors.Join(r.deleteContainers(ctx, left.containers), r.endShims(ctx, left.shims))
	for _, id := range left.containers {
		err = errors.Join(err, unmountBelow(bundle(id)))
	}
	r.cfg.Log.Warn("ended what containerd has forgotten", "containers", strings.Join(left.containers, " "), "shims", strings.Join(left.shims, " "), "err", err)
}
