package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/certificates/v1"
)

// A kubelet's certificates name it so.
const (
	NodePrefix = "system:node:"
	NodesGroup = "system:nodes"
)

// KubeletClient says why a request is none for the certificate with which a kubelet is known to the API server.
func KubeletClient(r *x509.CertificateRequest, usages []v1.KeyUsage) error {
	switch {
	case !ofNodes(r):
		return errNotOfNodes
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errURI
	case !strings.HasPrefix(r.Subject.CommonName, NodePrefix):
		return errNotANode
	}
	return forUsage(usages, v1.UsageClientAuth)
}

// KubeletServing says why a request is none for the certificate that a kubelet's port shows.
func KubeletServing(r *x509.CertificateRequest, usages []v1.KeyUsage) error {
	switch {
	case !ofNodes(r):
		return errNotOfNodes
	case len(r.DNSNames) == 0 && len(r.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.URIs) > 0:
		return errURI
	}
	if err := forUsage(usages, v1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Subject.CommonName, NodePrefix) {
		return errNotANode
	}
	return nil
}

var (
	errNotOfNodes = errors.New("subject organization is not system:nodes")
	//lint:ignore ST1005 upstream's text
	errNotANode = errors.New("subject common name does not begin with system:node:")
	//lint:ignore ST1005 upstream's text
	errEmail = errors.New("Email subjectAltNames are not allowed")
	errURI   = errors.New("URI subjectAltNames are not allowed")
)

func ofNodes(r *x509.CertificateRequest) bool {
	return slices.Equal(r.Subject.Organization, []string{NodesGroup})
}

// forUsage: for the one purpose, with digital signatures, and encipherment if the key can do that.
func forUsage(usages []v1.KeyUsage, purpose v1.KeyUsage) error {
	whole := []v1.KeyUsage{purpose, v1.UsageDigitalSignature, v1.UsageKeyEncipherment}
	slices.Sort(whole)
	has := slices.Clone(usages)
	slices.Sort(has)
	has = slices.Compact(has)
	if slices.Equal(has, whole) || slices.Equal(has, slices.DeleteFunc(slices.Clone(whole), func(u v1.KeyUsage) bool { return u == v1.UsageKeyEncipherment })) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", whole)
}
