package admit

import (
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/registry/certificates"
)

// certificate: a kubelet requests certificates for its own node only. Whether they are signed is decided elsewhere, with closer
// checks.
func (r *restriction) certificate() string {
	csr, _ := r.Object.(*certificatesv1.CertificateSigningRequest)
	if r.Op != Create || csr == nil {
		return ""
	}
	if s := csr.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return ""
	}
	parsed, err := certificates.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Sprintf("unable to parse csr: %v", err)
	}
	if own := "system:node:" + r.node; parsed.Subject.CommonName != own {
		return "can only create a node CSR with CN=" + own
	}
	return ""
}

// podCertificate: a kubelet requests certificates for its pods. A request names the pod, its account and the node as they are
// now, and a signer that the pod uses. An error that may only come from a stale view is no Forbidden, so that the kubelet tries
// again.
func (r *restriction) podCertificate() error {
	if r.Op != Create {
		return r.refuse(fmt.Sprintf("unexpected operation %v", r.Op))
	}
	if r.Ref.Subresource != "" {
		return r.refuse("unexpected subresource " + r.Ref.Subresource)
	}
	req, ok := r.Object.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return r.refuse(fmt.Sprintf("unexpected type %T", r.Object))
	}
	s := &req.Spec
	if string(s.NodeName) != r.node {
		return r.refuse(fmt.Sprintf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, r.node))
	}
	pod, err := r.podOfCertificate(s)
	if err != nil {
		return err
	}
	if names(pod, s.SignerName) {
		return nil
	}
	ok, _ = r.x.Authorizer.Authorize(r.ctx, &authz.Attributes{
		User: r.User, Verb: "request-serviceaccounts-podcertificate-signer", Group: r.Ref.Resource.Group,
		Resource: strings.ReplaceAll(s.SignerName, "/", ":"), Namespace: r.Ref.Namespace, Name: s.ServiceAccountName,
	})
	if ok {
		return nil
	}
	return r.refuse(fmt.Sprintf("pod %q does not mount a podCertificate projected volume for signer %q", r.Ref.Namespace+"/"+s.PodName, s.SignerName))
}

// podOfCertificate finds the pod of a request, if node, pod and account match what it names.
func (r *restriction) podOfCertificate(s *certificatesv1.PodCertificateRequestSpec) (*v1.Pod, error) {
	in := func(name string) string { return fmt.Sprintf("%q", r.Ref.Namespace+"/"+name) }
	node := r.x.View.Snapshot().Get(nodeResource, "", r.node)
	if node == nil {
		return nil, fmt.Errorf("while retrieving node %q named in the PodCertificateRequest: node %q not found", r.node, r.node)
	}
	if uid := node.Meta.GetUID(); uid != s.NodeUID {
		return nil, fmt.Errorf("PodCertificateRequest for pod %s names node UID %q, inconsistent with the running node (%q)", in(s.PodName), s.NodeUID, uid)
	}
	pod, err := r.pod(s.PodName)
	if err != nil { // not wrapped: as upstream's, it is an internal error and no NotFound
		return nil, fmt.Errorf("while retrieving pod %s named in the PodCertificateRequest: %s", in(s.PodName), err.Error())
	}
	switch {
	case s.PodUID != pod.UID:
		return nil, fmt.Errorf("PodCertificateRequest for pod %s contains pod UID (%q) which differs from running pod %q", in(s.PodName), s.PodUID, pod.UID)
	case pod.Spec.NodeName != r.node:
		return nil, r.refuse(fmt.Sprintf("pod %s is not running on node %q named in the PodCertificateRequest", in(s.PodName), s.NodeName))
	case mirrors(pod):
		return nil, r.refuse(fmt.Sprintf("pod %s is a mirror pod", in(s.PodName)))
	case s.ServiceAccountName != pod.Spec.ServiceAccountName:
		return nil, r.refuse(fmt.Sprintf("PodCertificateRequest for pod %s contains serviceAccountName (%q) that differs from running pod (%q)",
			in(s.PodName), s.ServiceAccountName, pod.Spec.ServiceAccountName))
	}
	account := r.x.View.Snapshot().Get(accountResource, r.Ref.Namespace, s.ServiceAccountName)
	if account == nil {
		return nil, fmt.Errorf("while retrieving service account %s named in the PodCertificateRequest: serviceaccount %q not found", in(s.ServiceAccountName), s.ServiceAccountName)
	}
	if uid := account.Meta.GetUID(); uid != s.ServiceAccountUID {
		return nil, fmt.Errorf("PodCertificateRequest for pod %s names service account UID %q, which differs from the running service account (%q)",
			in(s.PodName), s.ServiceAccountUID, uid)
	}
	return pod, nil
}

var accountResource = schema.GroupResource{Resource: "serviceaccounts"}

// names says whether a pod has a volume with a certificate of the signer.
func names(pod *v1.Pod, signer string) bool {
	for i := range pod.Spec.Volumes {
		p := pod.Spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			if c := p.Sources[j].PodCertificate; c != nil && c.SignerName == signer {
				return true
			}
		}
	}
	return false
}
