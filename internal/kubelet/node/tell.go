package node

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// schedulable stands for spec.unschedulable, which is no condition.
const schedulable v1.NodeConditionType = "Schedulable"

// turns are the event reasons for a condition that becomes false, and for one that becomes true.
var turns = map[v1.NodeConditionType][2]string{
	v1.NodeReady:          {"NodeNotReady", "NodeReady"},
	v1.NodeMemoryPressure: {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
	schedulable:           {"NodeNotSchedulable", "NodeSchedulable"},
}

// tell sends the events for what changed in the status, under upstream's names, after the status was written.
func (c *Config) tell(before, now *v1.NodeStatus) {
	if c.Event == nil {
		return
	}
	if boot := now.NodeInfo.BootID; before.NodeInfo.BootID != "" && before.NodeInfo.BootID != boot {
		c.Event(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", c.Name, boot))
	}
	for _, cond := range now.Conditions {
		i := slices.IndexFunc(before.Conditions, func(b v1.NodeCondition) bool { return b.Type == cond.Type })
		if i < 0 && cond.Type == v1.NodeReady || i >= 0 && before.Conditions[i].Status == cond.Status {
			continue
		}
		c.turned(cond.Type, cond.Status == v1.ConditionTrue)
	}
}

func (c *Config) turned(what v1.NodeConditionType, to bool) {
	names, ok := turns[what]
	if !ok || c.Event == nil {
		return
	}
	name := names[0]
	if to {
		name = names[1]
	}
	c.Event(v1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", c.Name, name))
}
