package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// What the controller goes by where nothing else is said: upstream's defaults.
const (
	cpuInitialization = 5 * time.Minute  // a pod's CPU counts only while it is ready before this age
	readinessDelay    = 30 * time.Second // a pod that became unready this early has never been ready
	defaultTolerance  = 0.1
)

// sample is what a pod uses of one resource, in thousandths.
type sample struct {
	at     time.Time
	window time.Duration
	value  int64
}

// samples are what the pods use of a resource: the container of that name, or all of a pod's. A pod that does not tell it of every
// container is left out.
func samples(usage []v1beta1.PodMetrics, name v1.ResourceName, container string) map[string]sample {
	out := make(map[string]sample, len(usage))
	for i := range usage {
		m := &usage[i]
		total, told := int64(0), 0
		for _, c := range m.Containers {
			if container != "" && c.Name != container {
				continue
			}
			q, ok := c.Usage[name]
			if !ok {
				told = 0
				break
			}
			total += q.MilliValue()
			told++
		}
		if told > 0 {
			out[m.Name] = sample{at: m.Timestamp.Time, window: m.Window.Duration, value: total}
		}
	}
	return out
}

// tolerance is how far from 1 the ratio of what is used to what is wanted may be before anything is done.
type tolerance struct{ down, up float64 }

func (t tolerance) within(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// measured is what samples come to: the ratio to what is wanted, and what is shown.
type measured struct {
	ratio       float64
	utilization int32 // of what is requested, in percent
	average     int64 // of a pod, in thousandths
}

// rule is how samples are judged.
type rule struct {
	measure func(map[string]sample) (measured, error)
	// full is what a pod that tells nothing is taken to use where the others use less than is wanted.
	full func(pod string) int64
}

// byAverage wants an amount of each pod, in thousandths.
func byAverage(target int64) func([]*v1.Pod) (rule, error) {
	return func([]*v1.Pod) (rule, error) {
		return rule{
			measure: func(have map[string]sample) (measured, error) {
				average := total(have) / int64(len(have))
				return measured{ratio: float64(average) / float64(target), average: average}, nil
			},
			full: func(string) int64 { return target },
		}, nil
	}
}

func total(have map[string]sample) (sum int64) {
	for _, s := range have {
		sum += s.value
	}
	return sum
}

// byUtilization wants a share, in percent, of what the pods request.
func byUtilization(target int32, name v1.ResourceName, container string) func([]*v1.Pod) (rule, error) {
	return func(pods []*v1.Pod) (rule, error) {
		requests := make(map[string]int64, len(pods))
		for _, p := range pods {
			var err error
			if requests[p.Name], err = request(p, name, container); err != nil {
				return rule{}, err
			}
		}
		return rule{
			measure: func(have map[string]sample) (measured, error) {
				var used, requested, n int64
				for pod, s := range have {
					if r, ok := requests[pod]; ok {
						used, requested, n = used+s.value, requested+r, n+1
					}
				}
				if requested == 0 {
					return measured{}, errors.New("no metrics returned matched known pods")
				}
				share := int32(min(float64(used)*100/float64(requested), math.MaxInt32))
				return measured{ratio: float64(share) / float64(target), utilization: share, average: used / n}, nil
			},
			full: func(pod string) int64 { return requests[pod] * int64(max(100, target)) / 100 },
		}, nil
	}
}

// request is what a pod requests of a resource, in thousandths: as a whole where it does so, or by its containers that stay.
func request(p *v1.Pod, name v1.ResourceName, container string) (int64, error) {
	if container == "" && resourcehelpers.IsPodLevelRequestsSet(p) {
		q, ok := resourcehelpers.PodRequests(p, resourcehelpers.PodResourcesOptions{})[name]
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", name, p.Name)
		}
		return q.MilliValue(), nil
	}
	sum, found := int64(0), false
	add := func(c *v1.Container) error {
		if container != "" && c.Name != container {
			return nil
		}
		q, ok := c.Resources.Requests[name]
		if !ok {
			return fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, p.Name)
		}
		sum, found = sum+q.MilliValue(), true
		return nil
	}
	for i := range p.Spec.Containers {
		if err := add(&p.Spec.Containers[i]); err != nil {
			return 0, err
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			if err := add(c); err != nil {
				return 0, err
			}
		}
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
	}
	return sum, nil
}

// groups are the pods by what their samples are worth.
type groups struct {
	ready            int
	unready, missing []string
}

// sort takes the samples away that do not count: of pods that go, have failed, have not begun, or are not ready. Of CPU, what a pod uses
// while it starts says nothing.
func sort(pods []*v1.Pod, have map[string]sample, name v1.ResourceName, now time.Time) (g groups) {
	for _, p := range pods {
		s, told := have[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == v1.PodFailed:
			delete(have, p.Name)
		case p.Status.Phase == v1.PodPending:
			g.unready = append(g.unready, p.Name)
			delete(have, p.Name)
		case !told:
			g.missing = append(g.missing, p.Name)
		case name == v1.ResourceCPU && starting(p, s, now):
			g.unready = append(g.unready, p.Name)
			delete(have, p.Name)
		default:
			g.ready++
		}
	}
	return g
}

func starting(p *v1.Pod, s sample, now time.Time) bool {
	began := p.Status.StartTime
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != v1.PodReady {
			continue
		}
		if began == nil {
			return true
		}
		if began.Add(cpuInitialization).After(now) {
			return c.Status == v1.ConditionFalse || s.at.Before(c.LastTransitionTime.Add(s.window))
		}
		return c.Status == v1.ConditionFalse && began.Add(readinessDelay).After(c.LastTransitionTime.Time)
	}
	return true
}

// propose says how many replicas a metric asks for. Pods that tell nothing, and those that are not ready, are counted in favour of leaving
// all as it is: as idle where there seem to be too few, as busy where there seem to be too many. have is used up.
func propose(current int32, pods []*v1.Pod, have map[string]sample, name v1.ResourceName, t tolerance, now time.Time, by func([]*v1.Pod) (rule, error)) (int32, measured, error) {
	if len(pods) == 0 {
		return 0, measured{}, errors.New("no pods returned by selector while calculating replica count")
	}
	g := sort(pods, have, name, now)
	if len(have) == 0 {
		return 0, measured{}, errors.New("did not receive metrics for targeted pods (pods might be unready)")
	}
	r, err := by(pods)
	if err != nil {
		return 0, measured{}, err
	}
	first, err := r.measure(have)
	if err != nil {
		return 0, measured{}, err
	}
	up := first.ratio > 1
	if len(g.missing) == 0 && (!up || len(g.unready) == 0) {
		if t.within(first.ratio) {
			return current, first, nil
		}
		return ceil(first.ratio * float64(g.ready)), first, nil
	}
	for _, pod := range g.missing {
		switch {
		case up:
			have[pod] = sample{}
		case first.ratio < 1:
			have[pod] = sample{value: r.full(pod)}
		}
	}
	if up {
		for _, pod := range g.unready {
			have[pod] = sample{}
		}
	}
	again, err := r.measure(have)
	if err != nil {
		return 0, first, err
	}
	n := ceil(again.ratio * float64(len(have)))
	turned := up && again.ratio < 1 || first.ratio < 1 && again.ratio > 1
	backwards := again.ratio < 1 && n > current || again.ratio > 1 && n < current
	if t.within(again.ratio) || turned || backwards {
		return current, first, nil
	}
	return n, first, nil
}

// ceil rounds up, and stays a number of replicas.
func ceil(n float64) int32 { return int32(min(math.Ceil(n), math.MaxInt32)) }
