package admit

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// ServiceAccount gives every pod an account, and its containers a volume with a token, the authority's certificate and the
// namespace, unless pod or account refuse that. An account may limit its pods to the Secrets that it lists.
type ServiceAccount struct {
	// Get reads an account, nil when there is none. It waits for a namespace's default account, which may not be there yet.
	Get func(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
}

const (
	// DefaultAccount is the account of pods that name none; every namespace has it.
	DefaultAccount = "default"

	tokenVolume = "kube-api-access-"
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is a special value: the API server gives such tokens a year, and warns of users that never read them again.
	tokenSeconds     = 60*60 + 7
	enforceMountable = "kubernetes.io/enforce-mountable-secrets"
)

// podFor is the pod that the rule concerns, or nil.
func podFor(a *Attributes) *v1.Pod {
	if a.Ref.Resource != (schema.GroupResource{Resource: "pods"}) {
		return nil
	}
	create := a.Op == Create && a.Ref.Subresource == ""
	if !create && (a.Op != Update || a.Ref.Subresource != "ephemeralcontainers") {
		return nil
	}
	pod, _ := a.Object.(*v1.Pod)
	return pod
}

func mirrors(pod *v1.Pod) bool {
	_, is := pod.Annotations[v1.MirrorPodAnnotationKey]
	return is
}

// Mutate implements Mutator.
func (p *ServiceAccount) Mutate(ctx context.Context, a *Attributes) error {
	pod := podFor(a)
	if pod == nil || a.Op != Create {
		return nil
	}
	if mirrors(pod) { // its kubelet compares it with the manifest
		return p.Validate(ctx, a)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = DefaultAccount
		pod.Spec.DeprecatedServiceAccount = DefaultAccount
	}
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if automounts(account, pod) {
		mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		for _, s := range account.ImagePullSecrets {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s.Name})
		}
	}
	return p.judge(a, pod, account)
}

// Validate implements Validator.
func (p *ServiceAccount) Validate(ctx context.Context, a *Attributes) error {
	pod := podFor(a)
	if pod == nil {
		return nil
	}
	if a.Op == Create && mirrors(pod) {
		if msg := mirrorRefers(pod); msg != "" {
			return forbidden(a, msg)
		}
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return forbidden(a, fmt.Sprintf("no service account specified for pod %s/%s", a.Ref.Namespace, pod.Name))
	}
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	return p.judge(a, pod, account)
}

func (p *ServiceAccount) account(ctx context.Context, a *Attributes, pod *v1.Pod) (*v1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	account, err := p.Get(ctx, a.Ref.Namespace, name)
	if err == nil && account == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
	}
	if err != nil {
		return nil, forbidden(a, fmt.Sprintf("error looking up service account %s/%s: %v", a.Ref.Namespace, name, err))
	}
	return account, nil
}

func (p *ServiceAccount) judge(a *Attributes, pod *v1.Pod, account *v1.ServiceAccount) error {
	if enforce, _ := strconv.ParseBool(account.Annotations[enforceMountable]); !enforce {
		return nil
	}
	limit := limitOf(account)
	if a.Op == Update {
		for i := range pod.Spec.EphemeralContainers {
			c := &pod.Spec.EphemeralContainers[i]
			if err := limit.container("ephemeral container", c.Name, c.Env, c.EnvFrom); err != nil {
				return err // as upstream, no Forbidden
			}
		}
		return nil
	}
	if err := limit.pod(pod); err != nil {
		return forbidden(a, err.Error())
	}
	return nil
}

// automounts: the pod's setting wins over the account's, and the default is to mount a token.
func automounts(account *v1.ServiceAccount, pod *v1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken adds the volume and mounts it into every container that has nothing else there. A second call changes nothing.
func mountToken(pod *v1.Pod) {
	name, has := "", false
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; strings.HasPrefix(v.Name, tokenVolume) {
			name, has = v.Name, true
			break
		}
	}
	if !has {
		name = tokenVolume + tokenSuffix(pod)
	}
	mounted := false
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if taken(list[i].VolumeMounts) {
				continue
			}
			list[i].VolumeMounts = append(list[i].VolumeMounts, v1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenPath})
			mounted = true
		}
	}
	if mounted && !has {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenSuffix is random but the same for pods of one template: nothing outside a pod uses the name, and pods that differ less
// take less memory.
func tokenSuffix(pod *v1.Pod) string {
	const length = 5
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return utilrand.String(length)
	}
	h := fnv.New64a()
	h.Write([]byte(owner.UID)) // cannot fail
	return utilrand.SafeEncodeString(fmt.Sprintf("%0*d", length, h.Sum64()%100_000))
}

func taken(mounts []v1.VolumeMount) bool {
	for i := range mounts {
		if mounts[i].MountPath == tokenPath {
			return true
		}
	}
	return false
}

func tokenSource() *v1.ProjectedVolumeSource {
	mode, seconds := v1.ProjectedVolumeSourceDefaultMode, int64(tokenSeconds)
	return &v1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &v1.ConfigMapProjection{
				LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []v1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}

// mirrorRefers names what a mirror pod must not refer to: its node would get a right to it.
func mirrorRefers(pod *v1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "a mirror pod may not reference service accounts"
	}
	if refersToSecrets(pod) {
		return "a mirror pod may not reference secrets"
	}
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for j := range projected.Sources {
				if projected.Sources[j].ServiceAccountToken != nil {
					return "a mirror pod may not use ServiceAccountToken volume projections"
				}
			}
		}
	}
	return ""
}

// limit is what the pods of an account may refer to.
type limit struct {
	account       string
	secrets, pull map[string]bool
}

func limitOf(account *v1.ServiceAccount) limit {
	l := limit{account.Name, map[string]bool{}, map[string]bool{}}
	for _, s := range account.Secrets {
		l.secrets[s.Name] = true
	}
	for _, s := range account.ImagePullSecrets {
		l.pull[s.Name] = true
	}
	return l
}

func (l limit) pod(pod *v1.Pod) error {
	for i := range pod.Spec.Volumes {
		if s := pod.Spec.Volumes[i].Secret; s != nil && !l.secrets[s.SecretName] {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", s.SecretName, l.account)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := l.container("init container", c.Name, c.Env, c.EnvFrom); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if err := l.container("container", c.Name, c.Env, c.EnvFrom); err != nil {
			return err
		}
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !l.pull[s.Name] {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, s.Name, l.account)
		}
	}
	return nil
}

func (l limit) container(what, name string, env []v1.EnvVar, from []v1.EnvFromSource) error {
	refuse := func(how, secret string) error {
		return fmt.Errorf("%s %s with %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret", what, name, how, secret, l.account)
	}
	for i := range env {
		if f := env[i].ValueFrom; f != nil && f.SecretKeyRef != nil && !l.secrets[f.SecretKeyRef.Name] {
			return refuse("envVar "+env[i].Name, f.SecretKeyRef.Name)
		}
	}
	for i := range from {
		if s := from[i].SecretRef; s != nil && !l.secrets[s.Name] {
			return refuse("envFrom", s.Name)
		}
	}
	return nil
}
