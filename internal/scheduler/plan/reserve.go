package plan

import (
	"fmt"

	"podo.dev/podo/internal/scheduler/framework"
)

// personal tells whether anything about the current pod holds for it alone and not for its shape.
func (p *Planner) personal() bool {
	for _, x := range p.of {
		if _, ok := x.(framework.Personal); ok {
			return true
		}
	}
	return false
}

// refused is why the current pod can go nowhere; nil when it may go somewhere.
func (p *Planner) refused(shape *framework.Shape) *framework.Rejection {
	for _, f := range p.set.PreFilters {
		if _, _, none := f.PreFilter(shape); none != nil {
			return none
		}
	}
	for i, x := range p.of {
		if x, ok := x.(framework.Refusing); ok && p.set.Relations[i].Filters {
			if r := x.Refused(); r != nil {
				return r
			}
		}
	}
	return nil
}

// refusal is the diagnosis of a pod that can go nowhere. Evictions may help where the rejection says so.
func refusal(c *framework.Cluster, r *framework.Rejection) *Diagnosis {
	d := &Diagnosis{Nodes: len(c.Nodes), Refused: true, rejected: []*framework.Rejection{r}}
	for _, text := range r.Reasons {
		d.Reasons = append(d.Reasons, Reason{Plugin: r.Plugin, Text: text, Count: len(c.Nodes)})
	}
	if !r.Unresolvable {
		d.resolvable = len(c.Nodes)
	}
	return d
}

// Reserve reserves what the pod that Schedule has just placed needs on its node. On an error nothing stays reserved.
func (p *Planner) Reserve(n *framework.Node) ([]framework.Reservation, error) {
	var held []framework.Reservation
	for i, x := range p.of {
		x, ok := x.(framework.Reserving)
		if !ok {
			continue
		}
		r, err := x.Reserve(n)
		if err != nil {
			End(held, false)
			return nil, fmt.Errorf("running Reserve plugin %q: %w", p.set.Relations[i].Name(), err)
		}
		if r != nil {
			held = append(held, r)
		}
	}
	return held, nil
}

// End ends reservations, the last one first.
func End(held []framework.Reservation, bound bool) {
	for i := len(held) - 1; i >= 0; i-- {
		held[i].End(bound)
	}
}
