package admit

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// accounts are a ServiceAccount rule over the given accounts of the namespace "work".
func accounts(list ...*v1.ServiceAccount) *ServiceAccount {
	return &ServiceAccount{Get: func(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
		for _, a := range list {
			if namespace == "work" && a.Name == name {
				return a, nil
			}
		}
		return nil, nil
	}}
}

func accountNamed(name string, change func(*v1.ServiceAccount)) *v1.ServiceAccount {
	a := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: name}}
	if change != nil {
		change(a)
	}
	return a
}

func plainPod(change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "p"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "first"}}, Containers: []v1.Container{{Name: "a"}, {Name: "b"}},
	}}
	if change != nil {
		change(p)
	}
	return p
}

func creating(p *v1.Pod) *Attributes {
	return &Attributes{Op: Create, Ref: client.Pods.At("work", p.Name), Object: p}
}

func TestPodsGetAnAccountAndItsToken(t *testing.T) {
	rule := accounts(accountNamed("default", func(a *v1.ServiceAccount) { a.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}} }))
	p := plainPod(func(p *v1.Pod) {
		p.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "own", MountPath: tokenPath}}
	})
	if err := rule.Mutate(t.Context(), creating(p)); err != nil {
		t.Fatal(err)
	}
	if p.Spec.ServiceAccountName != "default" || p.Spec.DeprecatedServiceAccount != "default" || len(p.Spec.ImagePullSecrets) != 1 || p.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("the spec is %+v", p.Spec)
	}
	if len(p.Spec.Volumes) != 1 {
		t.Fatalf("%d volumes", len(p.Spec.Volumes))
	}
	v := p.Spec.Volumes[0]
	s := v.Projected.Sources
	if !strings.HasPrefix(v.Name, "kube-api-access-") || len(v.Name) != len("kube-api-access-")+5 || *v.Projected.DefaultMode != 0o644 || len(s) != 3 ||
		s[0].ServiceAccountToken.Path != "token" || *s[0].ServiceAccountToken.ExpirationSeconds != 3607 || s[0].ServiceAccountToken.Audience != "" ||
		s[1].ConfigMap.Name != "kube-root-ca.crt" || s[2].DownwardAPI.Items[0].Path != "namespace" {
		t.Errorf("the volume is %+v", v)
	}
	mount := v1.VolumeMount{Name: v.Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	for _, c := range []v1.Container{p.Spec.InitContainers[0], p.Spec.Containers[0]} {
		if !equality.Semantic.DeepEqual(c.VolumeMounts, []v1.VolumeMount{mount}) {
			t.Errorf("%s mounts %v", c.Name, c.VolumeMounts)
		}
	}
	if len(p.Spec.Containers[1].VolumeMounts) != 1 {
		t.Error("a container that has something of its own there gets the token too")
	}
	before := p.DeepCopy()
	if err := rule.Mutate(t.Context(), creating(p)); err != nil || !equality.Semantic.DeepEqual(before, p) {
		t.Errorf("done again it changes the pod: %v", err)
	}
}

func TestWhetherTheTokenIsMounted(t *testing.T) {
	for _, c := range []struct {
		account, pod *bool
		want         bool
	}{{nil, nil, true}, {no(), nil, false}, {no(), yes(), true}, {yes(), no(), false}, {nil, no(), false}} {
		p := plainPod(func(p *v1.Pod) { p.Spec.AutomountServiceAccountToken = c.pod })
		rule := accounts(accountNamed("default", func(a *v1.ServiceAccount) { a.AutomountServiceAccountToken = c.account }))
		if err := rule.Mutate(t.Context(), creating(p)); err != nil || (len(p.Spec.Volumes) == 1) != c.want {
			t.Errorf("account %v, pod %v: %d volumes, %v", c.account, c.pod, len(p.Spec.Volumes), err)
		}
	}
}

func TestRefusedPods(t *testing.T) {
	strict := accountNamed("strict", func(a *v1.ServiceAccount) {
		a.Annotations = map[string]string{enforceMountable: "true"}
		a.Secrets = []v1.ObjectReference{{Name: "mine"}}
		a.AutomountServiceAccountToken = no()
	})
	fromKey := func(name string) []v1.EnvVar {
		return []v1.EnvVar{{Name: "E", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}}
	}
	from := func(name string) []v1.EnvFromSource {
		return []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}
	}
	mirror := func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }
	of := func(change func(*v1.Pod)) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.ServiceAccountName = "strict"; change(p) }
	}
	const tail = " is not allowed because service account strict does not reference that secret"
	for _, c := range []struct {
		name string
		pod  func(*v1.Pod)
		want string
	}{
		{"no such account", func(p *v1.Pod) { p.Spec.ServiceAccountName = "nobody" }, `error looking up service account work/nobody: serviceaccount "nobody" not found`},
		{"a mirror pod with an account", func(p *v1.Pod) { mirror(p); p.Spec.ServiceAccountName = "strict" }, "a mirror pod may not reference service accounts"},
		{"a mirror pod with a secret", func(p *v1.Pod) { mirror(p); p.Spec.Containers[0].EnvFrom = from("x") }, "a mirror pod may not reference secrets"},
		{"a mirror pod with a secret volume", func(p *v1.Pod) {
			mirror(p)
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}}}
		}, "a mirror pod may not reference secrets"},
		{"a mirror pod with a token", func(p *v1.Pod) {
			mirror(p)
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Projected: tokenSource()}}}
		}, "a mirror pod may not use ServiceAccountToken volume projections"},
		{"a mirror pod", mirror, ""},
		{"its own secrets", of(func(p *v1.Pod) {
			p.Spec.Containers[0].Env, p.Spec.InitContainers[0].EnvFrom = fromKey("mine"), from("mine")
		}), ""},
		{"a secret volume", of(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}}}
		}), `volume with secret.secretName="x"` + tail},
		{"a variable", of(func(p *v1.Pod) { p.Spec.Containers[0].Env = fromKey("x") }), `container a with envVar E referencing secret.secretName="x"` + tail},
		{"variables of an init container", of(func(p *v1.Pod) { p.Spec.InitContainers[0].EnvFrom = from("x") }), `init container first with envFrom referencing secret.secretName="x"` + tail},
		{
			"a pull secret", of(func(p *v1.Pod) { p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "mine"}} }),
			`imagePullSecrets[0].name="mine" is not allowed because service account strict does not reference that imagePullSecret`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := accounts(strict, accountNamed("default", nil)).Mutate(t.Context(), creating(plainPod(c.pod)))
			want := c.want
			if want != "" {
				want = `pods "p" is forbidden: ` + want
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%q\nwant %q", got, want)
			}
		})
	}
	p := plainPod(of(func(p *v1.Pod) {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", EnvFrom: from("x")}}}
	}))
	a := &Attributes{Op: Update, Ref: client.Pods.At("work", "p").Sub("ephemeralcontainers"), Object: p, Old: p}
	if err := accounts(strict).Validate(t.Context(), a); err == nil || err.Error() != `ephemeral container e with envFrom referencing secret.secretName="x"`+tail {
		t.Errorf("an ephemeral container: %v", err)
	}
}
