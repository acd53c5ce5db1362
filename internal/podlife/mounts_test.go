package podlife

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A mount below which everything should be read-only if possible is told as what it is.
func TestRecursiveReadOnlyIsToldAsItIs(t *testing.T) {
	for _, can := range []bool{false, true} {
		p := newPod(v1.RestartPolicyAlways, "m")
		modes := []v1.RecursiveReadOnlyMode{v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled}
		mounts := []v1.VolumeMount{{Name: "v", MountPath: "/w"}, {Name: "v", MountPath: "/r", ReadOnly: true}}
		for i := range modes {
			mounts = append(mounts, v1.VolumeMount{Name: "v", MountPath: "/" + string(modes[i]), ReadOnly: true, RecursiveReadOnly: &modes[i]})
		}
		p.Spec.Containers[0].VolumeMounts = mounts
		w := newWorld(t, p)
		w.cfg.RecursiveReadOnly = can
		w.step(Tick{})
		var got []string
		for _, m := range w.cstatus("m").VolumeMounts {
			mode := ""
			if m.RecursiveReadOnly != nil {
				mode = string(*m.RecursiveReadOnly)
			}
			got = append(got, mode)
		}
		want := " Disabled Disabled Disabled Disabled"
		if can {
			want = " Disabled Disabled Enabled Enabled"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("can %v: %q", can, got)
		}
	}
}
