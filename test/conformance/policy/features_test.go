package policy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/kubernetes/pkg/features" // registers them
)

const featuresFile = "../../../internal/about/features.txt"

// TestFeatures: the table of feature gates is upstream's at its defaults, as its API server knows them.
func TestFeatures(t *testing.T) {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for name, spec := range gates.GetAll() {
		stage, state := string(spec.PreRelease), "off"
		if stage == "" {
			stage = "-"
		}
		if gates.Enabled(name) {
			state = "on"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s\n", name, stage, state))
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if *write {
		if err := os.WriteFile(featuresFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(featuresFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the table is another than upstream's: go test -mod=mod ./policy -write writes it\n%s", want)
	}
}
