package controllers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/horizontalpodautoscaler"
	"podo.dev/podo/internal/view"
)

var autoscalers = client.Resource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}

// load is what each pod uses of the CPU, in thousandths; less than nothing cannot be told.
type load struct {
	w     *world
	milli atomic.Int64
	asked atomic.Int64
}

func (l *load) Pods(_ context.Context, namespace string, selector labels.Selector) (out []v1beta1.PodMetrics, err error) {
	l.asked.Add(1)
	if l.milli.Load() < 0 {
		return nil, errors.New("nobody measures")
	}
	for e := range l.w.view.Snapshot().All(client.Pods.At("", "").Resource, namespace, view.Key{}) {
		if p := e.Object.(*v1.Pod); selector.Matches(labels.Set(p.Labels)) {
			out = append(out, v1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: time.Second},
				Containers: []v1beta1.ContainerMetrics{{Name: "c", Usage: v1.ResourceList{"cpu": *resource.NewMilliQuantity(l.milli.Load(), resource.DecimalSI)}}},
			})
		}
	}
	return out, nil
}

// A Deployment grows with its load and shrinks when that has been gone for five minutes; what cannot be measured changes nothing and is
// said; without an autoscaler nobody measures.
func TestHorizontalPodAutoscaler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := rollouts(t)
		ctx, told, l := context.Background(), record.NewFakeRecorder(10000), &load{w: w}
		w.run(horizontalpodautoscaler.New(horizontalpodautoscaler.Config{View: w.view, Client: w.controllers, Metrics: l, Events: told}))
		w.deploy("web", "v1", 1, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("100m")}
		})
		w.settle()
		time.Sleep(10 * time.Minute)
		if n := l.asked.Load(); n != 0 {
			t.Errorf("measured %d times for nobody", n)
		}
		wanted := func() int32 { return *w.get(deployments.At("default", "web")).(*appsv1.Deployment).Spec.Replicas }
		status := func() autoscalingv2.HorizontalPodAutoscalerStatus {
			return w.get(autoscalers.At("default", "web")).(*autoscalingv2.HorizontalPodAutoscaler).Status
		}
		h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		h.Spec.MinReplicas, h.Spec.MaxReplicas = new(int32(2)), 6
		l.milli.Store(240)
		w.must(w.admin.Create(ctx, autoscalers.At("default", ""), h))
		time.Sleep(time.Second)
		if n := wanted(); n != 2 {
			t.Errorf("%d replicas, below the minimum", n)
		}
		for range 3 {
			w.settle()
			time.Sleep(15 * time.Second)
		}
		if n := wanted(); n != 6 {
			t.Errorf("%d replicas under load: %+v", n, status())
		}
		w.settle()
		time.Sleep(31 * time.Second)
		s := status()
		if s.CurrentReplicas != 6 || s.DesiredReplicas != 6 || s.LastScaleTime == nil || s.ObservedGeneration == nil || *s.ObservedGeneration != 1 ||
			len(s.CurrentMetrics) != 1 || s.CurrentMetrics[0].Resource == nil || *s.CurrentMetrics[0].Resource.Current.AverageUtilization != 240 {
			t.Errorf("%+v", s)
		}
		asked := l.asked.Load()
		time.Sleep(time.Minute)
		if n := l.asked.Load() - asked; n != 4 {
			t.Errorf("measured %d times a minute", n)
		}
		l.milli.Store(-1)
		time.Sleep(time.Minute)
		c := status().Conditions
		if i := slices.IndexFunc(c, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return c.Type == autoscalingv2.ScalingActive
		}); i < 0 ||
			c[i].Reason != "FailedGetResourceMetric" || !strings.HasSuffix(c[i].Message, "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: nobody measures") || wanted() != 6 {
			t.Errorf("%d replicas, %+v", wanted(), c)
		}
		l.milli.Store(1)
		time.Sleep(4 * time.Minute)
		if n := wanted(); n != 6 {
			t.Errorf("%d replicas, too soon", n)
		}
		time.Sleep(2 * time.Minute)
		if n := wanted(); n != 2 {
			t.Errorf("%d replicas at rest: %+v", n, status())
		}
		var events []string
		for len(told.Events) > 0 {
			if e := <-told.Events; !slices.Contains(events, e) {
				events = append(events, e)
			}
		}
		if len(events) < 5 || events[0] != "Normal SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.MinReplicas" ||
			events[len(events)-1] != "Normal SuccessfulRescale New size: 2; reason: All metrics below target" {
			t.Errorf("%q", events)
		}
		const scaling = "horizontal_pod_autoscaler_controller_"
		for _, c := range [][]string{{"scale_up", "none"}, {"scale_down", "none"}, {"none", "internal"}} {
			if n, timed := w.metric(scaling+"reconciliations_total", c...), w.metric(scaling+"reconciliation_duration_seconds", c...); n == 0 || timed != n {
				t.Errorf("%v: %v looks by the metrics, %v of them timed", c, n, timed)
			}
			c = append(c, "Resource")
			if n, timed := w.metric(scaling+"metric_computation_total", c...), w.metric(scaling+"metric_computation_duration_seconds", c...); n == 0 || timed != n {
				t.Errorf("%v: %v metrics by the metrics, %v of them timed", c, n, timed)
			}
		}
		if there, desired := w.metric(scaling+"num_horizontal_pod_autoscalers"), w.metric(scaling+"desired_replicas", "web", "default"); there != 1 || desired != 2 {
			t.Errorf("%v autoscalers, which want %v replicas, by the metrics", there, desired)
		}
		// One that means nothing that there is says so, and is asked for again.
		w.must(w.admin.Create(ctx, autoscalers.At("default", ""), &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lost"},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 1, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "gone"}},
		}))
		time.Sleep(time.Second)
		if got := w.get(autoscalers.At("default", "lost")).(*autoscalingv2.HorizontalPodAutoscaler).Status.Conditions; len(got) != 1 || got[0].Reason != "FailedGetScale" ||
			got[0].Message != `the HPA controller was unable to get the target's current scale: deployments.apps "gone" not found` {
			t.Errorf("%+v", got)
		}
		w.must(nil, w.admin.Delete(ctx, autoscalers.At("default", "web"), metav1.DeleteOptions{}))
		asked = l.asked.Load()
		time.Sleep(time.Minute)
		if n := l.asked.Load() - asked; n != 0 {
			t.Errorf("measured %d times for one that is gone", n)
		}
	})
}
