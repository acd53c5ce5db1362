package load

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/scheduler/shapes"
)

// A load of the scheduler as objects of a running cluster. The nodes are objects only; their pods go at once when they are deleted.

// urgent is the class of pods with a priority.
const urgent = "bench-urgent"

// Lay makes what there is before the load begins, and so many pods that wait.
func (c Cluster) Lay(ctx context.Context, l *shapes.Load, nodes, pods int) error {
	err := c.with(func(client *Client) error {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 10}
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	_, _, err = c.many(ctx, makers, nodes, func(ctx context.Context, client *Client, i int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, shapedNode(l, i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	create := func(n int, of func(i int) *v1.Pod) error {
		_, _, err := c.many(ctx, makers, n, func(ctx context.Context, client *Client, i int) error {
			_, err := client.pods().Create(ctx, shapedPod(of(i)), metav1.CreateOptions{})
			return err
		})
		return err
	}
	if l.Before != nil {
		if err := create(l.Placed(nodes), func(i int) *v1.Pod { return l.Before(nodes, i) }); err != nil {
			return err
		}
	}
	if l.Waiting != nil {
		if err := create(l.Stuck, l.Waiting); err != nil {
			return err
		}
	}
	return create(pods, func(i int) *v1.Pod { return l.Pod(nodes, i) })
}

func shapedNode(l *shapes.Load, i int) *v1.Node {
	var labels map[string]string
	if l.Label != nil {
		labels = l.Label(i)
	}
	n := shapes.Node(i, labels)
	n.Labels[fakeLabel] = ""
	return n
}

// shapedPod is a pod for fake nodes only. The API wants a class where a load names a priority.
func shapedPod(p *v1.Pod) *v1.Pod {
	if p.Spec.Priority != nil && *p.Spec.Priority > 0 {
		p.Spec.PriorityClassName = urgent
	}
	p.Spec.Priority = nil
	p.Spec.NodeSelector = map[string]string{fakeLabel: ""}
	p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	p.Spec.TerminationGracePeriodSeconds = new(int64(0))
	p.Spec.AutomountServiceAccountToken = new(false)
	return p
}

// Churn makes a node and a pod that goes nowhere and takes earlier ones away, ten times a second until ctx ends. What fails, since the
// server is only starting, is left out.
func (c Cluster) Churn(ctx context.Context) error {
	client, err := c.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	for i := 0; ; i++ {
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return nil
		}
		n := shapes.Node(1_000_000+i, nil)
		n.Labels = map[string]string{fakeLabel: "churn"}
		p := shapes.Pod(fmt.Sprint("churn-", i), func(*v1.Pod) {})
		p = shapedPod(p)
		p.Spec.NodeSelector = map[string]string{fakeLabel: "nowhere"}
		_, _ = client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		_, _ = client.pods().Create(ctx, p, metav1.CreateOptions{})
		if i >= 10 {
			_ = client.CoreV1().Nodes().Delete(ctx, shapes.Node(1_000_000+i-10, nil).Name, metav1.DeleteOptions{})
			_ = client.pods().Delete(ctx, fmt.Sprint("churn-", i-10), metav1.DeleteOptions{})
		}
	}
}
