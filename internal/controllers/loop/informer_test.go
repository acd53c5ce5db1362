package loop

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// listener is a controller that remembers what it has been told of as being there.
type listener struct {
	name string
	mu   sync.Mutex
	told map[types.UID]bool
	bad  string
	fail bool // at the next change
}

func (l *listener) keys(c view.Change) []view.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		l.fail = false
		panic("a change that " + l.name + " cannot bear")
	}
	if c.New != nil {
		l.told[c.New.Meta.GetUID()] = true
		return nil
	}
	if !l.told[c.Old.Meta.GetUID()] {
		l.bad = "told as gone, and was not there: " + string(c.Old.Meta.GetUID())
	}
	delete(l.told, c.Old.Meta.GetUID())
	return nil
}

func (l *listener) component(w *world) component.Component {
	return component.Func(l.name, func(ctx context.Context, ready func()) error {
		l.mu.Lock()
		l.told = map[types.UID]bool{}
		l.mu.Unlock()
		c, err := New(Config{
			Name: l.name, View: w.view, Watches: []Watch{{Resource: configMaps, Keys: l.keys}},
			Reconcile: func(context.Context, view.Snapshot, view.Key) (Result, error) { return Result{}, nil },
		})
		if err != nil {
			return err
		}
		return w.board.Run(ctx, c, ready)
	})
}

// Controllers share what reads a kind's changes. However they come and fail, and whatever changes are lost meanwhile, each has been told in the
// end of all that is there and of nothing else; one that cannot bear a change is the only one that begins anew.
func TestControllersShareWhatTheyHear(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(mem.Options{})
			w := &world{t, viewtest.Start(t, view.Config{Store: s, Retained: 1, HistoryChanges: 1}), s, NewBoard()}
			r := rand.New(rand.NewPCG(seed, 1))
			objects := newChurn(t, s, r)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			var listeners []*listener
			for i := range 6 {
				l := &listener{name: fmt.Sprint("c", i)}
				listeners = append(listeners, l)
				running.Go(func() { // before the view has what was just written, as a rule
					sup := component.NewSupervisor(component.Options{})
					_ = sup.Run(ctx, func() {}, l.component(w))
					if n := sup.Health()[0].Restarts; n > 1 || n == 1 && i != 0 {
						t.Errorf("seed %d: %s began anew %d times", seed, l.name, n)
					}
				})
				objects.write(r.IntN(40))
				if r.IntN(2) == 0 {
					synctest.Wait()
				}
				if r.IntN(2) == 0 {
					now, err := w.view.Fresh(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Compact(ctx, now.Rev()); err != nil {
						t.Fatal(err)
					}
				}
				if i == 3 {
					synctest.Wait()
					listeners[0].mu.Lock()
					listeners[0].fail = true
					listeners[0].mu.Unlock()
				}
			}
			objects.write(r.IntN(40))
			synctest.Wait()
			time.Sleep(time.Minute) // who failed begins anew
			synctest.Wait()
			for _, l := range listeners {
				if !maps.Equal(l.told, objects.all) || l.bad != "" {
					t.Errorf("seed %d: %s was told of %v, there are %v; %s", seed, l.name, l.told, objects.all, l.bad)
				}
			}
			if n := len(w.board.informers.of); n != 1 {
				t.Errorf("seed %d: %d read the changes", seed, n)
			}
			cancel()
			running.Wait()
			if n := len(w.board.informers.of); n != 0 {
				t.Errorf("seed %d: %d go on with nobody to hear them", seed, n)
			}
		})
	}
}

// Who joins with a snapshot that is newer than what is told by then, and hears of nothing before changes are lost, hears what of that snapshot went.
func TestWhoJoinedAheadIsToldOfWhatWent(t *testing.T) {
	v, s := viewtest.New(t)
	fresh := func() view.Snapshot {
		now, err := v.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	at := source{v, configMaps}
	in := &informer{source: at, stop: func() {}} // nobody reads it yet
	if err := in.begin(fresh()); err != nil {
		t.Fatal(err)
	}
	all := newInformers()
	all.of[at] = in
	c := configMap("a", "1")
	c.UID = "u"
	viewtest.Put(t, s, c)
	fresh()
	l := &listener{told: map[types.UID]bool{}}
	leave, err := all.join(v, &feed{watch: Watch{Resource: configMaps, Keys: l.keys}, behind: &behind{}, failed: make(chan error, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if !l.told["u"] {
		t.Error("it was not told of what there is")
	}
	viewtest.Delete(t, s, c)
	if err := in.again(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(l.told) > 0 || l.bad != "" {
		t.Errorf("told as there: %v; %s", l.told, l.bad)
	}
}
