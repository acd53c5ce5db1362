package source_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

func pod(name, uid, node string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(uid)},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "a", Image: "i"}}},
	}
}

// The pods of this node, each operation told apart, and nothing of other nodes.
func TestAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t, pod("old", "u1", "n1"), pod("other", "u2", "n2"))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := make(chan source.Change, 100)
		go source.API{View: v, Node: "n1", Log: slog.New(slog.DiscardHandler)}.Run(ctx, out) //nolint:errcheck // it returns nil
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			for len(out) > 0 {
				c := <-out
				text := string(c.Op)
				if c.Pod != nil {
					text += " " + c.Pod.Name + " " + string(c.Pod.UID)
				}
				got = append(got, text)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		expect("ADD old u1", "SYNCED")

		viewtest.Put(t, s, pod("other", "u2", "n2"))
		viewtest.Put(t, s, pod("new", "u3", "")) // not bound yet
		expect()
		viewtest.Put(t, s, pod("new", "u3", "n1"))
		expect("ADD new u3")

		p := pod("new", "u3", "n1")
		p.Status.Phase = v1.PodRunning
		viewtest.Put(t, s, p)
		expect("RECONCILE new u3")
		p.Spec.Containers[0].Image = "j"
		viewtest.Put(t, s, p)
		expect("UPDATE new u3")
		now, grace := metav1.Now(), int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
		viewtest.Put(t, s, p)
		expect("DELETE new u3")
		grace = 1
		viewtest.Put(t, s, p)
		expect("DELETE new u3")
		viewtest.Delete(t, s, p)
		expect("REMOVE new u3")

		viewtest.Put(t, s, pod("old", "u4", "n1")) // another one of its name
		expect("REMOVE old u1", "ADD old u4")
	})
}

// A pod of the API that claims to stand in a file of this node's is one of the API all the same; a mirror is what it was written as.
func TestAPIKnowsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := func(name string, annotations map[string]string) *v1.Pod {
			p := pod(name, name, "n1")
			p.Annotations = annotations
			return p
		}
		liar := claims("liar", map[string]string{podlife.SourceAnnotation: "file", podlife.HashAnnotation: "h", "of": "mine"})
		v, s := viewtest.New(t, liar, claims("mirror", map[string]string{podlife.SourceAnnotation: "file", v1.MirrorPodAnnotationKey: "h"}))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := make(chan source.Change, 100)
		go source.API{View: v, Node: "n1", Log: slog.New(slog.DiscardHandler)}.Run(ctx, out) //nolint:errcheck // it returns nil
		time.Sleep(time.Second)
		viewtest.Delete(t, s, liar)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, want := range []string{"ADD liar api mine", "ADD mirror file ", "SYNCED", "REMOVE liar api mine"} {
			c := <-out
			got := string(c.Op)
			if c.Pod != nil {
				got += " " + c.Pod.Name + " " + c.Pod.Annotations[podlife.SourceAnnotation] + " " + c.Pod.Annotations["of"]
			}
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if liar.Annotations[podlife.SourceAnnotation] != "file" {
			t.Error("the object that others share was changed")
		}
	})
}

// A server that was restored may give a pod another form under a version that was seen before: it is told. What is told again is not.
func TestAPIWithAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, feed, err := view.NewFed(view.Config{Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := make(chan source.Change, 100)
		go source.API{View: v, Node: "n1", Log: slog.New(slog.DiscardHandler)}.Run(ctx, out) //nolint:errcheck // it returns nil
		tell := func(change func(*v1.Pod)) (ops []source.Op) {
			p := pod("p", "u", "n1")
			p.ResourceVersion = "7"
			change(p)
			if err := feed.Replace(schema.GroupResource{Resource: "pods"}, func(view.Key) bool { return true }, []runtime.Object{p}); err != nil {
				t.Fatal(err)
			}
			feed.Complete()
			time.Sleep(time.Second)
			synctest.Wait()
			for len(out) > 0 {
				ops = append(ops, (<-out).Op)
			}
			return ops
		}
		as := func(*v1.Pod) {}
		end := func(p *v1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(1))
		}
		for i, step := range []struct {
			change func(*v1.Pod)
			want   []source.Op
		}{{as, []source.Op{source.Add, source.Synced}}, {as, nil}, {end, []source.Op{source.Delete}}, {end, nil}} {
			if got := tell(step.change); !slices.Equal(got, step.want) {
				t.Errorf("%d: %v, want %v", i, got, step.want)
			}
		}
	})
}
