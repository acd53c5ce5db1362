package node

import (
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/downward"
	nodestatus "podo.dev/podo/internal/kubelet/node"
	"podo.dev/podo/internal/kubelet/shutdown"
	"podo.dev/podo/internal/kubelet/status"
	"podo.dev/podo/internal/localclass"
)

func (k *run) buildNode(nodeReady func()) error {
	c := k.c.Kubelet
	facts, err := nodestatus.ReadFacts(k.c.Host)
	if err != nil {
		return err
	}
	maxImages := 50
	if c.NodeStatusMaxImages != nil {
		maxImages = int(*c.NodeStatusMaxImages)
	}
	k.node, err = nodestatus.New(nodestatus.Config{
		Client: k.client, Runtime: k.c.Runtime, Log: k.log().of("node"),
		Name: k.c.Name, IPs: []netip.Addr{k.c.IP}, Port: int32(k.c.Port), Version: k.c.Version, PodCIDR: k.cluster.PodCIDR,
		Taints: c.RegisterWithTaints, Annotations: map[string]string{localclass.Folders: k.localFolders().Dir},
		Facts: facts, Capacity: k.capacity, Allocatable: k.allocate, MaxImages: maxImages,
		Problems: k.problems, Pressure: k.pressure, Event: k.nodeEvent,
		Registered: func(tried time.Time) {
			k.counts.Registered(facts.Booted, tried)
			if k.cluster.Registered != nil {
				k.cluster.Registered()
			}
		},
		Turned: func(ready bool) {
			if ready {
				k.counts.Ready()
				nodeReady()
			}
		},
		CheckEvery: c.NodeStatusUpdateFrequency.Duration, ReportEvery: c.NodeStatusReportFrequency.Duration,
		LeaseDuration: time.Duration(c.NodeLeaseDurationSeconds) * time.Second,
	})
	return err
}

// problems are what the kubelet reports against its node.
func (k *run) problems() []string {
	var out []string
	if k.kubelet != nil {
		if err := k.kubelet.Healthy(); err != nil {
			out = append(out, err.Error())
		}
	}
	if k.goesOff() {
		out = append(out, shutdown.Problem)
	}
	return out
}

// goesOff tells whether the machine is about to shut down.
func (k *run) goesOff() bool { return k.down != nil && k.down.Down() }

// pressures are what the node runs short of.
func (k *run) pressures() []v1.NodeConditionType {
	if k.evict == nil {
		return nil
	}
	return k.evict.Conditions()
}

// pressure is the same for the node's status.
func (k *run) pressure() nodestatus.Pressure {
	under := k.pressures()
	return nodestatus.Pressure{
		Memory: slices.Contains(under, v1.NodeMemoryPressure), Disk: slices.Contains(under, v1.NodeDiskPressure),
		PID: slices.Contains(under, v1.NodePIDPressure),
	}
}

func (k *run) buildStatus() (err error) {
	k.status, err = status.New(status.Config{
		Client: k.client, Append: k.append, Written: k.counts.StatusWritten, Log: k.log().of("status"),
	})
	return err
}

// facts are the node's part of the downward API.
func (k *run) facts() downward.Facts {
	return downward.Facts{HostIPs: []string{k.c.IP.String()}, Allocatable: k.allocate}
}

// thisNode is the Node object as the API has it, nil while there is none.
func (k *run) thisNode() *v1.Node { return In(k.cluster.View, k.c.Name) }

// anyNode is the Node object, or what it will be: static pods run before the API server has answered.
func (k *run) anyNode() *v1.Node {
	if n := k.thisNode(); n != nil {
		return n
	}
	return k.node.Own()
}
