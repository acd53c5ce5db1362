package podlife

// Failure is how an effect tells that it did not succeed, in the words that users see: Reason is upstream's reason word
// (ErrImagePull, CreateContainerConfigError, RunContainerError, FailedMount, ...), Message its text. Final says that a
// retry cannot help until the pod changes.
type Failure struct {
	Reason  string
	Message string
	Final   bool
	// Unsure says that the effect may have happened all the same: a deadline passed, the connection broke, or the runtime
	// said that the thing exists already. Step looks at the runtime before it tries again.
	Unsure bool
	// Image is the image that could not be had, where it is one that a container mounts, not its own.
	Image string
}

func (f *Failure) Error() string { return f.Message }
