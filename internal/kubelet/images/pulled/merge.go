package pulled

import (
	"cmp"
	"slices"

	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/kubelet/images/keyring"
)

// with is what a pull with a credential says about who may use the image: without a credential, or with the node's own, every pod
// of the node may.
func with(c *keyring.Credential) *v1beta1.ImagePullCredentials {
	switch {
	case c == nil, c.Secret == nil && c.Account == nil:
		return &v1beta1.ImagePullCredentials{NodePodsAccessible: true}
	case c.Secret != nil:
		return &v1beta1.ImagePullCredentials{KubernetesSecrets: []v1beta1.ImagePullSecret{*secretOf(c)}}
	}
	return &v1beta1.ImagePullCredentials{KubernetesServiceAccounts: []v1beta1.ImagePullServiceAccount{*c.Account}}
}

// secretOf is a credential's Secret with the hash of what it held.
func secretOf(c *keyring.Credential) *v1beta1.ImagePullSecret {
	if c.Secret == nil {
		return nil
	}
	s := *c.Secret
	s.CredentialHash = c.Hash
	return &s
}

// merge adds to what an image was opened with. A Secret is there once, with its newest content; lists are sorted.
func merge(old, add v1beta1.ImagePullCredentials) (merged v1beta1.ImagePullCredentials, changed bool) {
	if old.NodePodsAccessible {
		return old, false
	}
	if add.NodePodsAccessible {
		return v1beta1.ImagePullCredentials{NodePodsAccessible: true}, true
	}
	merged = v1beta1.ImagePullCredentials{
		KubernetesSecrets: slices.Clone(old.KubernetesSecrets), KubernetesServiceAccounts: slices.Clone(old.KubernetesServiceAccounts),
	}
	for _, s := range add.KubernetesSecrets {
		i, ok := slices.BinarySearchFunc(merged.KubernetesSecrets, s, func(a, b v1beta1.ImagePullSecret) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		switch {
		case !ok:
			merged.KubernetesSecrets = slices.Insert(merged.KubernetesSecrets, i, s)
			changed = true
		case merged.KubernetesSecrets[i] != s:
			merged.KubernetesSecrets[i] = s
			changed = true
		}
	}
	for _, a := range add.KubernetesServiceAccounts {
		i, ok := slices.BinarySearchFunc(merged.KubernetesServiceAccounts, a, func(a, b v1beta1.ImagePullServiceAccount) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		if !ok {
			merged.KubernetesServiceAccounts = slices.Insert(merged.KubernetesServiceAccounts, i, a)
			changed = true
		}
	}
	return merged, changed
}
