package podlife

// Failure is an effect's report that it did not succeed, in the words that users see: Reason is upstream's reason (ErrImagePull,
// CreateContainerConfigError, RunContainerError, FailedMount, ...), Message its text. Final says that trying again is useless
// until the pod changes.
type Failure struct {
	Reason  string
	Message string
	Final   bool
	// Unsure says that the effect may have happened nevertheless: a deadline passed, the connection broke, or the runtime said
	// that the thing exists already. Step looks at the runtime before it tries again.
	Unsure bool
	// Image is the image that could not be pulled, if that is not the container's own but one that it mounts.
	Image string
}

func (f *Failure) Error() string { return f.Message }
