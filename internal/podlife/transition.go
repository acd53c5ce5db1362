package podlife

import (
	"slices"
	"strconv"

	"podo.dev/podo/internal/timeline"
)

// Records are the timeline records of the changes from a to b; the writer adds time and pod. Phases and conditions are not among
// them: they are recorded where they are reported (kubelet/status).
func Records(a, b State) []timeline.Record {
	var out []timeline.Record
	add := func(stage timeline.Stage, subject, from, to, cause string, fields ...timeline.Field) {
		if from != to {
			out = append(out, timeline.Record{Stage: stage, Subject: subject, From: from, To: to, Cause: cause, Fields: fields})
		}
	}
	if a.Stage == Admitting && b.Stage > Admitting {
		to, cause := "ok", ""
		if b.Reject != nil {
			to, cause = b.Reject.Reason, b.Reject.Message
		}
		if b.Reject != nil || b.Stage == Starting {
			add(timeline.Admitted, "", "", to, cause)
		}
	}
	stopped := a.Stage < Stopping && b.Stage >= Stopping && b.Stop.Why != NotStopped
	stopping := func() {
		grace := b.Stop.Deadline.Sub(b.Stop.At)
		add(timeline.Terminating, "", "", "stopping", string(b.Stop.Why), timeline.Field{Key: "grace", Value: grace.String()})
	}
	if stopped && b.Stop.Why != Completed {
		stopping()
	} else if a.Stage == Stopping && b.Stop.Deadline.Before(a.Stop.Deadline) {
		out = append(out, timeline.Record{Stage: timeline.Terminating, To: "hastened", Fields: []timeline.Field{
			{Key: "by", Value: a.Stop.Deadline.Sub(b.Stop.Deadline).String()},
		}})
	}
	held := func() {
		add(timeline.Volumes, "", a.Volumes.String(), b.Volumes.String(), failText(&a.volumesRetry, &b.volumesRetry))
		add(timeline.Sandbox, "", a.Sandbox.String(), b.Sandbox.String(), failText(&a.sandboxRetry, &b.sandboxRetry), sandboxFields(&b)...)
	}
	if b.Stage <= Running {
		held()
	}
	for i := range b.Containers {
		cb := &b.Containers[i]
		ca := a.Container(cb.Name)
		if ca == nil {
			ca = &Container{Name: cb.Name, spec: cb.spec}
		}
		from := ca.Stage
		if ended := cb.Cur != nil && cb.Cur.State == InstanceExited && (ca.Cur == nil || ca.Cur.ID != cb.Cur.ID || ca.Cur.State != InstanceExited); ended &&
			cb.Stage != Exited { // it did not stay so: both moves are recorded
			x := *cb
			x.Stage = Exited
			add(timeline.Container, cb.Name, from.String(), Exited.String(), cause(ca, &x), fields(&x)...)
			from = Exited
		}
		add(timeline.Container, cb.Name, from.String(), cb.Stage.String(), cause(ca, cb), fields(cb)...)
	}
	if stopped && b.Stop.Why == Completed { // the containers' end is its cause, not its consequence
		stopping()
	}
	if b.Stage > Running { // given back because the containers have ended
		held()
	}
	out = append(out, stays(&a, &b)...)
	if a.Stage < Finished && b.Stage >= Finished {
		add(timeline.Released, "", "", string(b.Final), string(b.Stop.Why))
	}
	return out
}

// stays are the records of what was to be stopped and could not be.
func stays(a, b *State) (out []timeline.Record) {
	add := func(stage timeline.Stage, subject, from string, before, now *retry) {
		if text := failText(before, now); text != "" {
			out = append(out, timeline.Record{Stage: stage, Subject: subject, From: from, To: "kept", Cause: text})
		}
	}
	for i := range b.Containers {
		cb := &b.Containers[i]
		if ca := a.Container(cb.Name); ca != nil && ca.Stage == TermSent && cb.Stage == TermSent {
			add(timeline.Container, cb.Name, TermSent.String(), &ca.retry, &cb.retry)
		}
	}
	for i := range b.sweeps {
		w := &b.sweeps[i]
		if j := slices.IndexFunc(a.sweeps, func(x sweep) bool { return x.id == w.id }); j >= 0 && w.sandbox && w.stage == sweepDue {
			add(timeline.Sandbox, "", "stopping", &a.sweeps[j].retry, &w.retry)
		}
	}
	return out
}

func failText(a, b *retry) string {
	if b.fail != nil && b.fail != a.fail {
		return b.fail.Message
	}
	return ""
}

func sandboxFields(s *State) []timeline.Field {
	out := []timeline.Field{{Key: "attempt", Value: strconv.Itoa(int(s.SandboxAttempt))}}
	if s.Sandbox == SandboxUp && len(s.IPs) > 0 {
		out = append(out, timeline.Field{Key: "ip", Value: s.IPs[0]})
	}
	return out
}

func cause(a, b *Container) string {
	switch {
	case b.Stage == Exited:
		return either(b.Cur.Reason != "", b.Cur.Reason, either(b.Cur.ExitCode == 0, "Completed", "Error"))
	case b.stopping():
		return b.StopWhy
	case b.Stage == BackOff, b.Stage == Waiting && a.Stage != BackOff && a.Stage != Exited:
		return b.Reason
	}
	return ""
}

func fields(b *Container) []timeline.Field {
	switch b.Stage {
	case Creating, Up:
		return []timeline.Field{{Key: "attempt", Value: strconv.Itoa(int(b.Attempt))}}
	case Exited:
		return []timeline.Field{{Key: "exit", Value: strconv.Itoa(int(b.Cur.ExitCode))}}
	case BackOff:
		return []timeline.Field{{Key: "wait", Value: either(b.Reason == crashLoop, b.restart.Wait, b.pull.Wait).String()}}
	}
	return nil
}
