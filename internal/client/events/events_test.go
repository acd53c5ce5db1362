package events

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// flaky fails the first creates as an API server that is away does.
type flaky struct {
	client.Client
	left int
}

func (f *flaky) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("connection refused")
	}
	return f.Client.Create(ctx, ref, obj)
}

// node may write events and not read them, as a node's user.
type node struct{ client.Client }

func (node) Get(_ context.Context, ref client.Ref) (runtime.Object, error) {
	return nil, apierrors.NewForbidden(v1.Resource("events"), ref.Name, errors.New("cannot get"))
}

func (n node) Mutate(ctx context.Context, ref client.Ref, _ func(runtime.Object) (bool, error)) (runtime.Object, error) {
	return n.Get(ctx, ref)
}

// server is what events are written to, with the namespace that they are in.
func server(t *testing.T) *verbs.Verbs {
	t.Helper()
	vw, s := viewtest.New(t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	return vb
}

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}

// stored are the events that were written.
func stored(t *testing.T, vb *verbs.Verbs) (out []*v1.Event) {
	t.Helper()
	l, err := vb.List(t.Context(), admin, client.Events.At("default", ""), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Items {
		out = append(out, e.Object.(*v1.Event))
	}
	return out
}

// Its writer may not read what it wrote, which takes nothing from the counts.
func TestSimilarEventsBecomeOneWithACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vb := server(t)
		ctx, cancel := context.WithCancel(t.Context())
		r := New(ctx, &flaky{node{local.Node(vb, "n1")}, 2}, "kubelet", "n1", nil)
		pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
		for range 3 {
			r.Eventf(pod, v1.EventTypeNormal, "Pulled", "image %s is there", "x")
		}
		r.Event(pod, v1.EventTypeWarning, "BackOff", "wait")
		// Two refusals are retried 10 s apart at most: far less than a bubble's patience.
		w, err := vb.Watch(ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]*v1.Event{}
		until := func(pulled int32) {
			for last["BackOff"] == nil || last["Pulled"].Count < pulled {
				got, err := w.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range got {
					ev := e.Object.(*v1.Event)
					last[ev.Reason] = ev
				}
			}
		}
		until(3)
		// Somebody changes it, and then somebody deletes it.
		if _, err := local.Admin(vb).Mutate(ctx, client.Events.At("default", last["Pulled"].Name), func(obj runtime.Object) (bool, error) {
			obj.(*v1.Event).Labels = map[string]string{"a": "b"}
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		r.Eventf(pod, v1.EventTypeNormal, "Pulled", "image %s is there", "x")
		until(4)
		if err := local.Admin(vb).Delete(ctx, client.Events.At("default", last["Pulled"].Name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Eventf(pod, v1.EventTypeNormal, "Pulled", "image %s is there", "x")
		until(5)
		if e := last["Pulled"]; e.InvolvedObject.Name != "p" || e.Source != (v1.EventSource{Component: "kubelet", Host: "n1"}) || e.Message != "image x is there" {
			t.Errorf("%+v", e)
		}
		if all := stored(t, vb); len(all) != 2 {
			t.Errorf("%d events", len(all))
		}
		w.Close()
		cancel()
		synctest.Wait()
	})
}

// Sources that share a writer stay apart: each event names its own, and who tells too much takes nothing from another. What is no text
// becomes some.
func TestSourcesOfOneWriterStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vb := server(t)
		ctx, cancel := context.WithCancel(t.Context())
		w := Start(ctx, local.Admin(vb), nil)
		loud, calm := w.Recorder("loud-controller", ""), w.Recorder("calm-controller", "")
		pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
		for i := range 100 {
			loud.Eventf(pod, v1.EventTypeNormal, "Told", "the %d. time", i)
		}
		calm.Event(pod, v1.EventTypeNormal, "Told", "a\xff\xfeb 한글")
		synctest.Wait()
		told := map[string]int{}
		for _, e := range stored(t, vb) {
			told[e.Source.Component]++
			if e.Source.Component == "calm-controller" && e.Message != "a\uFFFD\uFFFDb 한글" {
				t.Errorf("a message that every client can read: %q", e.Message)
			}
		}
		// Nine of their own, and one that stands for all the others.
		if told["loud-controller"] != 10 || told["calm-controller"] != 1 {
			t.Errorf("told were %v", told)
		}
		cancel()
		synctest.Wait()
	})
}

// What a recorder costs: without a queue of its own next to nothing.
func BenchmarkRecorder(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(ctx context.Context, w *Writer)
	}{
		{"own", func(ctx context.Context, _ *Writer) { New(ctx, nil, "c", "", nil) }},
		{"shared", func(_ context.Context, w *Writer) { w.Recorder("c", "") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			w := Start(ctx, nil, nil)
			b.ReportAllocs()
			for b.Loop() {
				c.make(ctx, w)
			}
		})
	}
}

// What an event costs that is counted and held back, as most of a large Deployment's are.
func BenchmarkHeldBack(b *testing.B) {
	k, e := newCorrelator(), &v1.Event{Source: v1.EventSource{Component: "c"}, Count: 1, Reason: "SuccessfulCreate", Message: "m"}
	b.ReportAllocs()
	for b.Loop() {
		k.correlate(e)
	}
}

func BenchmarkHeldBackByClientGo(b *testing.B) {
	k, e := record.NewEventCorrelator(clock.RealClock{}), &v1.Event{Source: v1.EventSource{Component: "c"}, Count: 1, Reason: "SuccessfulCreate", Message: "m"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.EventCorrelate(e); err != nil {
			b.Fatal(err)
		}
	}
}
