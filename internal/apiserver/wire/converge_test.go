package wire

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Whoever replays a watch, with or without a selector, in whatever encoding, ends with what a list then says.
func TestWatchesConvergeToTheList(t *testing.T) {
	w := newWorld(t)
	const writers, writes, names = 4, 60, 8
	clients := map[string]*kubernetes.Clientset{"json": w.client(jsonType), "protobuf": w.client(protoType)}
	selectors := []string{"", "half=1"}

	// The last write tells each watch that it has seen everything.
	const end = "the-end"
	var watches sync.WaitGroup
	states := map[string]map[string]string{}
	var mu sync.Mutex
	for media, cs := range clients {
		for _, sel := range selectors {
			ctx, cancel := context.WithCancel(w.ctx)
			stream, err := cs.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{LabelSelector: sel})
			if err != nil {
				t.Fatal(err)
			}
			watches.Go(func() {
				defer cancel()
				state := replay(t, stream, end)
				mu.Lock()
				defer mu.Unlock()
				states[media+" "+sel] = state
			})
		}
	}
	var wg sync.WaitGroup
	for i := range writers {
		cs := clients[[]string{"json", "protobuf"}[i%2]].CoreV1().ConfigMaps("default")
		r := rand.New(rand.NewPCG(uint64(i), 7))
		wg.Go(func() {
			for j := range writes {
				name := fmt.Sprintf("c%d", r.IntN(names))
				half := fmt.Sprint(r.IntN(2))
				var err error
				switch r.IntN(3) {
				case 0:
					cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"half": half}}}
					_, err = cs.Create(w.ctx, cm, metav1.CreateOptions{})
				case 1:
					patch := fmt.Sprintf(`{"metadata":{"labels":{"half":%q}},"data":{"by":"%d-%d"}}`, half, i, j)
					_, err = cs.Patch(w.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				default:
					err = cs.Delete(w.ctx, name, metav1.DeleteOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, sel := range selectors {
		l, err := clients["json"].CoreV1().ConfigMaps("default").List(w.ctx, metav1.ListOptions{LabelSelector: sel})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for i := range l.Items {
			want[l.Items[i].Name] = l.Items[i].ResourceVersion
		}
		defer func() {
			for media := range clients {
				if got := states[media+" "+sel]; !maps.Equal(got, want) {
					t.Errorf("%s, selector %q: watched %v, listed %v", media, sel, got, want)
				}
			}
		}()
	}
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: end, Labels: map[string]string{"half": "1"}}}
	if _, err := clients["json"].CoreV1().ConfigMaps("default").Create(w.ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watches.Wait()
}

// replay applies events until the object named end appears; it also checks that the events make sense one after another.
func replay(t *testing.T, stream watch.Interface, end string) map[string]string {
	defer stream.Stop()
	state := map[string]string{}
	for e := range stream.ResultChan() {
		cm, ok := e.Object.(*v1.ConfigMap)
		if !ok {
			t.Errorf("%s %+v", e.Type, e.Object)
			return state
		}
		if cm.Name == end {
			return state
		}
		_, known := state[cm.Name]
		if (e.Type == watch.Added) == known {
			t.Errorf("%s of %s, which was known: %v", e.Type, cm.Name, known)
		}
		if e.Type == watch.Deleted {
			delete(state, cm.Name)
		} else {
			state[cm.Name] = cm.ResourceVersion
		}
	}
	t.Error("the watch ended early")
	return state
}
