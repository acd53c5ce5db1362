package node

import (
	"fmt"
	"io"
	"net"
	"os"

	v1 "k8s.io/api/core/v1"
)

// FailpointEnv names a Unix socket that is told of each boundary of a pod's effect: a connection a boundary, with a line such as
// "default/web StartContainer.before" (package podlife names the effects). The pod's worker waits there until the connection is closed:
// whoever listens may let it go on, or end the process where it is. It is for tests; without it nothing is told.
const FailpointEnv = "PODO_FAILPOINT"

// failpoint is what the kubelet calls at each boundary, nil where nobody listens.
func failpoint() func(pod *v1.Pod, point string) {
	socket := os.Getenv(FailpointEnv)
	if socket == "" {
		return nil
	}
	return func(pod *v1.Pod, point string) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return // whoever listened has gone
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s/%s %s\n", pod.Namespace, pod.Name, point)
		io.Copy(io.Discard, conn) //nolint:errcheck // its end is the answer, however it ends
	}
}
