package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"podo.dev/podo/internal/scheduler/extender"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
)

// extenders are asked away from the scheduling goroutine, for a bounded number of pods at once: one that hangs holds up the pods in which it
// has a say, and nobody else.
//
//	             in flight                          the answer, judged against the cluster as it is by then
//	attempt ──► asked about nodes ──────────────────► assumed on one of them
//	   │                 └────────────────────────────► none is left: as when no node takes it
//	   └─ no node takes it ──► asked about victims ──► nominated, or not
type extenders struct {
	all     []*extender.Extender
	asking  int
	waiting []func() answer // more than maxAsking
	answers chan answer
	ctx     context.Context
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// maxAsking is for how many pods extenders are asked at once.
const maxAsking = 16

// answer is what to do on the scheduling goroutine now that extenders have been asked.
type answer func(now time.Time)

// newExtenders makes those of a configuration: those that can be ignored are asked last.
func newExtenders(c Config) (*extenders, error) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &extenders{answers: make(chan answer, maxAsking), ctx: ctx, stop: cancel}
	for _, ignorable := range []bool{false, true} {
		for _, e := range c.Profiles.Extenders {
			if e.Ignorable != ignorable {
				continue
			}
			made, err := extender.New(e, c.Transport)
			if err != nil {
				cancel()
				return nil, err
			}
			x.all = append(x.all, made)
		}
	}
	return x, nil
}

// who has a say about a pod, among the extenders that can do something.
func (x *extenders) who(pod *v1.Pod, can func(*extender.Extender) bool) (out []*extender.Extender) {
	for _, e := range x.all {
		if can(e) && e.Interested(pod) {
			out = append(out, e)
		}
	}
	return out
}

// judge tells whether any of them judges nodes.
func (x *extenders) judge() bool { return slices.ContainsFunc(x.all, (*extender.Extender).Judges) }

// ask runs a question in the background; its answer arrives in answers.
func (x *extenders) ask(question func() answer) {
	if x.asking >= maxAsking {
		x.waiting = append(x.waiting, question)
		return
	}
	x.asking++
	x.ended.Go(func() { x.answers <- question() })
}

// answered handles an answer and starts the next question.
func (x *extenders) answered(a answer, now time.Time) {
	x.asking--
	if len(x.waiting) > 0 {
		next := x.waiting[0]
		x.waiting = x.waiting[1:]
		x.ask(next)
	}
	a(now)
}

func (x *extenders) close() {
	x.stop()
	x.ended.Wait()
}

// moment is when extenders were asked about a pod.
type moment struct {
	news uint64
	pod  *framework.Pod
}

func (r *run) now(item *queue.Item) moment { return moment{r.news, item.Pod} }

// catchUp has a pod that was put aside tried again, if something happened while extenders were asked about it: events only wake pods that
// wait.
func (r *run) catchUp(item *queue.Item, asked moment, now time.Time) {
	was, is := asked.pod, item.Pod
	if r.news == asked.news && is.Shape == was.Shape && maps.Equal(is.Object.Labels, was.Object.Labels) && maps.Equal(is.Object.Annotations, was.Object.Annotations) {
		return
	}
	r.event = "ForceActivate"
	r.queue.WakeOne(is.Object.UID, "something happened while extenders were asked", now)
}

// consult has extenders judge the nodes that the plug-ins left.
func (r *run) consult(item *queue.Item, who []*extender.Extender, nodes []*framework.Node, began time.Time) {
	pod, asked := item.Pod.Object, r.now(item)
	objects := make([]*v1.Node, len(nodes))
	for i, n := range nodes {
		objects[i] = n.Object
	}
	r.extenders.ask(func() answer {
		opinion, err := r.opinion(who, pod, objects)
		return func(now time.Time) {
			if r.queue.Item(pod.UID) != item || item.State != queue.InFlight {
				return // gone meanwhile
			}
			if err != nil {
				r.failed(item, err, began)
				return
			}
			r.decided(item, r.planner[pod.Spec.SchedulerName].Among(r.cluster, item.Pod, opinion), began)
			r.catchUp(item, asked, now)
		}
	})
}

// dropped is the rejection of nodes that an extender leaves out without a reason.
var dropped = &framework.Rejection{Plugin: extended, Unresolvable: true}

