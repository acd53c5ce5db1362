package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

const (
	askTimeout   = 5 * time.Second        // for one question to the runtime
	writeTimeout = 10 * time.Second       // for one write to the API
	eagerly      = 100 * time.Millisecond // between two looks before the node is ready, in the first half minute
	soon         = time.Second            // between two looks while it is not ready
)

// keepStatus looks at the runtime at every tick and poke, and writes the status when it changed or is due.
func (m *Manager) keepStatus(ctx context.Context) {
	var written time.Time // zero: the status as a whole has not been written yet by this run
	started := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.poke:
		}
		m.observe(ctx)
		o := m.observed(time.Now())
		m.images(ctx, &o)
		now := time.Now()
		done, err := m.write(ctx, o, now, now.Sub(written) >= m.cfg.ReportEvery)
		if done.wrote {
			written = now
		}
		next := m.cfg.CheckEvery
		switch {
		case err != nil:
			if ctx.Err() == nil {
				m.cfg.Log.Warn("the node's status could not be written, will try again", "node", m.cfg.Name, "err", err)
			}
			next = min(next, soon)
		case done.ready:
			started = time.Time{}
		case now.Sub(started) < 30*time.Second:
			next = min(next, eagerly)
		default:
			next = min(next, soon)
		}
		timer.Reset(next)
	}
}

// observe asks the runtime for its status. When it does not answer, the last status stays, and its age shows.
func (m *Manager) observe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := m.cfg.Runtime.Status(ctx)
	if err != nil {
		m.cfg.Log.Debug("the runtime did not tell its status", "err", err)
		return
	}
	_, version := m.health.get()
	// The version is asked for again whenever the runtime could have been replaced: after it was not ready.
	if version == nil || len(m.health.problems(time.Now())) > 0 {
		if version, err = m.cfg.Runtime.Version(ctx); err != nil {
			m.cfg.Log.Debug("the runtime did not tell its version", "err", err)
			return
		}
	}
	m.health.set(time.Now(), status, version)
}

func (m *Manager) images(ctx context.Context, o *observed) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := m.cfg.Runtime.ListImages(ctx)
	if err != nil {
		m.cfg.Log.Debug("the runtime did not list its images", "err", err)
		return // without knowing the runtime's status nothing is written
	}
	o.images, o.listed = list, true
}

func (m *Manager) observed(now time.Time) observed {
	o := observed{problems: m.health.problems(now)}
	o.status, o.version = m.health.get()
	if m.cfg.Problems != nil {
		o.problems = append(o.problems, m.cfg.Problems()...)
	}
	if m.cfg.Pressure != nil {
		o.pressure = m.cfg.Pressure()
	}
	return o
}

type outcome struct{ wrote, ready bool }

// write brings the API's status up to date; due writes it even if only heartbeats change. A node that someone deleted is
// registered again.
func (m *Manager) write(ctx context.Context, o observed, now time.Time, due bool) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	out := outcome{ready: len(o.problems) == 0}
	var before, written v1.NodeStatus
	var cordoned bool
	_, err := m.cfg.Client.Mutate(ctx, client.Nodes.At("", m.cfg.Name).Sub("status"), func(obj runtime.Object) (bool, error) {
		n, ok := obj.(*v1.Node)
		if !ok {
			return false, fmt.Errorf("node: the client returned a %T", obj)
		}
		before = v1.NodeStatus{NodeInfo: n.Status.NodeInfo, Conditions: slices.Clone(n.Status.Conditions)} // what tell looks at
		cordoned = n.Spec.Unschedulable
		changed := m.cfg.apply(&n.Status, o, now)
		written = n.Status
		out.wrote = changed || due
		return out.wrote, nil
	})
	if apierrors.IsNotFound(err) {
		return outcome{}, m.register(ctx)
	}
	if err != nil {
		return outcome{}, err
	}
	m.cfg.tell(&before, &written)
	m.mu.Lock()
	turned, closed := m.ready != out.ready, m.cordoned != cordoned
	m.ready, m.cordoned = out.ready, cordoned
	m.mu.Unlock()
	if closed {
		m.cfg.turned(schedulable, !cordoned)
	}
	if turned && m.cfg.Turned != nil {
		m.cfg.Turned(out.ready)
	}
	if turned {
		m.cfg.Log.Info("node readiness turned", "node", m.cfg.Name, "ready", out.ready, "problems", o.problems)
	}
	return out, nil
}
