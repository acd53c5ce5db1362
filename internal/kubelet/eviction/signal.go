// Package eviction keeps the node alive when memory, disk, inodes or process numbers run short, and pods within their limits of
// local storage. plan.go, rank.go and limits.go decide and are pure; manager.go measures every ten seconds and asks workers to end
// pods, which then end like any other: their containers' real end states stay.
package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"
)

// Signal is what is watched, by upstream's name.
type Signal string

// The signals.
const (
	Memory            Signal = "memory.available"
	AllocatableMemory Signal = "allocatableMemory.available"
	NodeFS            Signal = "nodefs.available"
	NodeFSInodes      Signal = "nodefs.inodesFree"
	ImageFS           Signal = "imagefs.available"
	ImageFSInodes     Signal = "imagefs.inodesFree"
	ContainerFS       Signal = "containerfs.available"
	ContainerFSInodes Signal = "containerfs.inodesFree"
	PID               Signal = "pid.available"
)

// The reasons for evicting a pod that wrote more than it may. Nothing of the node ran short.
const (
	emptyDirLimit  Signal = "emptydirfs.limit"
	podLimit       Signal = "ephemeralpodfs.limit"
	containerLimit Signal = "ephemeralcontainerfs.limit"
)

// Resources that have no name in the API.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// meaning is what a signal is about: the resource that runs short, and the node's condition that says so.
type meaning struct {
	resource  v1.ResourceName
	condition v1.NodeConditionType
}

var meanings = map[Signal]meaning{
	Memory:            {v1.ResourceMemory, v1.NodeMemoryPressure},
	AllocatableMemory: {v1.ResourceMemory, v1.NodeMemoryPressure},
	NodeFS:            {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	NodeFSInodes:      {inodes, v1.NodeDiskPressure},
	ImageFS:           {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	ImageFSInodes:     {inodes, v1.NodeDiskPressure},
	ContainerFS:       {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	ContainerFSInodes: {inodes, v1.NodeDiskPressure},
	PID:               {pids, v1.NodePIDPressure},
}

// Value is an amount, or a share of the capacity.
type Value struct {
	Quantity resource.Quantity
	Share    float64 // 0..1; 0 means that Quantity counts
}

// of is the amount that the value means on something of that capacity.
func (v Value) of(capacity resource.Quantity) resource.Quantity {
	if v.Share == 0 {
		return v.Quantity
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*v.Share), resource.BinarySI)
}

// Threshold is crossed when less than Value is available.
type Threshold struct {
	Signal  Signal
	Value   Value
	Soft    bool
	Grace   time.Duration // how long a soft one must have been crossed before pods are evicted
	Reclaim Value         // how much more than Value must be available before it counts as resolved
}

// Off is a threshold that is none, as 0% is.
const Off = "100%"

// Thresholds reads them from a kubelet configuration. The hard threshold of memory is also applied to all pods together when the
// node enforces what is allocatable.
func Thresholds(c *v1beta1.KubeletConfiguration) ([]Threshold, error) {
	var out []Threshold
	var errs []error
	reclaim, err := values("evictionMinimumReclaim", c.EvictionMinimumReclaim)
	errs = append(errs, err)
	add := func(field string, m map[string]string, soft bool) {
		all, err := values(field, m)
		errs = append(errs, err)
		for _, s := range slices.Sorted(maps.Keys(all)) {
			t := Threshold{Signal: s, Value: all[s], Soft: soft, Reclaim: reclaim[s]}
			if soft {
				d, err := time.ParseDuration(c.EvictionSoftGracePeriod[string(s)])
				if err != nil || d < 0 {
					errs = append(errs, fmt.Errorf("evictionSoftGracePeriod[%s]: a duration of how long evictionSoft must have been crossed is needed", s))
				}
				t.Grace = d
			}
			switch text := m[string(s)]; {
			case text == "0%", text == Off:
			case t.Value.Share == 0 && t.Value.Quantity.Sign() == 0:
				errs = append(errs, fmt.Errorf("%s[%s]: %q must be a positive amount or a percentage", field, s, text))
			default:
				out = append(out, t)
			}
		}
	}
	add("evictionHard", c.EvictionHard, false)
	add("evictionSoft", c.EvictionSoft, true)
	for s := range c.EvictionSoftGracePeriod {
		if _, ok := c.EvictionSoft[s]; !ok {
			errs = append(errs, fmt.Errorf("evictionSoftGracePeriod[%s]: evictionSoft has no threshold of that name", s))
		}
	}
	if slices.Contains(c.EnforceNodeAllocatable, "pods") {
		for _, t := range out {
			if t.Signal == Memory && !t.Soft {
				t.Signal = AllocatableMemory
				out = append(out, t)
			}
		}
	}
	return out, errors.Join(errs...)
}

func values(field string, m map[string]string) (map[Signal]Value, error) {
	out := map[Signal]Value{}
	var errs []error
	for name, text := range m {
		if _, ok := meanings[Signal(name)]; !ok {
			errs = append(errs, fmt.Errorf("%s: unknown eviction signal %q", field, name))
			continue
		}
		if pct, ok := strings.CutSuffix(text, "%"); ok {
			f, err := strconv.ParseFloat(pct, 64)
			if err != nil || f < 0 || f > 100 {
				errs = append(errs, fmt.Errorf("%s[%s]: %q must be between 0%% and 100%%", field, name, text))
			}
			out[Signal(name)] = Value{Share: f / 100}
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			errs = append(errs, fmt.Errorf("%s[%s]: %q must be a positive amount or a percentage", field, name, text))
		}
		out[Signal(name)] = Value{Quantity: q}
	}
	return out, errors.Join(errs...)
}
