package wire

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
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

// A client that does not read is not waited for either when all that is left to say is why its watch ends.
func TestTheEndOfAWatchWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vw, s := viewtest.New(t)
		v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
		o := &internalversion.ListOptions{ResourceVersion: "1"}
		changes, err := v.Watch(t.Context(), root, client.ConfigMaps.At("default", ""), o)
		if err != nil {
			t.Fatal(err)
		}
		changes.Close() // as when they are no longer there
		cut := make(chan struct{})
		c, told := &call{s: &Server{patience: time.Minute}}, 0
		c.stream(changes, &framer{form: form{media: jsonType}}, o, teller{
			gone: t.Context(), cut: func() { close(cut) },
			send: func([]byte) error { told++; <-cut; return io.ErrClosedPipe },
		})
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
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
		if i, _ := parse(httptest.NewRequest(method, target, nil)); i.long() != want {
			t.Errorf("%s: %v", line, !want)
		}
	}
}
