package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API alone: pods that no scheduler takes, so that nothing else runs.

// idle asks for a scheduler that does not exist; its size is that of a small Deployment's pod.
func (c *Client) idle(name string) *v1.Pod {
	pod := c.pod(name)
	pod.Labels = map[string]string{"app": "bench", "pod-template-hash": "5d7b8c9f4"}
	pod.Spec.SchedulerName = "nobody"
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "some value"}, {Name: "B", Value: "another value"}}
	return pod
}

// many does n things with so many clients, and returns how long each took and all together. Connections are made before.
func (c Cluster) many(ctx context.Context, clients, n int, do func(context.Context, *Client, int) error) ([]time.Duration, time.Duration, error) {
	all := make([]*Client, clients)
	for i := range all {
		client, err := c.Dial()
		if err != nil {
			return nil, 0, err
		}
		defer client.Close()
		if _, err := client.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{}); err != nil {
			return nil, 0, err
		}
		all[i] = client
	}
	took := make([]time.Duration, n)
	errs := make([]error, clients)
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i, client := range all {
		wg.Go(func() {
			for errs[i] == nil {
				j := int(next.Add(1)) - 1
				if j >= n {
					return
				}
				start := time.Now()
				errs[i] = do(ctx, client, j)
				took[j] = time.Since(start)
			}
		})
	}
	wg.Wait()
	return took, time.Since(began), errors.Join(errs...)
}

// Create creates n idle pods with so many clients; it returns how long each took and how many were made in a second.
func (c Cluster) Create(ctx context.Context, prefix string, clients, n int) (took []time.Duration, rate float64, err error) {
	return c.create(ctx, prefix, clients, n, (*Client).idle)
}

// CreateScheduled is the same with pods that the scheduler binds to nodes of a Layout.
func (c Cluster) CreateScheduled(ctx context.Context, prefix string, clients, n int) (took []time.Duration, rate float64, err error) {
	return c.create(ctx, prefix, clients, n, func(client *Client, name string) *v1.Pod { return client.waiting(name, false) })
}

func (c Cluster) create(ctx context.Context, prefix string, clients, n int, pod func(*Client, string) *v1.Pod) ([]time.Duration, float64, error) {
	took, all, err := c.many(ctx, clients, n, func(ctx context.Context, client *Client, i int) error {
		_, err := client.pods().Create(ctx, pod(client, fmt.Sprintf("%s-%d", prefix, i)), metav1.CreateOptions{})
		return err
	})
	return took, float64(n) / all.Seconds(), err
}

// Get reads one pod n times with one client, or until ctx ends.
func (c Cluster) Get(ctx context.Context, name string, n int) ([]time.Duration, error) {
	var took []time.Duration
	return took, c.with(func(client *Client) error {
		if _, err := client.pods().Get(ctx, name, metav1.GetOptions{}); err != nil { // connects
			return err
		}
		for range n {
			began := time.Now()
			_, err := client.pods().Get(ctx, name, metav1.GetOptions{})
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		return nil
	})
}

// Clear deletes all pods of the namespace in one request, without grace, and returns how long that took.
func (c Cluster) Clear(ctx context.Context) (took time.Duration, err error) {
	err = c.with(func(client *Client) error {
		if _, err := client.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{}); err != nil { // connects
			return err
		}
		began := time.Now()
		err := client.clear(ctx)
		took = time.Since(began)
		return err
	})
	return took, err
}

func (c *Client) clear(ctx context.Context) error {
	return c.pods().DeleteCollection(ctx, atOnce, metav1.ListOptions{})
}

// Lister lists all pods of the namespace.
type Lister struct{ client *Client }

// NewLister makes one with a connection of its own.
func (c Cluster) NewLister() (*Lister, error) {
	client, err := c.Dial()
	return &Lister{client}, err
}

// Close gives the connection back.
func (l *Lister) Close() { l.client.Close() }

// Raw reads a list to its last byte without decoding it. An empty encoding leaves compression to client-go, which asks for it and
// unpacks on the way.
func (l *Lister) Raw(ctx context.Context, accept, encoding string) (took time.Duration, size int64, err error) {
	url := l.client.config.Host + "/api/v1/namespaces/" + Namespace + "/pods"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Accept", accept)
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	began := time.Now()
	resp, err := l.client.http.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	size, err = io.Copy(io.Discard, resp.Body)
	took = time.Since(began)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("list: %s", resp.Status)
	}
	return took, size, err
}

// Pods lists as a program does.
func (l *Lister) Pods(ctx context.Context) ([]v1.Pod, error) {
	list, err := l.client.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Decoded is how long that takes.
func (l *Lister) Decoded(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	_, err := l.Pods(ctx)
	return time.Since(began), err
}
