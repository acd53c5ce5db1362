package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/podlife"
)

// Usage is what a pod uses. A container that could not be measured is missing.
type Usage struct {
	Containers map[string]ContainerUsage
	Volumes    map[string]Files // on the node's disk, by the name of an emptyDir
	Pages      map[string]int64 // bytes of huge pages, by the name of an emptyDir; those in other memory the kernel bounds
	Processes  int64
}

// ContainerUsage is what a container uses: memory in bytes, its own layer of its root file system, and its logs.
type ContainerUsage struct {
	Memory       int64
	RootFS, Logs Files
}

// Files are what files take: bytes, and how many there are.
type Files struct{ Bytes, Inodes int64 }

func (f Files) plus(o Files) Files { return Files{f.Bytes + o.Bytes, f.Inodes + o.Inodes} }

// Part is what of a pod's files a file system has.
type Part int

// The parts of a pod's files. Where the runtime has a file system of its own, containers' root file systems are on that one and
// everything else is on the node's.
const (
	All Part = iota
	Layers
	LogsAndVolumes
)

// part is the part of pods' files that an eviction frees for a signal.
func part(s Signal, apart bool) Part {
	switch {
	case !apart:
		return All
	case s == NodeFS || s == NodeFSInodes:
		return LogsAndVolumes
	}
	return Layers
}

func (u Usage) memory() (sum int64) {
	for _, c := range u.Containers {
		sum += c.Memory
	}
	return sum
}

func (u Usage) files(p Part) (sum Files) {
	for _, c := range u.Containers {
		if p != LogsAndVolumes {
			sum = sum.plus(c.RootFS)
		}
		if p != Layers {
			sum = sum.plus(c.Logs)
		}
	}
	if p == Layers {
		return sum
	}
	for _, v := range u.Volumes {
		sum = sum.plus(v)
	}
	return sum
}

// of is how much a pod uses of a resource; of files, only those in part p.
func (u Usage) of(r v1.ResourceName, p Part) int64 {
	switch r {
	case v1.ResourceMemory:
		return u.memory()
	case v1.ResourceEphemeralStorage:
		return u.files(p).Bytes
	case inodes:
		return u.files(p).Inodes
	case pids:
		return u.Processes
	}
	return 0
}

// Rank orders pods, those that should go first at the front: pods that use more than they asked for, then by priority, then by
// how far usage exceeds the request. Pods do not ask for process numbers: there only priority and the number count. Of files only
// part counts.
func Rank(pods []*v1.Pod, usage func(*v1.Pod) Usage, r v1.ResourceName, part Part) []*v1.Pod {
	type ranked struct {
		pod    *v1.Pod
		exceed bool
		over   int64
	}
	list := make([]ranked, len(pods))
	for i, p := range pods {
		over := usage(p).of(r, part)
		if r == v1.ResourceMemory || r == v1.ResourceEphemeralStorage {
			asked := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true})[r]
			over -= asked.Value()
		}
		list[i] = ranked{p, r != pids && over > 0, over}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		switch {
		case a.exceed != b.exceed && a.exceed:
			return -1
		case a.exceed != b.exceed:
			return 1
		}
		return cmp.Or(cmp.Compare(priority(a.pod), priority(b.pod)), cmp.Compare(b.over, a.over))
	})
	out := make([]*v1.Pod, len(list))
	for i := range list {
		out[i] = list[i].pod
	}
	return out
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// systemCritical is the priority from which on a pod is critical.
const systemCritical = 2_000_000_000

// Critical tells pods that are never evicted: static ones, mirrors, and those of the system's priorities.
func Critical(p *v1.Pod) bool {
	return podlife.IsMirror(p) || podlife.Static(p) || priority(p) >= systemCritical
}

// message says why a pod was evicted for want of a resource: in upstream's words, and as annotations of the event for programs.
// Pods that could not be measured get no annotations.
func message(p *v1.Pod, u Usage, measured bool, r v1.ResourceName, t Threshold, o Observation) (text string, annotations map[string]string) {
	limit := t.Value.of(o.Capacity)
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %v. ", r)
	fmt.Fprintf(&b, "Threshold quantity: %v, available: %v. ", limit.String(), o.Available.String())
	if !measured {
		return b.String(), nil
	}
	annotations = map[string]string{}
	if r == v1.ResourceMemory && resourcehelper.IsPodLevelResourcesSet(p) {
		if asked, ok := p.Spec.Resources.Requests[r]; ok {
			fmt.Fprintf(&b, "Pod %s was using %s, request is %s, has larger consumption of %v. ", p.Name, bytes(u.memory()), asked.String(), r)
			annotations["offending_pod"], annotations["offending_pod_usage"] = p.Name, bytes(u.memory())
		}
	}
	var names, usage []string
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			used, ok := u.Containers[list[i].Name]
			if !ok {
				continue
			}
			var n int64
			switch r {
			case v1.ResourceMemory:
				n = used.Memory
			case v1.ResourceEphemeralStorage:
				n = used.RootFS.Bytes + used.Logs.Bytes
			default:
				continue
			}
			if asked := list[i].Resources.Requests[r]; n > asked.Value() {
				fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %v. ", list[i].Name, bytes(n), asked.String(), r)
				names, usage = append(names, list[i].Name), append(usage, bytes(n))
			}
		}
	}
	annotations["offending_containers"], annotations["offending_containers_usage"] = strings.Join(names, ","), strings.Join(usage, ",")
	annotations["starved_resource"] = string(r)
	return b.String(), annotations
}

func bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
