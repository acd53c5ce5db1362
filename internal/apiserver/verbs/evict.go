package verbs

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
)

// Evict deletes a pod as an eviction asks, once its status says why. Who may evict need not be allowed to delete. Disruption budgets are
// not served yet, so that none forbids it.
func (v *Verbs) Evict(ctx context.Context, u user.Info, namespace, name string, d *metav1.DeleteOptions, o Options) error {
	ref := client.Pods.At(namespace, name).Sub("eviction")
	k, err := v.kind(ref.Resource)
	if err != nil {
		return err
	}
	if err := v.authorize(ctx, u, "create", ref, nil); err != nil {
		return err
	}
	o.DryRun = o.DryRun || len(d.DryRun) > 0
	if !o.DryRun {
		pod, err := v.guarded(ctx, u, k, client.Pods.At(namespace, name).Sub("status"), guard{rules: bindRules, owns: kept, Options: o}, func(cur runtime.Object) (runtime.Object, error) {
			if err := preconditions(k, accessor(cur), d.Preconditions); err != nil {
				return nil, err
			}
			return evicting(cur.(*v1.Pod), metav1.NewTime(v.c.Now()).Rfc3339Copy()), nil
		})
		if err != nil {
			return err
		}
		if p := d.Preconditions; p != nil && p.ResourceVersion != nil {
			d = d.DeepCopy()
			d.Preconditions.ResourceVersion = new(accessor(pod).GetResourceVersion())
		}
	}
	ref.Subresource = ""
	_, _, err = v.delete(ctx, u, k, ref, nil, d, o)
	return err
}

// evicting is the pod with the condition that tells that it is being evicted.
func evicting(pod *v1.Pod, now metav1.Time) *v1.Pod {
	pod = pod.DeepCopy()
	c := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		ObservedGeneration: pod.Generation, LastTransitionTime: now,
	}
	for i := range pod.Status.Conditions {
		if has := &pod.Status.Conditions[i]; has.Type == c.Type {
			if has.Status == c.Status {
				c.LastTransitionTime = has.LastTransitionTime
			}
			*has = c
			return pod
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
	return pod
}
