package scheduler

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/queue"
)

// A pod is told one thing at a time, the newest, in whatever order calls end and fail; one that fails says nothing that has been overtaken.
func TestReportsOfAPodInTheirOrder(t *testing.T) {
	a, b := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	q := newReports()
	next := func(want string) report {
		t.Helper()
		r, ok := q.next()
		got := "nothing"
		if ok {
			got = fmt.Sprint(r.pod.UID, " ", r.reason, " ", r.nominate, " ", r.tries)
		}
		if got != want {
			t.Fatalf("told %q, want %q", got, want)
		}
		return r
	}
	q.add(report{pod: a, reason: "first"})
	q.add(report{pod: b, reason: "other"})
	q.add(report{pod: a, reason: "second"})
	q.add(report{pod: a, nominate: "node"})
	next("a second node 0")
	q.add(report{pod: a, reason: "third"})
	next("b other  0")
	next("nothing") // of a something is being told
	q.told("b")
	next("nothing")
	q.told("a")
	third := next("a third  0")
	q.add(report{pod: a, nominate: "elsewhere"})
	third.tries++
	q.failed(third)
	fourth := next("a third elsewhere 1") // not told yet, and where it waits is newer
	q.add(report{pod: a, reason: "fifth"})
	fourth.tries++
	q.failed(fourth)
	next("a fifth  0")
	q.told("a")
	next("nothing")
	if len(q.waiting)+len(q.order)+len(q.telling) != 0 {
		t.Errorf("left: %+v", q)
	}
}

// Who starts anew takes in where a pod waits also while that is to be told once more: it may be there already, and nothing would change.
func TestWhoStartsAnewTakesInNominations(t *testing.T) {
	r := &run{
		out: newOutbox(Config{}), cluster: framework.NewCluster(),
		queue: queue.New(queue.Config{Less: func(a, b *framework.Pod) bool { return false }}),
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	pod.Status.NominatedNodeName = "node-a"
	r.out.report(report{pod: pod, nominate: "node-a"})
	r.setWaiting(pod, time.Now())
	if got := r.waitsOn(pod.UID); got != "node-a" {
		t.Errorf("waits on %q", got)
	}
}
