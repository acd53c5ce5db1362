package wire

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch on which nothing happens outlives the time that a client has to read what it was sent.
func TestIdleWatchStays(t *testing.T) {
	defer func(d time.Duration) { watchWrite = d }(watchWrite)
	watchWrite = 50 * time.Millisecond
	w := newWorld(t)
	pods := w.client(jsonType).CoreV1().Pods("default")
	events, err := pods.Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for _, name := range []string{"a", "b"} {
		if _, err := pods.Create(w.ctx, pod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := <-events.ResultChan(); e.Type != watch.Added {
			t.Fatalf("%s: %+v", name, e)
		}
		select {
		case e := <-events.ResultChan():
			t.Fatalf("an idle watch told %+v", e)
		case <-time.After(4 * watchWrite):
		}
	}
}

// What lasts as long as its client wants, and what has an end that it was given. A log has all the time that it takes to read it.
func TestWhatLasts(t *testing.T) {
	for line, want := range map[string]bool{
		"GET /api/v1/pods":                                   false,
		"GET /api/v1/pods?watch=1":                           true,
		"GET /api/v1/namespaces/n/pods/p":                    false,
		"GET /api/v1/namespaces/n/pods/p/log":                true,
		"GET /api/v1/namespaces/n/pods/p/log?follow=true":    true,
		"POST /api/v1/namespaces/n/pods/p/exec":              true,
		"GET /api/v1/namespaces/n/services/s/proxy/x":        true,
		"POST /api/v1/namespaces/n/pods/p/eviction":          false,
		"PUT /apis/apps/v1/namespaces/n/deployments/d/scale": false,
	} {
		method, target, _ := strings.Cut(line, " ")
		if i := parse(httptest.NewRequest(method, target, nil)); i.long() != want {
			t.Errorf("%s: %v", line, !want)
		}
	}
}
