// Package nodettl tells kubelets, in an annotation of their nodes, for how many seconds they may keep a Secret or ConfigMap without asking
// again: the more nodes, the longer.
package nodettl

import "math"

// steps overlap, so that a node that comes and goes does not change all the others each time.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0},
	{90, 500, 15},
	{450, 1000, 30},
	{900, 2000, 60},
	{1800, math.MaxInt, 300},
}

// Step is the step for so many nodes, coming from another one.
func Step(from, nodes int) int {
	for nodes > steps[from].most {
		from++
	}
	for nodes < steps[from].least {
		from--
	}
	return from
}

// Seconds is what nodes are told at a step.
func Seconds(step int) int { return steps[step].seconds }
