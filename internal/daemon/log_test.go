package daemon

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"podo.dev/podo/internal/daemon/config"
)

// What libraries call an error is seen by who asked for more than usual.
func TestLibrariesAreQuiet(t *testing.T) {
	defer klog.ClearLogger()
	var out strings.Builder
	log, level := newLogger(&out, &config.Node{})
	klog.ErrorS(errors.New("use of closed network connection"), "Error on socket receive")
	klog.InfoS("something")
	log.Info("podo's own")
	if got := out.String(); strings.Contains(got, "socket") || strings.Contains(got, "something") || !strings.Contains(got, "podo's own") {
		t.Errorf("usually: %s", got)
	}
	level.Set(-2)
	klog.ErrorS(errors.New("use of closed network connection"), "Error on socket receive")
	if got := out.String(); !strings.Contains(got, "Error on socket receive") {
		t.Errorf("with -v 2: %s", got)
	}
}
