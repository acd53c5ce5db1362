package volume

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/podlife"
)

// All that is the matter with the sources of one volume is told in one line, as upstream tells it.
func TestSeveralFaultsOfAVolume(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v"})
	key := func(name, key string) v1.VolumeProjection {
		return v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: name}, Items: []v1.KeyToPath{{Key: key, Path: "x"}},
		}}
	}
	field := func(path string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
	}
	for _, tc := range []struct {
		source v1.VolumeSource
		want   string
	}{
		{
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{key("c", "no"), key("none", "k"), key("c", "k")}}},
			`[configmap references non-existent config key: no, configmap "none" not found]`,
		},
		{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{key("c", "no")}}}, `configmap references non-existent config key: no`},
		{
			v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{field("spec.a"), field("spec.b")}}},
			`[unsupported fieldPath: spec.a, unsupported fieldPath: spec.b]`,
		},
	} {
		err := n.Mount(context.Background(), pod("u", vol("v", tc.source)))
		var f *podlife.Failure
		if want := `MountVolume.SetUp failed for volume "v" : ` + tc.want; !errors.As(err, &f) || f.Message != want {
			t.Errorf("%#v\nwant %s", f, want)
		}
	}
}
