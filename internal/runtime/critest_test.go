//go:build e2e

package runtime_test

import (
	"testing"

	"podo.dev/podo/internal/cri/critest"
)

// The adapter passes the port's suite on the containerd that podo carries. The suite lives here and not beside the adapter, since
// starting a containerd is this package's business.
func TestSuiteOnRealContainerd(t *testing.T) {
	n := newNode(t, "10.213.82.0/24")
	n.up()
	image := n.shellImage()
	critest.Run(t, func(t *testing.T) critest.Env {
		return critest.Env{
			Runtime: n.cri, Image: image, Absent: "127.0.0.1:1/nobody/nothing:v1", LogRoot: t.TempDir(), CgroupParent: cgroupOf(n, "suite"),
		}
	})
}
