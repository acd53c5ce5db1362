package oracle

import (
	"flag"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the random cases")
	spend = flag.Duration("spend", 40*time.Second, "time for each kind's random cases")
)

// budget is the time for one kind's cases of one test.
func budget() time.Duration {
	if testing.Short() {
		return 1500 * time.Millisecond
	}
	return *spend
}

func mutatorFor(t *testing.T) *mutator {
	t.Helper()
	enums, err := constants()
	if err != nil {
		t.Fatal(err)
	}
	return newMutator(*seed, enums)
}

func seeds(t *testing.T, k Kind) []runtime.Object {
	t.Helper()
	objects, err := k.corpus()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// changes says how many places a case changes: mostly one, so that one rule decides.
func changes(m *mutator) int {
	switch n := m.IntN(10); {
	case n < 7:
		return 1
	case n < 9:
		return 2
	default:
		return 3 + m.IntN(3)
	}
}

func TestCorpusIsValidUpstream(t *testing.T) {
	for _, k := range Kinds {
		for i, obj := range seeds(t, k) {
			if o := k.UpstreamCreate(obj); o.Object == nil {
				t.Errorf("%s, manifest %d: %v", k.Podo.Resource, i, o.Causes)
			}
		}
	}
}

func TestCreate(t *testing.T) {
	for _, k := range Kinds {
		t.Run(k.Podo.Resource, func(t *testing.T) {
			m := mutatorFor(t)
			pop := newPopulation(seeds(t, k))
			var r Report
			what := "create " + k.Podo.Resource
			differences := func(obj runtime.Object) []Difference { return k.differCreate(obj) }
			for _, obj := range pop.objects {
				r.found(what, differences(obj), k.smallest(what, obj, differences))
			}
			for end := time.Now().Add(budget()); time.Now().Before(end); {
				obj := pop.pick(m)
				m.Mutate(obj, changes(m))
				k.complete(obj)
				r.ran()
				r.found(what, differences(obj), k.smallest(what, obj, differences))
				if o := k.UpstreamCreate(obj); o.Object != nil {
					pop.keep(m, obj)
				}
			}
			r.fail(t)
		})
	}
}

func (k Kind) differCreate(obj runtime.Object) []Difference {
	up, podo := k.UpstreamCreate(obj), k.PodoCreate(obj)
	stripTimes(up.Object)
	stripTimes(podo.Object)
	return compare(up, podo)
}

// smallest makes the example of a kind of difference.
func (k Kind) smallest(what string, obj runtime.Object, differences func(runtime.Object) []Difference) func(string) string {
	return func(sig string) string {
		small := shrink(obj, func(o runtime.Object) bool {
			_, ok := signatures(what, differences(o))[sig]
			return ok
		})
		d := signatures(what, differences(small))[sig]
		return "upstream: " + d.Upstream + "\npodo:     " + d.Podo + "\n" + manifest(small)
	}
}
