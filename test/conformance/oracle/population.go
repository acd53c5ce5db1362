package oracle

import "k8s.io/apimachinery/pkg/runtime"

// population is a bounded set of valid objects: the corpus, and what grew from it.
type population struct {
	objects []runtime.Object
	fixed   int // the corpus stays
}

const populationLimit = 400

func newPopulation(seeds []runtime.Object) *population {
	return &population{objects: seeds, fixed: len(seeds)}
}

func (p *population) pick(m *mutator) runtime.Object {
	return p.objects[m.IntN(len(p.objects))].DeepCopyObject()
}

// keep adds a valid object, in place of a random one when there are enough.
func (p *population) keep(m *mutator, obj runtime.Object) {
	if size(obj) > 12_000 {
		return
	}
	if len(p.objects) < populationLimit {
		p.objects = append(p.objects, obj)
		return
	}
	p.objects[p.fixed+m.IntN(len(p.objects)-p.fixed)] = obj
}

type sizer interface{ Size() int }

func size(obj runtime.Object) int {
	if s, ok := obj.(sizer); ok {
		return s.Size()
	}
	return 0
}
