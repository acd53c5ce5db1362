package e2e

import (
	"os"
	"testing"

	"podo.dev/podo/test/e2e/badkernel"
)

func TestMain(m *testing.M) {
	badkernel.Launch()
	os.Exit(m.Run())
}
