package load

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deployments whose pods are for fake nodes.

func (c *Client) deployment(name string, replicas int) *appsv1.Deployment {
	pod := c.waiting("", false)
	pod.Labels = map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// Rollout makes so many Deployments of so many pods each and returns how long it took from the first request until the last pod was
// bound.
func (c Cluster) Rollout(ctx context.Context, deployments, pods int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	return took, c.with(func(client *Client) error {
		look := binding{n: deployments * pods, prefix: "rollout-", bound: map[string]bool{}}
		if _, err := client.pods().List(ctx, metav1.ListOptions{Limit: 1}); err != nil { // connects
			return err
		}
		began, bound := time.Now(), make(chan error, 1)
		go func() { bound <- look.run(ctx, client) }()
		_, _, err := c.many(ctx, makers, deployments, func(ctx context.Context, client *Client, i int) error {
			_, err := client.AppsV1().Deployments(Namespace).Create(ctx, client.deployment(fmt.Sprint("rollout-", i), pods), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		err = <-bound
		took = time.Since(began)
		return err
	})
}

// Undeploy deletes every Deployment, and returns when no ReplicaSet is left.
func (c Cluster) Undeploy(ctx context.Context) error {
	return c.with(func(client *Client) error {
		background := metav1.DeletePropagationBackground
		err := client.AppsV1().Deployments(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		for err == nil {
			var left *appsv1.ReplicaSetList
			if left, err = client.AppsV1().ReplicaSets(Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err == nil && len(left.Items) == 0 {
				return nil
			}
			if e := Pause(ctx, 50*time.Millisecond); e != nil {
				return e
			}
		}
		return err
	})
}
