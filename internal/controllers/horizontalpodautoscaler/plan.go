// Package horizontalpodautoscaler gives workloads as many replicas as their pods' use of resources asks for.
//
//	replicas.go    pure: what one metric asks for
//	history.go     pure: how far a wish may be followed now
//	plan.go        pure: what is to be done, and what the status says
//	metrics.go     what it tells of itself
//	controller.go  reads the target's scale and the pods' usage, writes the scale and the status
//
// Metrics of pods, objects and the outside come from programs that serve custom.metrics.k8s.io and external.metrics.k8s.io. There are
// none here: such a metric fails as upstream's does without them.
package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// world is what a decision is made of.
type world struct {
	hpa   *autoscalingv2.HorizontalPodAutoscaler
	scale *autoscalingv1.Scale
	// selector is why the pods could not be found: a condition's reason and message; nil when they were.
	selector *wrong
	pods     []*v1.Pod
	usage    []v1beta1.PodMetrics
	usageErr error
	now      time.Time
	clock    func() time.Time // to time with; nil for a clock that stands
}

func (w *world) time() time.Time {
	if w.clock == nil {
		return w.now
	}
	return w.clock()
}

// wrong is what is wrong with the target's selector: an event, and what the condition says where that is something else.
type wrong struct{ event, reason, text, message string }

// told is an event.
type told struct{ kind, reason, text string }

// decision is what is to be done. rescale asks for to replicas; then done says what comes of it.
type decision struct {
	status   autoscalingv2.HorizontalPodAutoscalerStatus
	events   []told
	rescale  bool
	from, to int32
	why      string
	failed   error // what the log says
	computed []computed

	hpa *autoscalingv2.HorizontalPodAutoscaler
	now time.Time
}

func begin(hpa *autoscalingv2.HorizontalPodAutoscaler, now time.Time) *decision {
	return &decision{hpa: hpa, now: now, status: *hpa.Status.DeepCopy()}
}

func (d *decision) warn(reason, text string) {
	d.events = append(d.events, told{v1.EventTypeWarning, reason, text})
}

