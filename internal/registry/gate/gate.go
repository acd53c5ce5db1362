// Package gate is the state of the feature gates that change what the API accepts, at upstream 1.37's defaults. They are
// constants: a gate that is off means that its fields are dropped on write unless the stored object already uses them.
package gate

// On by default (beta or later).
const (
	ClearingNominatedNodeNameAfterBinding   = true
	ClusterTrustBundleProjection            = true
	InPlacePodVerticalScalingInitContainers = true
	PodCertificateProjection                = true // upstream's gate is called PodCertificateRequest
	PodLevelResourcesFixDefaulting          = true // the pod's own resources are completed after admission, not while decoding
	ContainerRestartRules                   = true // restartPolicy and restartPolicyRules of a container
	RestartAllContainersOnContainerExits    = true // the rule action RestartAllContainers
	EnvFiles                                = true // env valueFrom.fileKeyRef
	HostnameOverride                        = true
	PodLevelResources                       = true // spec.resources
	InPlacePodLevelResourcesVerticalScaling = true
	KubeletInUserNamespace                  = true // nodes tell that they run in a user namespace
	MatchLabelKeysSelectorMerge             = true // matchLabelKeys of spread constraints are merged into their selectors
	NodeDeclaredFeatures                    = true
	StrictIPCIDRValidation                  = true // no leading zeros in addresses
	MaxUnavailableStatefulSet               = true
)

// Off by default (alpha, or beta that needs an API which is itself off).
const (
	ImageVolumeWithDigest                        = false
	AtomicWriteVolumeUserFields                  = false // user and defaultUser of projected files
	ContainerStopSignals                         = false
	CrossNamespaceVolumeDataSource               = false // dataSourceRef.namespace of a claim
	CSIVolumeHealth                              = false
	DRANodeAllocatableResources                  = false
	EmptyDirVolumeMode                           = false
	EvictionRequestAPI                           = false // spec.evictionResponders
	GenericWorkload                              = false // spec.schedulingGroup
	GRPCContainerProbeTLS                        = false
	H2CContainerProbe                            = false
	InPlacePodVerticalScalingSchedulerPreemption = false // node spec.podPreemptionPolicy
	TaintTolerationComparisonOperators           = false // toleration operators Lt and Gt
	UserNamespacesHostNetworkSupport             = false
	VolumeBindMountOptions                       = false
)
