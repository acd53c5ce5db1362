package pure

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzer(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer,
		Module+"internal/podlife", Module+"internal/controllers/x", Module+"internal/registry/deep",
		Module+"internal/kubelet", Module+"internal/timeline/recorder")
}

func TestIs(t *testing.T) {
	for p, want := range map[string]bool{
		Module + "internal/podlife": true, Module + "internal/registry": true, Module + "internal/registry/check": true,
		Module + "internal/registryx": false, Module + "internal/timeline": true, Module + "internal/timeline/recorder": false,
		Module + "internal/scheduler": false, Module + "internal/scheduler/plan": true, "example.com/internal/podlife": false,
	} {
		if Is(p) != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
}
