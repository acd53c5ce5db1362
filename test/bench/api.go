package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The API alone: pods that no scheduler takes, so that nothing else runs.

const apiNamespace = "bench"

// idlePod asks for a scheduler that does not exist; its size is that of a small Deployment's pod.
func idlePod(name string) *v1.Pod {
	pod := benchPod(name)
	pod.Namespace = apiNamespace
	pod.Labels = map[string]string{"app": "bench", "pod-template-hash": "5d7b8c9f4"}
	pod.Spec.SchedulerName = "nobody"
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "some value"}, {Name: "B", Value: "another value"}}
	return pod
}

func (p *product) restConfig() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

// measureAPI: creations per second, LIST to the last byte, watch fan-out, deletecollection.
func measureAPI(ctx context.Context, p *product, o options, f *figures) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apiNamespace}}
	if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, clients := range []int{1, 16, 64} {
		n := min(o.objects, 100*clients)
		if err := createMany(ctx, p, fmt.Sprintf("c%d", clients), clients, n, f); err != nil {
			return err
		}
		if err := clearPods(ctx, c); err != nil {
			return err
		}
	}
	if err := createMany(ctx, p, "fill", 16, o.objects, f); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *product, *kubernetes.Clientset, *figures) error{listMany, fanOut} {
		if err := step(ctx, p, c, f); err != nil {
			return err
		}
	}
	all, err := footprint(p.dir)
	if err != nil {
		return err
	}
	f.add(fmt.Sprintf("pss.podo.with.%d.pods", o.objects), all["podo"].pssMB, "MB")
	began := time.Now()
	if err := clearPods(ctx, c); err != nil {
		return err
	}
	f.ms(fmt.Sprintf("deletecollection.%d", o.objects), time.Since(began))
	return c.CoreV1().Namespaces().Delete(ctx, apiNamespace, metav1.DeleteOptions{})
}

func clearPods(ctx context.Context, c *kubernetes.Clientset) error {
	now := int64(0)
	return c.CoreV1().Pods(apiNamespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
}

// createMany creates n pods with the given number of clients, each on a connection of its own.
func createMany(ctx context.Context, p *product, prefix string, clients, n int, f *figures) error {
	work := make(chan int)
	errs := make(chan error, clients)
	var mu sync.Mutex
	var took []time.Duration
	began := time.Now()
	for i := range clients {
		c, err := p.client()
		if err != nil {
			return err
		}
		go func() {
			var mine []time.Duration
			var failed error
			for j := range work {
				start := time.Now()
				_, err := c.CoreV1().Pods(apiNamespace).Create(ctx, idlePod(fmt.Sprintf("%s-%d-%d", prefix, i, j)), metav1.CreateOptions{})
				failed = errors.Join(failed, err)
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
			errs <- failed
		}()
	}
	for j := range n {
		work <- j
	}
	close(work)
	for range clients {
		if err := <-errs; err != nil {
			return err
		}
	}
	f.add(fmt.Sprintf("create.%d.clients", clients), float64(n)/time.Since(began).Seconds(), "pods/s")
	f.ms(fmt.Sprintf("create.%d.clients.p99", clients), quantile(took, 0.99))
	return nil
}

// listMany reads the list to its last byte, without decoding it, and then as a client decodes it.
func listMany(ctx context.Context, p *product, c *kubernetes.Clientset, f *figures) error {
	cfg, err := p.restConfig()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	for name, accept := range map[string]string{"protobuf": "application/vnd.kubernetes.protobuf", "json": "application/json"} {
		var raw []time.Duration
		var size int64
		for range 15 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/api/v1/namespaces/"+apiNamespace+"/pods", nil)
			if err != nil {
				return err
			}
			req.Header.Set("Accept", accept)
			began := time.Now()
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			size, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("list: %s, %w", resp.Status, err)
			}
			raw = append(raw, time.Since(began))
		}
		f.ms("list."+name+".p50", quantile(raw, 0.5))
		f.ms("list."+name+".p99", quantile(raw, 0.99))
		f.add("list."+name+".size", float64(size)/1e6, "MB")
	}
	var decoded []time.Duration
	for range 15 {
		began := time.Now()
		if _, err := c.CoreV1().Pods(apiNamespace).List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		decoded = append(decoded, time.Since(began))
	}
	f.ms("list.protobuf.decoded.p50", quantile(decoded, 0.5))
	return nil
}

// fanOut: one write until the last of 100 watchers has it.
func fanOut(ctx context.Context, p *product, c *kubernetes.Clientset, f *figures) error {
	const watchers, rounds = 100, 15
	list, err := c.CoreV1().Pods(apiNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	seen := make(chan string, watchers)
	for range watchers {
		w, err := c.CoreV1().Pods(apiNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return err
		}
		defer w.Stop()
		go func() {
			for event := range w.ResultChan() {
				if pod, ok := event.Object.(*v1.Pod); ok && event.Type == "ADDED" {
					seen <- pod.Name
				}
			}
		}()
	}
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("fan-%d", i)
		began := time.Now()
		if _, err := c.CoreV1().Pods(apiNamespace).Create(ctx, idlePod(name), metav1.CreateOptions{}); err != nil {
			return err
		}
		for left := watchers; left > 0; {
			select {
			case got := <-seen:
				if got == name {
					left--
				}
			case <-time.After(30 * time.Second):
				return fmt.Errorf("%d of %d watchers did not see %s within 30 s", left, watchers, name)
			}
		}
		took = append(took, time.Since(began))
	}
	f.ms("watch.100.last.p50", quantile(took, 0.5))
	f.ms("watch.100.last.p99", quantile(took, 0.99))
	return nil
}
