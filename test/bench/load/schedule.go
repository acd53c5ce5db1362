package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Scheduling against nodes that are objects only. Nobody keeps them alive, so their pods bear every taint; and nobody runs those.

const fakeLabel = "bench.podo.dev/fake"

// makers is how many clients lay the work out: that is not measured.
const makers = 16

func fakeNode(i int) *v1.Node {
	size := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	name := fmt.Sprintf("fake-%d", i)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			fakeLabel: "", v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3), v1.LabelOSStable: "linux",
		}},
		Status: v1.NodeStatus{
			Capacity: size, Allocatable: size,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}},
		},
	}
}

// waiting is a pod for a fake node.
func (c *Client) waiting(name string, gated bool) *v1.Pod {
	pod := c.pod(name)
	pod.Labels = map[string]string{"app": "bench"}
	pod.Spec.NodeSelector = map[string]string{fakeLabel: ""}
	pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("100Mi")}
	if gated {
		pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: fakeLabel}}
	}
	return pod
}

// Layout makes nodes and pods that wait for a scheduler; gated ones wait for Ungate.
func (c Cluster) Layout(ctx context.Context, nodes, pods int, gated bool) error {
	_, _, err := c.many(ctx, makers, nodes, func(ctx context.Context, client *Client, i int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, fakeNode(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	_, _, err = c.many(ctx, makers, pods, func(ctx context.Context, client *Client, i int) error {
		_, err := client.pods().Create(ctx, client.waiting(waitingName(i), gated), metav1.CreateOptions{})
		return err
	})
	return err
}

func waitingName(i int) string { return fmt.Sprintf("waiting-%d", i) }

// Ungate takes the gates of so many pods away: for a cluster whose scheduler cannot be stopped. It is as much work for the API as
// binding is.
func (c Cluster) Ungate(ctx context.Context, pods int) error {
	patch, err := json.Marshal([]map[string]string{{"op": "remove", "path": "/spec/schedulingGates"}})
	if err != nil {
		return err
	}
	_, _, err = c.many(ctx, makers, pods, func(ctx context.Context, client *Client, i int) error {
		_, err := client.pods().Patch(ctx, waitingName(i), types.JSONPatchType, patch, metav1.PatchOptions{})
		return err
	})
	return err
}

// Unlay takes nodes and pods away.
func (c Cluster) Unlay(ctx context.Context) error {
	if _, err := c.Clear(ctx); err != nil {
		return err
	}
	return c.with(func(client *Client) error { return client.clearNodes(ctx) })
}

func (c *Client) clearNodes(ctx context.Context) error {
	return c.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: fakeLabel})
}

// Bound is how many pods were bound in a second, between two looks: the first that saw any bound, and the last binding. So the start
// of a scheduler is not counted, nor what it bound before anybody could look.
type Bound struct {
	PerSecond float64
	Counted   int // pods bound between the two looks
}

// Binding watches until n pods are bound whose names begin with prefix. The API may be restarting until the first is.
func (c Cluster) Binding(ctx context.Context, prefix string, n int) (Bound, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	client, err := c.Dial()
	if err != nil {
		return Bound{}, err
	}
	defer client.Close()
	for {
		look := binding{n: n, prefix: prefix, bound: map[string]bool{}}
		err := look.run(ctx, client)
		switch {
		case err == nil:
			return Bound{float64(n-look.before) / time.Since(look.first).Seconds(), n - look.before}, nil
		case look.before > 0 || ctx.Err() != nil:
			return Bound{}, fmt.Errorf("%d of %d pods were seen bound: %w", len(look.bound), n, err)
		}
		if err := Pause(ctx, 2*time.Millisecond); err != nil {
			return Bound{}, err
		}
	}
}

// binding is what lists and watches have told of the pods.
type binding struct {
	n      int
	prefix string
	bound  map[string]bool
	before int       // bound at the first look that saw any
	first  time.Time // not after that look
}

// run looks until all are bound. A watch that ends before any is means that the API restarts, and is an error; later it means that the server
// did not wait for this client, which looks again.
func (b *binding) run(ctx context.Context, client *Client) error {
	b.first = time.Now()
	at, err := b.list(ctx, client)
	if err != nil {
		return err
	}
	if b.before = len(b.bound); b.before == b.n {
		return errors.New("all were bound before anybody could look: take more")
	}
	for {
		if err := b.watch(ctx, client, at); err != nil || len(b.bound) == b.n {
			return err
		}
		if len(b.bound) == 0 {
			return errors.New("the watch ended")
		}
		if at, err = b.list(ctx, client); err != nil || len(b.bound) == b.n {
			return err
		}
	}
}

// list sees all pods, and returns the revision at which a watch goes on.
func (b *binding) list(ctx context.Context, client *Client) (revision string, err error) {
	list, err := client.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		b.see(&list.Items[i])
	}
	return list.ResourceVersion, nil
}

// watch sees what changes until all are bound or the server ends it.
func (b *binding) watch(ctx context.Context, client *Client, from string) error {
	w, err := client.pods().Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		b.see(pod)
		if b.before == 0 && len(b.bound) > 0 {
			b.before, b.first = 1, time.Now()
		}
		if len(b.bound) == b.n {
			return nil
		}
	}
	return ctx.Err()
}

func (b *binding) see(pod *v1.Pod) {
	if pod.Spec.NodeName != "" && strings.HasPrefix(pod.Name, b.prefix) {
		b.bound[pod.Name] = true
	}
}
