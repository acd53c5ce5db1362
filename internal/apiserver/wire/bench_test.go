package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

const benchClients = 16

// stores are the two that figures are taken on.
var stores = map[string]func(testing.TB) store.Store{
	"mem": func(testing.TB) store.Store { return mem.New(mem.Options{}) },
	"etcd": func(t testing.TB) store.Store {
		e, err := etcd.NewEmbedded(etcd.EmbeddedConfig{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- e.Run(ctx, func() { close(ready) }) }()
		t.Cleanup(func() { cancel(); <-done })
		<-ready
		return e
	},
}

func benchWorld(b *testing.B, s store.Store) *world {
	b.Helper()
	viewtest.Put(b, s, defaultNamespace())
	viewtest.Put(b, s, viewtest.Account("default"))
	vw := viewtest.Start(b, view.Config{Store: s, Mutated: func(*registry.Kind, *view.Entry) {}})
	return serve(b, vw, s)
}

// spread runs work b.N times on benchClients goroutines and reports how many a second.
func spread(b *testing.B, work func(i int64) error) {
	b.ResetTimer()
	spreadN(b, int64(b.N), work)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func benchPod(i int64) *v1.Pod {
	p := pod(fmt.Sprintf("p-%d", i))
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "b"}}
	return p
}

func BenchmarkCreateLocal(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, open(b))
			c := local.Admin(w.verbs)
			spread(b, func(i int64) error {
				_, err := c.Create(w.ctx, client.Pods.At("default", ""), benchPod(i))
				return err
			})
		})
	}
}

func BenchmarkCreateHTTP(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, open(b))
			pods := w.client(protoType).CoreV1().Pods("default")
			spread(b, func(i int64) error {
				_, err := pods.Create(w.ctx, benchPod(i), metav1.CreateOptions{})
				return err
			})
		})
	}
}

// BenchmarkList5000 is to the last byte of the body, which is not decoded.
func BenchmarkList5000(b *testing.B) {
	w := benchWorld(b, stores["mem"](b))
	c := local.Admin(w.verbs)
	for i := range int64(5000) {
		if _, err := c.Create(w.ctx, client.Pods.At("default", ""), benchPod(i)); err != nil {
			b.Fatal(err)
		}
	}
	hc := w.http(pki.Admin)
	for _, media := range []string{protoType, jsonType, "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		b.Run(media, func(b *testing.B) {
			for b.Loop() {
				req, err := http.NewRequestWithContext(w.ctx, "GET", w.address+"/api/v1/pods", nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Accept", media)
				res, err := hc.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				if err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
				b.SetBytes(n)
			}
		})
	}
}

func BenchmarkDeleteCollection5000(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, open(b))
			cs := w.client(protoType).CoreV1().Pods("default")
			c := local.Admin(w.verbs)
			zero := int64(0)
			for b.Loop() {
				b.StopTimer()
				spreadN(b, 5000, func(i int64) error {
					_, err := c.Create(w.ctx, client.Pods.At("default", ""), benchPod(i))
					return err
				})
				b.StartTimer()
				if err := cs.DeleteCollection(w.ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func spreadN(b *testing.B, n int64, work func(i int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range benchClients {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				if err := work(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