// opinion asks one extender after the other. It runs on a goroutine of its own.
func (r *run) opinion(who []*extender.Extender, pod *v1.Pod, nodes []*v1.Node) (plan.Opinion, error) {
	out := plan.Opinion{Rejected: map[string]*framework.Rejection{}, Scores: map[string]int64{}}
	words := map[string]*framework.Rejection{}
	reject := func(node, text string, hopeless bool) {
		key := fmt.Sprint(hopeless, text)
		if words[key] == nil {
			words[key] = &framework.Rejection{Plugin: extended, Reasons: []string{text}, Unresolvable: hopeless}
		}
		out.Rejected[node] = words[key]
	}
	for _, e := range who {
		if len(nodes) == 0 {
			break
		}
		v, err := e.Filter(r.extenders.ctx, pod, nodes)
		if err != nil {
			if !e.Ignorable() {
				return out, err
			}
			r.config.Logger.Info("extender failed and is left out", "extender", e.Name(), "error", err)
			continue
		}
		for _, n := range nodes {
			out.Rejected[n.Name] = dropped
		}
		for _, n := range v.Passed {
			delete(out.Rejected, n.Name)
		}
		for name, text := range v.Failed {
			reject(name, text, false)
		}
		for name, text := range v.Hopeless {
			reject(name, text, true)
		}
		nodes = v.Passed
	}
	for _, n := range nodes {
		out.Passed = append(out.Passed, n.Name)
	}
	if len(nodes) < 2 {
		return out, nil
	}
	for _, e := range who {
		scores, err := e.Prioritize(r.extenders.ctx, pod, nodes)
		if err != nil {
			r.config.Logger.Info("extender gave no score", "extender", e.Name(), "error", err)
		}
		for name, s := range scores {
			out.Scores[name] += s
		}
	}
	return out, nil
}

// consultVictims asks extenders about the pods that would have to leave.
func (r *run) consultVictims(item *queue.Item, d *plan.Diagnosis, who []*extender.Extender, found plan.Candidates, began time.Time) {
	pod, asked := item.Pod.Object, r.now(item)
	candidates, lower := map[string]*extenderv1.Victims{}, map[string][]*v1.Pod{}
	for _, c := range found.List {
		candidates[c.Node.Name] = &extenderv1.Victims{Pods: objects(c.Victims), NumPDBViolations: int64(c.Violations)}
		lower[c.Node.Name] = objects(plan.LowerPriority(item.Pod, c.Node))
	}
	r.extenders.ask(func() answer {
		left, err := r.victimsLeft(who, pod, candidates, lower)
		return func(now time.Time) {
			if r.queue.Item(pod.UID) != item || item.State != queue.InFlight {
				return
			}
			room := plan.Preemption{Text: "no candidate node for preemption"}
			if err != nil {
				room.Text = err.Error()
			} else if best := r.planner[pod.Spec.SchedulerName].Cheapest(r.cluster, left, now); best.Node != nil {
				room = r.nominate(item.Pod, best, now)
			}
			r.rejected(item, d, room, began)
			r.catchUp(item, asked, now)
		}
	})
}

// victimsLeft runs on a goroutine of its own.
func (r *run) victimsLeft(
	who []*extender.Extender, pod *v1.Pod, candidates map[string]*extenderv1.Victims, lower map[string][]*v1.Pod,
) (map[string]*extenderv1.Victims, error) {
	for _, e := range who {
		answer, err := e.Preempt(r.extenders.ctx, pod, candidates)
		var left map[string]*extenderv1.Victims
		if err == nil {
			left, err = known(e, answer, lower)
		}
		if err != nil {
			if e.Ignorable() {
				r.config.Logger.Info("extender failed and is left out", "extender", e.Name(), "error", err)
				continue
			}
			return nil, err
		}
		if candidates = left; len(left) == 0 {
			break
		}
	}
	return candidates, nil
}

// known finds the pods that an extender names: it may choose among pods of lower priority on the nodes that it was asked about.
func known(e *extender.Extender, answer map[string]*extenderv1.MetaVictims, lower map[string][]*v1.Pod) (map[string]*extenderv1.Victims, error) {
	out := map[string]*extenderv1.Victims{}
	for node, meta := range answer {
		of, asked := lower[node]
		if !asked {
			return nil, fmt.Errorf("extender %q wants pods to leave node %q, about which it was not asked", e.Name(), node)
		}
		if meta == nil || len(meta.Pods) == 0 {
			if e.Ignorable() {
				continue
			}
			return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
		}
		v := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
		for _, m := range meta.Pods {
			i := slices.IndexFunc(of, func(p *v1.Pod) bool { return m != nil && string(p.UID) == m.UID })
			if i < 0 {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", e.Name(), m, node)
			}
			v.Pods = append(v.Pods, of[i])
		}
		out[node] = v
	}
	return out, nil
}