func (d *decision) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, says verdict) {
	status := v1.ConditionFalse
	if is {
		status = v1.ConditionTrue
	}
	i := slices.IndexFunc(d.status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(d.status.Conditions)
		d.status.Conditions = append(d.status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &d.status.Conditions[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(d.now)
	}
	c.Status, c.Reason, c.Message = status, says.reason, says.message
}

// unreachable is the decision when the target's scale cannot be read.
func unreachable(hpa *autoscalingv2.HorizontalPodAutoscaler, err error, now time.Time) *decision {
	d := begin(hpa, now)
	d.warn("FailedGetScale", err.Error())
	d.condition(autoscalingv2.AbleToScale, false, verdict{"FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err)})
	d.failed = err
	return d
}

// decide says how many replicas there are to be. It notes in h what is wished for.
func decide(w *world, h *history) *decision {
	d, spec := begin(w.hpa, w.now), &w.hpa.Spec
	d.condition(autoscalingv2.AbleToScale, true, verdict{"SucceededGetScale", "the HPA controller was able to get the target's current scale"})
	current, least := w.scale.Spec.Replicas, int32(1)
	if spec.MinReplicas != nil {
		least = *spec.MinReplicas
	}
	if len(h.wishes) == 0 {
		h.wishes = []past{{current, w.now}}
	}
	d.from, d.to = current, current
	asleep := slices.ContainsFunc(w.hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScaledToZero && c.Status == v1.ConditionTrue
	})
	switch {
	case current == 0 && !(asleep && (least != 0 || fromOutside(spec.Metrics))): // somebody else wants none
		d.condition(autoscalingv2.ScalingActive, false, verdict{"ScalingDisabled", "scaling is disabled since the replica count of the target is zero"})
		d.finish(current, nil)
		return d
	case current > spec.MaxReplicas:
		d.rescale, d.to, d.why = true, spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas"
		d.finish(d.to, nil)
		return d
	case current != 0 && current < least:
		d.rescale, d.to, d.why = true, least, "Current number of replicas below Spec.MinReplicas"
		d.finish(d.to, nil)
		return d
	}
	wish, by, measured, err := d.metrics(w, current)
	d.failed = err
	if err != nil && wish < 0 {
		d.finish(w.hpa.Status.DesiredReplicas, measured)
		d.warn("FailedComputeMetricsReplicas", err.Error())
		return d
	}
	if wish > current {
		d.why = by + " above target"
	}
	if wish < current {
		d.why = "All metrics below target"
	}
	n, stable, limited := h.fit(current, wish, limits{behavior: spec.Behavior, min: least, max: spec.MaxReplicas}, w.now)
	d.condition(autoscalingv2.AbleToScale, true, stable)
	d.condition(autoscalingv2.ScalingLimited, limited != inRange, limited)
	if current == 0 && n < least {
		n = least
		if d.why == "" {
			d.why = "Current number of replicas below Spec.MinReplicas"
		}
	}
	d.to, d.rescale = n, n != current
	d.finish(n, measured)
	return d
}

// fromOutside says that there is a metric that can be measured without a pod.
func fromOutside(all []autoscalingv2.MetricSpec) bool {
	return slices.ContainsFunc(all, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// finish makes the status of what was found.
func (d *decision) finish(desired int32, measured []autoscalingv2.MetricStatus) {
	d.status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: new(d.hpa.Generation), LastScaleTime: d.hpa.Status.LastScaleTime, Conditions: d.status.Conditions,
		CurrentReplicas: d.from, DesiredReplicas: desired, CurrentMetrics: measured,
	}
}

// done says what came of the change of the scale. It notes in h what was done.
func (d *decision) done(err error, h *history) {
	if err != nil {
		d.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", d.to, d.why, err))
		d.condition(autoscalingv2.AbleToScale, false, verdict{"FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err)})
		d.finish(d.hpa.Status.DesiredReplicas, d.status.CurrentMetrics)
		d.failed = err
		return
	}
	d.condition(autoscalingv2.AbleToScale, true, verdict{"SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.to)})
	d.events = append(d.events, told{v1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", d.to, d.why)})
	h.scaled(d.from, d.to, d.hpa.Spec.Behavior, d.now)
	least := d.hpa.Spec.MinReplicas
	if d.from > 0 && d.to == 0 && least != nil && *least == 0 && fromOutside(d.hpa.Spec.Metrics) {
		d.condition(autoscalingv2.ScaledToZero, true, verdict{"ScaledToZero", "the HPA controller scaled the workload to zero"})
	} else {
		d.condition(autoscalingv2.ScaledToZero, false, verdict{"NotScaledToZero", "the HPA controller did not scale the workload to zero"})
	}
	d.status.LastScaleTime = new(metav1.NewTime(d.now))
}

// metrics is the highest number that a metric asks for, and which one. With a metric that cannot be had there are never fewer: then, and
// when none can be had, the number is -1. The error is of the first that cannot.
func (d *decision) metrics(w *world, current int32) (wish int32, by string, measured []autoscalingv2.MetricStatus, err error) {
	if s := w.selector; s != nil {
		d.warn(s.event, s.text)
		d.condition(autoscalingv2.ScalingActive, false, verdict{s.reason, s.message})
		return -1, "", nil, fmt.Errorf("%w%s", errSpec, s.text)
	}
	all := w.hpa.Spec.Metrics
	measured = make([]autoscalingv2.MetricStatus, len(all))
	failed, first := 0, verdict{}
	for i := range all {
		began := w.time()
		n, name, says, merr := d.metric(w, &all[i], current, &measured[i])
		c := computed{string(all[i].Type), "none", failing(merr), w.time().Sub(began)}
		if merr == nil {
			c.action = direction(current, n)
		}
		d.computed = append(d.computed, c)
		if merr != nil {
			if failed++; failed == 1 {
				err, first = merr, says
			}
			continue
		}
		if wish == 0 || n > wish {
			wish, by = n, name
		}
	}
	if err != nil {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", failed, len(all), err)
	}
	if failed >= len(all) || failed > 0 && wish < current {
		d.condition(autoscalingv2.ScalingActive, false, first)
		return -1, "", measured, err
	}
	d.condition(autoscalingv2.ScalingActive, true, verdict{"ValidMetricFound", "the HPA was able to successfully calculate a replica count from " + by})
	return wish, by, measured, err
}

// metric is what one metric asks for, and how it is called; or what the condition and the log say of one that cannot be had.
func (d *decision) metric(w *world, m *autoscalingv2.MetricSpec, current int32, out *autoscalingv2.MetricStatus) (n int32, name string, says verdict, err error) {
	fail := func(reason string, err error) verdict {
		d.warn(reason, err.Error())
		return verdict{reason, fmt.Sprintf("the HPA was unable to compute the replica count: %v", err)}
	}
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		r := m.Resource
		n, name, value, err := d.usage(w, r.Name, "", &r.Target, current)
		if err != nil {
			return 0, "", fail("FailedGetResourceMetric", err), fmt.Errorf("failed to get %s resource metric value: %w", r.Name, err)
		}
		*out = autoscalingv2.MetricStatus{Type: m.Type, Resource: &autoscalingv2.ResourceMetricStatus{Name: r.Name, Current: value}}
		return n, name, says, nil
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		r := m.ContainerResource
		n, name, value, err := d.usage(w, r.Name, r.Container, &r.Target, current)
		if err != nil {
			return 0, "", fail("FailedGetContainerResourceMetric", err), fmt.Errorf("failed to get %s container metric value: %w", r.Container, err)
		}
		*out = autoscalingv2.MetricStatus{
			Type: m.Type, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: r.Name, Container: r.Container, Current: value},
		}
		return n, name, says, nil
	}
	reason, what, err := elsewhere(m, w.hpa.Namespace)
	says = fail(reason, err)
	return 0, "", says, fmt.Errorf("%s%w", what, err)
}

// elsewhere is why a metric that others would have to serve cannot be had.
func elsewhere(m *autoscalingv2.MetricSpec, namespace string) (reason, what string, err error) {
	const custom = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
	switch {
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		o := m.Object
		err = fmt.Errorf("unable to get metric %s on %s %s/%s: %s", o.Metric.Name, o.DescribedObject.Kind, namespace, o.DescribedObject.Name, custom)
		if o.Target.Type != autoscalingv2.ValueMetricType {
			err = fmt.Errorf("failed to get %s object metric: %w", o.Metric.Name, err)
		}
		return "FailedGetObjectMetric", "failed to get object metric value: ", err
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		return "FailedGetPodsMetric", "failed to get pods metric value: ", fmt.Errorf("unable to get metric %s: %s", m.Pods.Metric.Name, custom)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		x := m.External
		err = fmt.Errorf("unable to get external metric %s/%s/%+v: unable to fetch metrics from external metrics API: the server could not find the requested resource (get %[2]s.external.metrics.k8s.io)",
			namespace, x.Metric.Name, x.Metric.Selector)
		if x.Target.AverageValue != nil {
			err = fmt.Errorf("failed to get %s external metric: %w", x.Metric.Name, err)
		} else {
			err = fmt.Errorf("failed to get external metric %s: %w", x.Metric.Name, err)
		}
		return "FailedGetExternalMetric", fmt.Sprintf("failed to get %s external metric value: ", x.Metric.Name), err
	}
	return "InvalidMetricSourceType", "", fmt.Errorf("%wunknown metric source type %q", errSpec, string(m.Type))
}

// usage is what the pods' use of a resource asks for.
func (d *decision) usage(w *world, name v1.ResourceName, container string, t *autoscalingv2.MetricTarget, current int32) (int32, string, autoscalingv2.MetricValueStatus, error) {
	var none autoscalingv2.MetricValueStatus
	kind, called := "usage", string(name)+" resource"
	var by func([]*v1.Pod) (rule, error)
	switch {
	case t.AverageValue != nil:
		by = byAverage(t.AverageValue.MilliValue())
	case t.AverageUtilization != nil:
		kind, by = "utilization", byUtilization(*t.AverageUtilization, name, container)
		called = fmt.Sprintf("%s resource utilization (percentage of request)", name)
		if container != "" {
			called = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
		}
	default:
		return 0, "", none, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	err := w.usageErr
	if err != nil {
		err = fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	} else if len(w.usage) == 0 {
		err = errors.New("no metrics returned from resource metrics API")
	}
	if err != nil {
		return 0, "", none, fmt.Errorf("failed to get %s %s: unable to get metrics for resource %s: %w", name, kind, name, err)
	}
	n, m, err := propose(current, w.pods, samples(w.usage, name, container), name, tolerances(w.hpa.Spec.Behavior), w.now, by)
	if err != nil {
		return 0, "", none, fmt.Errorf("failed to get %s %s: %w", name, kind, err)
	}
	format := resource.DecimalSI
	if name == v1.ResourceMemory {
		format = resource.BinarySI
	}
	value := autoscalingv2.MetricValueStatus{AverageValue: resource.NewMilliQuantity(m.average, format)}
	if kind == "utilization" {
		value.AverageUtilization = &m.utilization
	}
	return n, called, value, nil
}

func tolerances(b *autoscalingv2.HorizontalPodAutoscalerBehavior) tolerance {
	t := tolerance{defaultTolerance, defaultTolerance}
	if b != nil && b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b != nil && b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}
