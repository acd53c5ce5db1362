package events

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The keys that were asked for last are known, and no others.
func TestRecent(t *testing.T) {
	r := newRecent[int](3)
	for i := range uint64(4) {
		*r.of(key{i}) = int(i) + 1
		*r.of(key{0}) = 100 // always among the last
	}
	for i, want := range []int{100, 0, 3, 4} { // 1 has made room
		if i == 1 {
			continue // asking would make it known
		}
		if got := *r.of(key{uint64(i)}); got != want {
			t.Errorf("%d: %d, want %d", i, got, want)
		}
	}
	if got := *r.of(key{1}); got != 0 || len(r.at) != 3 {
		t.Errorf("%d of what was forgotten, %d places", got, len(r.at))
	}
}

// Every pod has a handful of events, which are remembered until there are thousands of others.
func TestAnEventIsRememberedInLittle(t *testing.T) {
	c := newCorrelator()
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range remembered {
		e := &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("quiet-", i, ".18a7c4a9d5e0f1b2"), Namespace: "default"},
			InvolvedObject: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: fmt.Sprint("quiet-", i), UID: "5f0c1a2b-0000-4000-8000-1234567890ab", FieldPath: "spec.containers{app}"},
			Source:         v1.EventSource{Component: "kubelet", Host: "node"}, Type: v1.EventTypeNormal, Reason: "Started", Message: "Container started", Count: 1,
			FirstTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		}
		if out, _ := c.correlate(e); out == nil {
			t.Fatal("held back")
		}
	}
	// Two thirds of it are the event's own, a third its source's limit for the pod, which its other events share.
	if each := (held() - before) / remembered; each > 500 {
		t.Errorf("each takes %d bytes", each)
	} else {
		t.Logf("each takes %d bytes", each)
	}
	runtime.KeepAlive(c)
}
