// Package certificateapproval approves the certificates that kubelets ask for: for clients, as upstream, when who asks may have such a
// certificate; for servers, which upstream leaves to others, when it is the node itself that asks, for addresses that are its own and
// nobody else's. What is not approved stays as it is, for a person to decide.
package certificateapproval

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/certificates"
)

// Ask is a permission that a request needs: the verb create on this subresource of certificatesigningrequests.
type Ask struct {
	Subresource string
	Message     string // of the approval, if it is given
}

// Client are the permissions for a request of a client certificate of a kubelet, any of which is enough; none for another request.
func Client(r *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) []Ask {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || certificates.KubeletClient(parsed, r.Spec.Usages) != nil {
		return nil
	}
	any := Ask{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
	if r.Spec.Username != parsed.Subject.CommonName {
		return []Ask{any}
	}
	return []Ask{{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}, any}
}

// ServingMessage is that of an approval of a serving certificate.
const ServingMessage = "Auto approving kubelet serving certificate: its addresses are those of the node that asks, and of no other."

// ServingNode is the name of the node whose serving certificate a request is for, "" when it is for something else.
func ServingNode(r *certificatesv1.CertificateSigningRequest) string {
	if r.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return ""
	}
	node, _ := strings.CutPrefix(r.Spec.Username, certificates.NodePrefix)
	return node
}

// Serving says why a request for a serving certificate is not approved, "" when it is. node is the Node of ServingNode, nil while there
// is none. others are addresses that are not this node's to serve at, by whom they are: of other nodes, and of the API server. A node
// says itself what its addresses are, so that without them one that was broken into could stand in for anybody.
func Serving(r *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, node *v1.Node, others map[string]string) string {
	if err := certificates.KubeletServing(parsed, r.Spec.Usages); err != nil {
		return err.Error()
	}
	if parsed.Subject.CommonName != r.Spec.Username || !slices.Contains(r.Spec.Groups, certificates.NodesGroup) {
		return fmt.Sprintf("%s asks for a certificate of %s", r.Spec.Username, parsed.Subject.CommonName)
	}
	if node == nil {
		return "there is no such Node yet"
	}
	own := map[string]bool{}
	for _, a := range Addresses(node) {
		own[a] = true
	}
	var wanted []string
	for _, n := range parsed.DNSNames {
		wanted = append(wanted, strings.ToLower(n))
	}
	for _, ip := range parsed.IPAddresses {
		wanted = append(wanted, ip.String())
	}
	for _, a := range wanted {
		if whose := others[a]; whose != "" {
			return fmt.Sprintf("%s is an address of %s", a, whose)
		}
		if !own[a] {
			return fmt.Sprintf("%s is none of the node's addresses", a)
		}
	}
	return ""
}

// Addresses are a node's, names in lower case and numbers in their usual form, whatever kind they are said to be of.
func Addresses(node *v1.Node) []string {
	var out []string
	for _, a := range node.Status.Addresses {
		if ip := net.ParseIP(a.Address); ip != nil {
			out = append(out, ip.String())
		} else if a.Address != "" {
			out = append(out, strings.ToLower(a.Address))
		}
	}
	return out
}

// Decided says that a request has its verdict, or needs none.
func Decided(r *certificatesv1.CertificateSigningRequest) bool {
	return len(r.Status.Certificate) > 0 || slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

// Approve adds the verdict.
func Approve(r *certificatesv1.CertificateSigningRequest, message string) {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
}
