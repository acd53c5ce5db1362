package load

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Vanish deletes the namespace with whatever is in it, waits until it is gone and makes it anew. It returns how long the first two took.
func (c Cluster) Vanish(ctx context.Context) (took time.Duration, err error) {
	err = c.with(func(client *Client) error {
		began, err := client.vanish(ctx)
		took = time.Since(began)
		return err
	})
	return took, errors.Join(err, c.Open(ctx))
}

func (c *Client) vanish(ctx context.Context) (began time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	namespaces := c.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, Namespace, metav1.GetOptions{})
	if err != nil {
		return time.Now(), err
	}
	began = time.Now()
	if err := namespaces.Delete(ctx, Namespace, metav1.DeleteOptions{}); err != nil {
		return began, err
	}
	from := ns.ResourceVersion
	for {
		w, err := namespaces.Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", Namespace).String(), ResourceVersion: from,
		})
		if err != nil {
			return began, err
		}
		for e := range w.ResultChan() {
			switch o := e.Object.(type) {
			case *v1.Namespace:
				from = o.ResourceVersion
			case *metav1.Status:
				return began, apierrors.FromObject(o)
			}
			if e.Type == watch.Deleted {
				w.Stop()
				return began, nil
			}
		}
		if ctx.Err() != nil { // otherwise the server ended a watch that was old enough
			return began, ctx.Err()
		}
	}
}
