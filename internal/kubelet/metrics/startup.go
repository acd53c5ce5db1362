package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// nodeStart is the time of a new node from the boot of its machine until it is Ready. A node that the API knew before is left
// out: its machine may have been up for long.
type nodeStart struct {
	began time.Time // the kubelet

	preKubelet, preRegistration, registration, postRegistration, whole prometheus.Gauge

	mu                      sync.Mutex
	booted, registered, end time.Time
}

// Registered says that the node is new in the API, when its machine was booted (zero: nobody knows), and when its registration was first
// tried. Only the first time counts.
func (m *Metrics) Registered(booted, tried time.Time) {
	s, now := &m.node, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.registered.IsZero() {
		return
	}
	s.booted, s.registered = booted, now
	if !booted.IsZero() {
		s.preKubelet.Set(s.began.Sub(booted).Seconds())
	}
	s.preRegistration.Set(tried.Sub(s.began).Seconds())
	s.registration.Set(now.Sub(tried).Seconds())
}

// Ready says that the node is ready. Only the first time after it was registered counts.
func (m *Metrics) Ready() {
	s, now := &m.node, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registered.IsZero() || !s.end.IsZero() {
		return
	}
	s.end = now
	s.postRegistration.Set(now.Sub(s.registered).Seconds())
	if !s.booted.IsZero() {
		s.whole.Set(now.Sub(s.booted).Seconds())
	}
}
