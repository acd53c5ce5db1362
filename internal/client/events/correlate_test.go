package events

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// What is written, with which count and message, and what is held back, is what client-go decides.
func TestCorrelationIsClientGos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		theirs, ours := record.NewEventCorrelator(clock.RealClock{}), newCorrelator()
		skipped, combined, counted := 0, 0, 0
		for i := range 20000 {
			// Of few messages each is counted by itself, ever new ones become one. (With some of both client-go's choice is a matter of chance.)
			reason, message := "Again", fmt.Sprint("m", r.IntN(5))
			if r.IntN(2) == 0 {
				reason, message = "New", fmt.Sprint("m", i)
			}
			e := &v1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("e", i), Namespace: "a"},
				InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "a", Name: fmt.Sprint("p", r.IntN(30))},
				Source:         v1.EventSource{Component: fmt.Sprint("c", r.IntN(3)), Host: "h"}, Type: []string{"Normal", "Warning"}[r.IntN(2)],
				Reason: reason, Message: message, Count: 1,
				FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
			}
			copied := *e
			want, err := theirs.EventCorrelate(e)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := ours.correlate(&copied)
			switch {
			case want.Skip != (got == nil):
				t.Fatalf("%d: held back %v, client-go %v", i, got == nil, want.Skip)
			case got == nil:
				skipped++
			default:
				w := want.Event
				if got.Name != w.Name || got.Count != w.Count || got.Message != w.Message || !got.FirstTimestamp.Equal(&w.FirstTimestamp) || !got.LastTimestamp.Equal(&w.LastTimestamp) || got.Source != w.Source {
					t.Fatalf("%d:\n%+v\n%+v", i, got, w)
				}
				if got.Count > 1 {
					counted++
				}
				if got.Message != copied.Message {
					combined++
				}
			}
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		if skipped < 100 || combined < 100 || counted < 100 {
			t.Errorf("%d held back, %d combined, %d counted: the load shows nothing", skipped, combined, counted)
		}
	})
}
