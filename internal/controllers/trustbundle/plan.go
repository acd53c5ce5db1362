// Package trustbundle publishes the authority of the API server's certificate as a ClusterTrustBundle, for pods that project trust
// anchors by their signer.
package trustbundle

import (
	"crypto/sha256"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signer is whose anchors are published.
const Signer = "kubernetes.io/kube-apiserver-serving"

// Wanted is the one bundle of the signer; its name changes with what is in it, so that nobody reads half of a change.
func Wanted(ca string) *certificatesv1.ClusterTrustBundle {
	hash := sha256.Sum256([]byte(ca))
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s:%x", strings.ReplaceAll(Signer, "/", ":"), hash[:12])},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: Signer, TrustBundle: ca},
	}
}

// Plan says what to do with the signer's bundles that there are: make the wanted one, or mend it, and delete the others.
func Plan(wanted *certificatesv1.ClusterTrustBundle, there []*certificatesv1.ClusterTrustBundle) (create, mend bool, remove []string) {
	create = true
	for _, b := range there {
		if b.Name != wanted.Name {
			remove = append(remove, b.Name)
			continue
		}
		create, mend = false, b.Spec.TrustBundle != wanted.Spec.TrustBundle
	}
	return create, mend, remove
}
