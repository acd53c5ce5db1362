// Package ephemeralvolumes makes the claims of pods' generic ephemeral volumes. They belong to their pods and go with them.
package ephemeralvolumes

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/ephemeral"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var (
	pods   = schema.GroupResource(client.Pods)
	claims = schema.GroupResource(client.Claims)
)

// Claim is the claim of a pod's ephemeral volume.
func Claim(pod *v1.Pod, v *v1.Volume) *v1.PersistentVolumeClaim {
	t := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, v), Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: t.Spec,
	}
}

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	tried, failed prometheus.Counter // creations, under upstream's names
}

// New makes the controller. Its keys are pods.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("ephemeralvolumes"); err != nil {
		return nil, err
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Subsystem: "ephemeral_volume_controller", Name: name, Help: help})
	}
	k := &controller{c, counter("create_total", "How often a claim was to be made."), counter("create_failures_total", "How often that failed.")}
	return loop.New(loop.Config{
		Name: "ephemeral-volume", View: c.View, Reconcile: k.reconcile, Workers: 4, Logger: c.Logger, Metrics: []prometheus.Collector{k.tried, k.failed},
		Watches: []loop.Watch{
			// A pod's volumes never change: its coming is all that matters, and a claim's going.
			{Resource: pods, Keys: func(c view.Change) []view.Key {
				if c.New == nil || c.Old != nil && c.Old.Meta.GetUID() == c.New.Meta.GetUID() || !wants(c.New.Object.(*v1.Pod)) {
					return nil
				}
				return []view.Key{c.New.Key}
			}},
			{Resource: claims, Keys: k.lost},
		},
	})
}

func wants(pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
}

func (k *controller) lost(c view.Change) (out []view.Key) {
	if c.New != nil {
		return nil
	}
	for e := range k.View.Snapshot().By(pods, registry.ClaimIndex, c.Old.Key.Namespace+"/"+c.Old.Key.Name) {
		if wants(e.Object.(*v1.Pod)) {
			out = append(out, e.Key)
		}
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(pods, key.Namespace, key.Name)
	if e == nil || !wants(e.Object.(*v1.Pod)) {
		return res, nil
	}
	pod := e.Object.(*v1.Pod)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		wrote, err := k.ensure(ctx, s, pod, v)
		if err != nil {
			k.Events.Eventf(pod, v1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
			return res, fmt.Errorf("ephemeral volume %s: %w", v.Name, err)
		}
		res.Wrote = max(res.Wrote, wrote)
	}
	return res, nil
}

// ensure makes the claim unless it is there; somebody else's of that name is an error.
func (k *controller) ensure(ctx context.Context, s view.Snapshot, pod *v1.Pod, v *v1.Volume) (int64, error) {
	c := Claim(pod, v)
	if e := s.Get(claims, c.Namespace, c.Name); e != nil {
		return 0, ephemeral.VolumeIsForPod(pod, e.Object.(*v1.PersistentVolumeClaim))
	}
	k.tried.Inc()
	out, err := k.Client.Create(ctx, client.Claims.At(c.Namespace, ""), c)
	if err != nil {
		k.failed.Inc()
		return 0, fmt.Errorf("create PVC %s: %w", c.Name, err)
	}
	return loop.Revision(out), nil
}
