package load

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Pods that run.

var no = false

// pod has no token mounted, so that every cluster does the same work for it, whatever it knows of tokens.
func (c *Client) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &now,
			AutomountServiceAccountToken:  &no,
			Containers: []v1.Container{{
				Name: "app", Image: c.cluster.Image, ImagePullPolicy: v1.PullIfNotPresent, Command: c.cluster.Command,
				LivenessProbe: c.cluster.Probe,
			}},
		},
	}
}

// Start creates the pods at once and returns how long it took until the last one's status said Running.
func (c *Client) Start(ctx context.Context, names ...string) (time.Duration, error) {
	return c.watched(ctx, names, func(ctx context.Context, name string) error {
		_, err := c.pods().Create(ctx, c.pod(name), metav1.CreateOptions{})
		return err
	}, func(t watch.EventType, p *v1.Pod) (bool, error) {
		if p.Status.Phase == v1.PodFailed || t == watch.Deleted {
			return false, fmt.Errorf("pod %s: %s: %s", p.Name, p.Status.Reason, p.Status.Message)
		}
		return p.Status.Phase == v1.PodRunning, nil
	})
}

// Delete deletes the pods at once with grace 0 and returns how long it took until the last object had gone.
func (c *Client) Delete(ctx context.Context, names ...string) (time.Duration, error) {
	return c.watched(ctx, names, func(ctx context.Context, name string) error {
		return c.pods().Delete(ctx, name, atOnce)
	}, func(t watch.EventType, _ *v1.Pod) (bool, error) { return t == watch.Deleted, nil })
}

// watched does something to each pod, all at once, and returns how long it took until a watch showed all of them done.
func (c *Client) watched(ctx context.Context, names []string, do func(context.Context, string) error,
	done func(watch.EventType, *v1.Pod) (bool, error),
) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	opts := metav1.ListOptions{}
	if len(names) == 1 {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", names[0]).String()
	}
	list, err := c.pods().List(ctx, opts)
	if err != nil {
		return 0, err
	}
	opts.ResourceVersion = list.ResourceVersion
	w, err := c.pods().Watch(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	waiting := map[string]bool{}
	errs := make(chan error, len(names))
	began := time.Now()
	for _, name := range names {
		waiting[name] = true
		go func() { errs <- do(ctx, name) }()
	}
	for range names {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok && ctx.Err() != nil {
			break
		}
		if !ok {
			return 0, apierrors.FromObject(event.Object)
		}
		if !waiting[pod.Name] {
			continue
		}
		if ok, err := done(event.Type, pod); err != nil {
			return 0, err
		} else if ok {
			delete(waiting, pod.Name)
		}
		if len(waiting) == 0 {
			return time.Since(began), nil
		}
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%d of %d pods are not there yet: %w", len(waiting), len(names), ctx.Err())
	}
	return 0, fmt.Errorf("the watch ended while %d of %d pods were not there yet", len(waiting), len(names))
}
