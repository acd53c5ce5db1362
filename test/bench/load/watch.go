package load

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// FanOut creates a pod again and again and returns for each how long it took from the request until the last of the watchers, each on a
// connection of its own, had it decoded.
func (c Cluster) FanOut(ctx context.Context, prefix string, watchers, rounds int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writer, err := c.Dial()
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	list, err := writer.pods().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	seen := make(chan string, watchers)
	for range watchers {
		client, err := c.Dial()
		if err != nil {
			return nil, err
		}
		defer client.Close()
		w, err := client.pods().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return nil, err
		}
		defer w.Stop()
		go tell(ctx, w, seen)
	}
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("%s-%d", prefix, i)
		began := time.Now()
		if _, err := writer.pods().Create(ctx, writer.idle(name), metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		limit := time.After(30 * time.Second)
		for left := watchers; left > 0; {
			select {
			case got := <-seen:
				if got == name {
					left--
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-limit:
				return nil, fmt.Errorf("%d of %d watchers did not see %s within 30 s", left, watchers, name)
			}
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func tell(ctx context.Context, w watch.Interface, seen chan<- string) {
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*v1.Pod); ok && event.Type == watch.Added {
			select {
			case seen <- pod.Name:
			case <-ctx.Done():
				return
			}
		}
	}
}
