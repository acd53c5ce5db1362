package node

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// schedulable stands for no condition of a node's: whether it is cordoned is in its spec.
const schedulable v1.NodeConditionType = "Schedulable"

// turns are what events call it when a condition has become false, and when it has become true.
var turns = map[v1.NodeConditionType][2]string{
	v1.NodeReady:          {"NodeNotReady", "NodeReady"},
	v1.NodeMemoryPressure: {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
	schedulable:           {"NodeNotSchedulable", "NodeSchedulable"},
}

// tell tells users, under upstream's names, of what is otherwise in a status than it was before. It is called when that has been written.
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
