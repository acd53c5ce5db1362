package cm

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reserved is what pods may not have: for the system, for the node agent, and what hard eviction keeps free.
type Reserved struct {
	Kube     v1.ResourceList
	System   v1.ResourceList
	Eviction map[string]string // evictionHard: signal ("memory.available") -> quantity or percentage
}

// Allocatable is what pods may have: capacity less everything reserved, never below zero. Huge pages are taken off the
// memory too, since they can be used for nothing else.
func Allocatable(capacity v1.ResourceList, r Reserved) (v1.ResourceList, error) {
	kept, err := r.eviction(capacity)
	if err != nil {
		return nil, err
	}
	out := capacity.DeepCopy()
	for _, list := range []v1.ResourceList{r.Kube, r.System, kept} {
		subtract(out, list)
	}
	for name, q := range capacity {
		if _, ok := HugePageUnit(name); ok {
			subtract(out, v1.ResourceList{v1.ResourceMemory: q})
		}
	}
	return out, nil
}

// eviction is what hard eviction keeps free, as resources.
func (r Reserved) eviction(capacity v1.ResourceList) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for signal, name := range map[string]v1.ResourceName{
		"memory.available": v1.ResourceMemory, "nodefs.available": v1.ResourceEphemeralStorage,
	} {
		value, ok := r.Eviction[signal]
		if !ok {
			continue
		}
		if value == "100%" {
			continue // no threshold (package eviction)
		}
		percent, isPercent := strings.CutSuffix(value, "%")
		if !isPercent {
			q, err := resource.ParseQuantity(value)
			if err != nil {
				return nil, fmt.Errorf("evictionHard[%s]: %q is neither a quantity nor a percentage", signal, value)
			}
			out[name] = q
			continue
		}
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || p < 0 || p > 100 {
			return nil, fmt.Errorf("evictionHard[%s]: %q is not between 0%% and 100%%", signal, value)
		}
		whole := capacity[name]
		part := float64(float32(p) / 100) // as exact as upstream, whose figure is then the same
		out[name] = *resource.NewQuantity(int64(float64(whole.Value())*part), resource.BinarySI)
	}
	return out, nil
}

func subtract(from, what v1.ResourceList) {
	for name, q := range what {
		have, ok := from[name]
		if !ok {
			continue
		}
		have.Sub(q)
		if have.Sign() < 0 {
			have.Set(0)
		}
		from[name] = have
	}
}
