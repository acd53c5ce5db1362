package podobject

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What upstream warns of in a pod's volumes: files of one volume that are in each other's way, a source that is none, half bytes.
func TestWarningsOfVolumes(t *testing.T) {
	items := func(paths ...string) (out []v1.KeyToPath) {
		for _, p := range paths {
			out = append(out, v1.KeyToPath{Key: "k", Path: p})
		}
		return out
	}
	named := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	claim := &v1.PersistentVolumeClaimTemplate{}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1500m")}
	for name, c := range map[string]struct {
		source v1.VolumeSource
		want   []string
	}{
		"apart": {v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("c"), Items: items("a", "ab", "b/c")}}, nil},
		"one below another": {
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("c"), Items: items("a/b", "a/", "x")}},
			[]string{`volume "v" (ConfigMap "c"): overlapping paths: "a" with "a/b"`},
		},
		"the same": {
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: items("a", "a")}},
			[]string{`volume "v" (Secret "s"): overlapping paths: "a" with "a"`},
		},
		"of several sources": {
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t"}},
				{},
				{Secret: &v1.SecretProjection{LocalObjectReference: named("s"), Items: items("t/x")}},
				{PodCertificate: &v1.PodCertificateProjection{KeyPath: "t/x"}},
			}}},
			[]string{
				`volume "v" (Projected) has no sources provided`,
				`volume "v" (Projected): overlapping paths: "t/x" (Secret "s") with "t" (ServiceAccountToken)`,
				`volume "v" (Projected): overlapping paths: "t/x" (PodCertificate key) with "t" (ServiceAccountToken)`,
				`volume "v" (Projected): overlapping paths: "t/x" (PodCertificate key) with "t/x" (Secret "s")`,
			},
		},
		"half a byte": {
			v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: claim}},
			[]string{`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`},
		},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "v", VolumeSource: c.source}}}}
		if got := Warnings(pod); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
