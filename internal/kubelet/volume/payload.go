package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/objects"
)

// Objects are the ConfigMaps, Secrets and trust anchors that volumes show, and the claims that lead to volumes of the cluster.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, error)
	Secret(namespace, name string) (*v1.Secret, error)
	PersistentVolumeClaim(namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(name string) (*v1.PersistentVolume, error)
	TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error)
	TrustBundles(signer string, selector labels.Selector) []*certificatesv1.ClusterTrustBundle
}

// Token asks for a service account's token for a pod.
type Token func(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) (string, error)

// Certificate gives the key and the certificates, both PEM, of a source of a pod's projected volume.
type Certificate func(ctx context.Context, pod *v1.Pod, volume string, index int, s *v1.PodCertificateProjection) (key, chain []byte, err error)

// maker makes payloads.
type maker struct {
	objects Objects
	facts   func() downward.Facts
	token   Token
	cert    Certificate
}

// refs are the objects that a volume is made from: a change of one of them changes the volume.
func refs(pod *v1.Pod, v *v1.Volume) []objects.Ref {
	var out []objects.Ref
	add := func(k objects.Kind, name string) {
		out = append(out, objects.Ref{Kind: k, Namespace: pod.Namespace, Name: name})
	}
	switch {
	case v.ConfigMap != nil:
		add(objects.ConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		add(objects.Secret, v.Secret.SecretName)
	case claimSource(pod, v) != nil:
		add(objects.Claim, claimSource(pod, v).ClaimName)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(objects.ConfigMap, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add(objects.Secret, s.Secret.Name)
			}
			if s.ClusterTrustBundle != nil {
				out = append(out, objects.Ref{Kind: objects.TrustBundle})
			}
			if s.PodCertificate != nil {
				out = append(out, objects.Ref{Kind: objects.PodCertificate, Name: string(pod.UID)})
			}
		}
	}
	return out
}

// make makes the payload of a volume that shows API objects.
func (m maker) make(ctx context.Context, pod *v1.Pod, v *v1.Volume) (payload, error) {
	p := payload{}
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		return p, m.configMap(p, pod, s.Name, s.Items, mode(s.DefaultMode), s.Optional)
	case v.Secret != nil:
		s := v.Secret
		return p, m.secret(p, pod, s.SecretName, s.Items, mode(s.DefaultMode), s.Optional)
	case v.DownwardAPI != nil:
		return p, m.downward(p, pod, v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode))
	case v.Projected != nil:
		return p, m.projected(ctx, p, pod, v)
	}
	return nil, fmt.Errorf("volume %s shows no API object", v.Name)
}

func mode(m *int32) fs.FileMode {
	if m == nil {
		return 0o644
	}
	return fs.FileMode(*m).Perm()
}

func missing(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && optional != nil && *optional
}

func (m maker) configMap(p payload, pod *v1.Pod, name string, items []v1.KeyToPath, def fs.FileMode, optional *bool) error {
	cm, err := m.objects.ConfigMap(pod.Namespace, name)
	if err != nil {
		if missing(err, optional) {
			return nil
		}
		return err
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		data[k] = v
	}
	return pick(p, data, items, def, optional, "configmap references non-existent config key: %s")
}

func (m maker) secret(p payload, pod *v1.Pod, name string, items []v1.KeyToPath, def fs.FileMode, optional *bool) error {
	s, err := m.objects.Secret(pod.Namespace, name)
	if err != nil {
		if missing(err, optional) {
			return nil
		}
		return err
	}
	return pick(p, s.Data, items, def, optional, "references non-existent secret key: %s")
}

// pick takes all keys, or those that items name.
func pick(p payload, data map[string][]byte, items []v1.KeyToPath, def fs.FileMode, optional *bool, absent string) error {
	if len(items) == 0 {
		for k, v := range data {
			p[k] = file{data: v, mode: def}
		}
		return nil
	}
	for _, it := range items {
		v, ok := data[it.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf(absent, it.Key)
		}
		f := file{data: v, mode: def}
		if it.Mode != nil {
			f.mode = mode(it.Mode)
		}
		p[path.Clean(it.Path)] = f
	}
	return nil
}

