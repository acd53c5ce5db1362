package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// OneByOne creates so many pods for fake nodes, each when the one before has been bound. For each, stored is how long it took from a watch's
// telling of the pod until the same watch told of its node, so that the way to the client counts on neither side; asked is how long it took from
// the request to create it, the creation and that way included.
func (c Cluster) OneByOne(ctx context.Context, n int) (stored, asked []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	client, err := c.Dial()
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	list, err := client.pods().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, nil, err
	}
	w, err := client.pods().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, nil, err
	}
	defer w.Stop()
	seen := make(chan sighting, 2) // as many as there are of one pod
	ended := make(chan error, 1)
	go func() { ended <- sight(ctx, w, seen) }()
	for i := range n {
		name := fmt.Sprintf("one-%d", i)
		began := time.Now()
		if _, err := client.pods().Create(ctx, client.waiting(name, false), metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
		var at [2]time.Time // waiting, bound
		for at[1].IsZero() {
			select {
			case s := <-seen:
				switch {
				case s.name != name:
				case s.bound:
					at[1] = s.at
				default:
					at[0] = s.at
				}
			case err := <-ended:
				return nil, nil, fmt.Errorf("pod %s was not seen bound: %w", name, err)
			}
		}
		if at[0].IsZero() {
			return nil, nil, fmt.Errorf("pod %s was seen bound, and never waiting", name)
		}
		stored, asked = append(stored, at[1].Sub(at[0])), append(asked, at[1].Sub(began))
	}
	return stored, asked, nil
}

// sighting is a pod that has come, or been bound.
type sighting struct {
	name  string
	bound bool
	at    time.Time
}

// sight tells of a pod's coming and of its first change with a node, until the watch ends.
func sight(ctx context.Context, w watch.Interface, seen chan<- sighting) error {
	last := ""
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		s := sighting{pod.Name, pod.Spec.NodeName != "", time.Now()}
		switch {
		case event.Type == watch.Added && !s.bound:
		case event.Type == watch.Modified && s.bound && s.name != last:
			last = s.name
		default:
			continue
		}
		select {
		case seen <- s:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(ctx.Err(), errors.New("the watch ended"))
}
