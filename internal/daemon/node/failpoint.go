package node

import (
	"fmt"
	"io"
	"net"
	"os"

	v1 "k8s.io/api/core/v1"
)

// FailpointEnv names a Unix socket for tests. At each boundary of a pod's effect the worker connects, writes a line such as
// "default/web StartContainer.before" (package podlife names the effects), and waits until the connection is closed: the listener
// may let it go on, or end the process right there.
const FailpointEnv = "PODO_FAILPOINT"

// failpoint is called by the kubelet at each boundary; nil where nobody listens.
func failpoint() func(pod *v1.Pod, point string) {
	socket := os.Getenv(FailpointEnv)
	if socket == "" {
		return nil
	}
	return func(pod *v1.Pod, point string) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return // the listener has gone
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s/%s %s\n", pod.Namespace, pod.Name, point)
		io.Copy(io.Discard, conn) //nolint:errcheck // the connection's end is the answer, however it ends
	}
}
