package podlife

// Failure is how an effect tells that it did not succeed, in the words that users see: Reason is upstream's reason word
// (ErrImagePull, CreateContainerConfigError, RunContainerError, FailedMount, ...), Message its text. Final says that a
// retry cannot help until the pod changes.
type Failure struct {
	Reason  string
	Message string
	Final   bool
}

func (f *Failure) Error() string { return f.Message }
