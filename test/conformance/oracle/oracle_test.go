package oracle

import (
	"flag"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the random cases")
	spend = flag.Duration("spend", 40*time.Second, "time for each kind's random cases")
	only  = flag.String("kind", "", "compare only these kinds, by name: services,leases.coordination.k8s.io")
)

// shortCases is how many cases a whole share has with -short: a number, so that a slow machine compares the same ones.
const shortCases = 400

// rounds are the cases of one test of one kind. share is its part of what a kind gets.
func rounds(share float64) iter.Seq[int] {
	end := time.Now().Add(time.Duration(float64(*spend) * share))
	return func(yield func(int) bool) {
		for i := 0; ; i++ {
			if testing.Short() && i >= int(shortCases*share) || !testing.Short() && time.Now().After(end) || !yield(i) {
				return
			}
		}
	}
}

// each runs a test for every kind, as a subtest of the kind's name.
func each(t *testing.T, test func(t *testing.T, k Kind)) {
	for _, k := range Kinds {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), k.name()) {
			continue
		}
		t.Run(k.name(), func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

func mutatorFor(t *testing.T) *mutator {
	t.Helper()
	m, err := newMutator(*seed)
	if err != nil {
		t.Fatal(err)
	}
	return m
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

// TestEveryServedKind: what Podo serves is compared, with every endpoint that takes the object.
func TestEveryServedKind(t *testing.T) {
	for _, k := range registry.All() {
		if k.Unstored || k.Served != nil {
			continue // a review is an answer: upstream's is in its storage, with an authorizer behind it
		}
		i := slices.IndexFunc(Kinds, func(c Kind) bool { return c.Podo == k })
		if i < 0 {
			t.Errorf("%s is served and not compared: it needs a line in kinds.go and manifests in corpus/", k.GroupResource())
			continue
		}
		theirs, ours := slices.Sorted(maps.Keys(Kinds[i].Update)), slices.Sorted(maps.Keys(k.Updates))
		if !slices.Equal(theirs, ours) {
			t.Errorf("%s: endpoints that take the object: upstream %q, podo %q", k.GroupResource(), theirs, ours)
		}
	}
}

// Manifests are valid, but those whose names say that they are refused: what no mutation comes to (a key that is too weak).
func TestCorpusIsValidUpstream(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		for i, obj := range seeds(t, k) {
			m, err := meta.Accessor(obj)
			if err != nil {
				t.Fatal(err)
			}
			if o := k.UpstreamCreate(obj); (o.Object == nil) != strings.HasPrefix(m.GetName(), "refused-") {
				t.Errorf("manifest %d, %s: %v", i, m.GetName(), o.Causes)
			}
		}
	})
}

func TestCreate(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		what := "create " + k.name()
		differences := func(obj runtime.Object) []Difference { return k.differCreate(obj) }
		for _, obj := range pop.objects {
			r.found(what, differences(obj), k.smallest(what, obj, differences))
		}
		for range rounds(1) {
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
