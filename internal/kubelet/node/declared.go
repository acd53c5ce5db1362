package node

import (
	declaredfeatures "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"podo.dev/podo/internal/registry/gate"
)

// declared are the features of this kubelet that a pod may need of its node (status.declaredFeatures): pods that do are only placed on nodes
// that declare them.
var declared = declaredfeatures.DefaultFramework.DiscoverNodeFeatures(&declaredfeatures.NodeConfiguration{FeatureGates: types.FeatureGateMap{
	"ExtendWebSocketsToKubelet":               true, // package server
	"RestartAllContainersOnContainerExits":    gate.RestartAllContainersOnContainerExits,
	"InPlacePodLevelResourcesVerticalScaling": gate.InPlacePodLevelResourcesVerticalScaling,
	"InPlacePodVerticalScalingInitContainers": gate.InPlacePodVerticalScalingInitContainers,
}})
