package node

import (
	"os"
	"syscall"
)

// FailpointEnv names the boundary of a pod's effect at which the process kills itself, as `kill -9` would: StartContainer.before,
// Save.after and the like (package podlife names the effects). It is for tests, which start podo again without it; without it nothing
// is looked at.
const FailpointEnv = "PODO_FAILPOINT"

// failpoint is what the kubelet calls at each boundary, nil where none is named.
func failpoint() func(point string) {
	at := os.Getenv(FailpointEnv)
	if at == "" {
		return nil
	}
	return func(point string) {
		if point == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more happens
		}
	}
}