func (m maker) downward(p payload, pod *v1.Pod, items []v1.DownwardAPIVolumeFile, def fs.FileMode) error {
	facts := m.facts()
	var errs []error
	for _, it := range items {
		var text string
		var err error
		switch {
		case it.FieldRef != nil:
			text, err = downward.Field(pod, it.FieldRef.FieldPath, facts)
		case it.ResourceFieldRef != nil:
			text, err = downward.Resource(pod, nil, it.ResourceFieldRef, facts)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f := file{data: []byte(text), mode: def}
		if it.Mode != nil {
			f.mode = mode(it.Mode)
		}
		p[path.Clean(it.Path)] = f
	}
	return utilerrors.NewAggregate(errs) // users are told one line
}

// projected puts several sources in one volume; where two name the same file, the later one wins.
func (m maker) projected(ctx context.Context, p payload, pod *v1.Pod, v *v1.Volume) error {
	def := mode(v.Projected.DefaultMode)
	var errs []error
	for i, s := range v.Projected.Sources {
		var err error
		switch {
		case s.ConfigMap != nil:
			err = m.configMap(p, pod, s.ConfigMap.Name, s.ConfigMap.Items, def, s.ConfigMap.Optional)
		case s.Secret != nil:
			err = m.secret(p, pod, s.Secret.Name, s.Secret.Items, def, s.Secret.Optional)
		case s.DownwardAPI != nil:
			err = m.downward(p, pod, s.DownwardAPI.Items, def)
		case s.ServiceAccountToken != nil && m.token != nil:
			var token string
			if token, err = m.token(ctx, pod, s.ServiceAccountToken); err == nil {
				p[path.Clean(s.ServiceAccountToken.Path)] = ownFile(pod, []byte(token), def)
			}
		case s.ClusterTrustBundle != nil:
			err = m.trustBundle(p, pod, s.ClusterTrustBundle, def)
		case s.PodCertificate != nil && m.cert != nil:
			err = m.podCertificate(ctx, p, pod, v.Name, i, s.PodCertificate, def)
		default:
			err = errors.New("this source of a projected volume is not supported yet")
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return utilerrors.NewAggregate(errs) // users are told one line
}

// podCertificate shows a key and its certificates, in one file or in two.
func (m maker) podCertificate(ctx context.Context, p payload, pod *v1.Pod, volume string, index int, s *v1.PodCertificateProjection, def fs.FileMode) error {
	key, chain, err := m.cert(ctx, pod, volume, index, s)
	if err != nil {
		return err
	}
	for at, data := range map[string][]byte{s.CredentialBundlePath: slices.Concat(key, chain), s.KeyPath: key, s.CertificateChainPath: chain} {
		if at == "" {
			continue
		}
		f := ownFile(pod, data, def)
		if s.User != nil {
			f.uid, f.mode = s.User, 0o600
		}
		p[path.Clean(at)] = f
	}
	return nil
}

// ownFile makes a file readable only by the one user that all containers run as, if there is one, and by the pod's group, if it
// has one. Otherwise its mode is def.
func ownFile(pod *v1.Pod, data []byte, def fs.FileMode) file {
	f := file{data: data, mode: def, uid: oneUser(pod)}
	if f.uid != nil || fsGroup(pod) != nil { // the group's bits are set together with its ownership
		f.mode = 0o600
	}
	return f
}

// oneUser is the user that every container runs as, when the pod says so.
func oneUser(pod *v1.Pod) *int64 {
	var pods *int64
	if pod.Spec.SecurityContext != nil {
		pods = pod.Spec.SecurityContext.RunAsUser
	}
	var uid *int64
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			u := pods
			if sc := list[i].SecurityContext; sc != nil && sc.RunAsUser != nil {
				u = sc.RunAsUser
			}
			if u == nil || (uid != nil && *uid != *u) {
				return nil
			}
			uid = u
		}
	}
	return uid
}
