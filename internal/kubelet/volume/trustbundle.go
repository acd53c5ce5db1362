package volume

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trustBundle shows the trust anchors of one bundle, or of those of a signer.
func (m maker) trustBundle(p payload, pod *v1.Pod, s *v1.ClusterTrustBundleProjection, def fs.FileMode) error {
	var bundles []*certificatesv1.ClusterTrustBundle
	optional := s.Optional != nil && *s.Optional
	switch {
	case s.Name != nil:
		b, err := m.objects.TrustBundle(*s.Name)
		if err == nil {
			bundles = append(bundles, b)
		} else if !missing(err, s.Optional) {
			return fmt.Errorf("while getting ClusterTrustBundle: %w", err)
		}
	case s.SignerName != nil:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return fmt.Errorf("while parsing label selector: %w", err)
		}
		if bundles = m.objects.TrustBundles(*s.SignerName, selector); len(bundles) == 0 && !optional {
			return errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
		}
	default:
		return errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	p[path.Clean(s.Path)] = ownFile(pod, anchors(bundles), def)
	return nil
}

// order differs in each run of the kubelet, so that nobody relies on the order of trust anchors.
var order = maphash.MakeSeed()

// anchors are the bundles' trust anchors, each once, without the other contents of their texts.
func anchors(bundles []*certificatesv1.ClusterTrustBundle) []byte {
	var all [][]byte
	for _, b := range bundles {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			all = append(all, block.Bytes)
		}
	}
	slices.SortFunc(all, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(maphash.Bytes(order, a), maphash.Bytes(order, b)), bytes.Compare(a, b))
	})
	all = slices.CompactFunc(all, bytes.Equal)
	out := []byte{}
	for _, der := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}
