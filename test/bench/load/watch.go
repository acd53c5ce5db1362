package load

import (
	"bytes"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// FanOut creates a pod again and again and returns for each how long it took from the request until the last of the watchers, each on a
// connection of its own, had all bytes of its event, or, with decoded, the pod.
func (c Cluster) FanOut(ctx context.Context, prefix string, watchers, rounds int, decoded bool) ([]time.Duration, error) {
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
	follow := (*Client).bytesOfPods
	if decoded {
		follow = (*Client).decodedPods
	}
	seen := make(chan string, watchers)
	for range watchers {
		client, err := c.Dial()
		if err != nil {
			return nil, err
		}
		defer client.Close()
		stop, err := follow(client, ctx, list.ResourceVersion, prefix, seen)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("%s-%0*d", prefix, fanDigits, i)
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

// fanDigits are in the name of each pod of a FanOut, so that none begins with another's name.
const fanDigits = 4

// decodedPods tells the name of each pod that is added, as client-go decodes it.
func (c *Client) decodedPods(ctx context.Context, from, _ string, seen chan<- string) (stop func(), err error) {
	w, err := c.pods().Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return nil, err
	}
	go func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok && event.Type == watch.Added && !send(ctx, seen, pod.Name) {
				return
			}
		}
	}()
	return w.Stop, nil
}

// bytesOfPods tells the first name with the prefix in each event of a watch, a frame of protobuf, and decodes nothing.
func (c *Client) bytesOfPods(ctx context.Context, from, prefix string, seen chan<- string) (stop func(), err error) {
	path := "/api/v1/namespaces/" + Namespace + "/pods?watch=true&resourceVersion=" + from
	s, err := get(ctx, c.config, path, "application/vnd.kubernetes.protobuf;stream=watch")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			event, err := s.event()
			if err != nil {
				return
			}
			at, end := bytes.Index(event, []byte(prefix+"-")), len(prefix)+1+fanDigits
			if at >= 0 && at+end <= len(event) && !send(ctx, seen, string(event[at:at+end])) {
				return
			}
		}
	}()
	return s.close, nil
}

func send(ctx context.Context, to chan<- string, name string) bool {
	select {
	case to <- name:
		return true
	case <-ctx.Done():
		return false
	}
}
