package spec

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/podlife"
)

func envOf(cfg *runtimev1.ContainerConfig) string {
	var out []string
	for _, kv := range cfg.Envs {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(out, "\n")
}

// C21
func TestExpansionInEnv(t *testing.T) {
	n := newTest(t)
	cfg := n.must(t, testPod(func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{
			{Name: "A", Value: "x"},
			{Name: "B", Value: "$(A)-$(Z)"},
			{Name: "C", Value: "$(D)"},
			{Name: "D", Value: "y"},
			{Name: "E", Value: "$$(A) $$ $$$$"},
		}
	}))
	if got, want := envOf(cfg), "A=x\nB=x-$(Z)\nC=$(D)\nD=y\nE=$(A) $ $$"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEnvSources(t *testing.T) {
	n := newTest(t)
	cm := func(name string, optional *bool) *v1.ConfigMapEnvSource {
		return &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional}
	}
	cmKey := func(name, key string, optional *bool) *v1.EnvVarSource {
		return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	sKey := func(name, key string, optional *bool) *v1.EnvVarSource {
		return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	cfg := n.must(t, testPod(func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.EnvFrom = []v1.EnvFromSource{
			{Prefix: "P_", ConfigMapRef: cm("c", nil)},
			{ConfigMapRef: cm("none", ptr(true))},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr(true)}},
		}
		c.Resources.Limits = v1.ResourceList{"memory": resource.MustParse("64Mi")}
		c.Env = []v1.EnvVar{
			{Name: "k", Value: "overrides $(P_k)"},
			{Name: "CM", ValueFrom: cmKey("c", "k", nil)},
			{Name: "S", ValueFrom: sKey("s", "k", nil)},
			{Name: "O1", ValueFrom: cmKey("none", "k", ptr(true))},
			{Name: "O2", ValueFrom: cmKey("c", "none", ptr(true))},
			{Name: "O3", ValueFrom: sKey("none", "k", ptr(true))},
			{Name: "O4", ValueFrom: sKey("s", "none", ptr(true))},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "HOST", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
			{Name: "MEM", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			{Name: "EMPTY"},
		}
	}))
	want := "P_k=v\nP_not an identifier=x\nk=overrides v\nCM=v\nS=secret\nIP=10.1.0.2\nHOST=192.0.2.1\nMEM=64\nEMPTY="
	if got := envOf(cfg); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, tc := range []struct {
		change func(*v1.Container)
		want   string
	}{
		{func(c *v1.Container) { c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: cm("x", nil)}} }, `configmap "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: cmKey("x", "k", nil)}} }, `configmap "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: sKey("x", "k", ptr(false))}} }, `secret "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: cmKey("c", "z", nil)}} }, "couldn't find key z in ConfigMap ns/c"},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: sKey("s", "z", nil)}} }, "couldn't find key z in Secret ns/s"},
	} {
		_, err := n.of(testPod(func(p *v1.Pod) { tc.change(&p.Spec.Containers[0]) }))
		var f *podlife.Failure
		if !errors.As(err, &f) || f.Reason != "CreateContainerConfigError" || f.Message != tc.want {
			t.Errorf("%#v, want %s", err, tc.want)
		}
	}
}
