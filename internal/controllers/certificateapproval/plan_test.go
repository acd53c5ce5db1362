package certificateapproval

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func parsed(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	if change != nil {
		change(r)
	}
	return r
}

func request(signer, user string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: signer, Username: user, Groups: []string{"system:nodes", "system:authenticated"}, Usages: usages,
	}}
}

func TestClient(t *testing.T) {
	const signer = certificatesv1.KubeAPIServerClientKubeletSignerName
	good := []certificatesv1.KeyUsage{"client auth", "digital signature"}
	for _, c := range []struct {
		name   string
		r      *certificatesv1.CertificateSigningRequest
		parsed *x509.CertificateRequest
		want   string
	}{
		{"a node's own", request(signer, "system:node:n1", good...), parsed(nil), "selfnodeclient nodeclient"},
		{"a bootstrapper's", request(signer, "system:bootstrap:abcdef", good...), parsed(nil), "nodeclient"},
		{"with encipherment", request(signer, "x", append(good, "key encipherment")...), parsed(nil), "nodeclient"},
		{"of another signer", request("kubernetes.io/kube-apiserver-client", "x", good...), parsed(nil), ""},
		{"for a server", request(signer, "x", "server auth", "digital signature"), parsed(nil), ""},
		{"for more", request(signer, "x", append(good, "server auth")...), parsed(nil), ""},
		{"of another group", request(signer, "x", good...), parsed(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), ""},
		{"of two groups", request(signer, "x", good...), parsed(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }), ""},
		{"of no node", request(signer, "x", good...), parsed(func(r *x509.CertificateRequest) { r.Subject.CommonName = "ann" }), ""},
		{"with a name", request(signer, "x", good...), parsed(func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }), ""},
		{"with a URI", request(signer, "x", good...), parsed(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), ""},
	} {
		var got []string
		for _, a := range Client(c.r, c.parsed) {
			got = append(got, a.Subresource)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestServing(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: v1.NodeHostName, Address: "N1"},
		{Type: v1.NodeInternalIP, Address: "10.0.0.9"},
		{Type: v1.NodeExternalIP, Address: "2001:DB8::1"},
	}}}
	others := map[string]string{"10.0.0.2": "node n2", "kubernetes": "the API server", "10.0.0.9": "the API server"}
	const signer = certificatesv1.KubeletServingSignerName
	good := request(signer, "system:node:n1", "server auth", "digital signature")
	for _, c := range []struct {
		name   string
		r      *certificatesv1.CertificateSigningRequest
		node   *v1.Node
		change func(*x509.CertificateRequest)
		why    string // "" is approved
	}{
		{"its own", good, node, func(r *x509.CertificateRequest) {
			r.DNSNames, r.IPAddresses = []string{"n1"}, []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("2001:db8::1")}
		}, ""},
		{"none", good, node, nil, "DNS or IP subjectAltName is required"},
		{"before the Node is there", good, nil, func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1"} }, "there is no such Node yet"},
		{"a stranger's address", good, node, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("10.0.0.3")} }, "10.0.0.3 is none of the node's addresses"},
		{"another node's address", good, node, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("10.0.0.2")} }, "10.0.0.2 is an address of node n2"},
		{"the API server's name", good, node, func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1", "Kubernetes"} }, "kubernetes is an address of the API server"},
		{"the API server's address, which it says is its own", good, node, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("10.0.0.9")} }, "10.0.0.9 is an address of the API server"},
		{"another node's certificate", good, node, func(r *x509.CertificateRequest) { r.DNSNames, r.Subject.CommonName = []string{"n1"}, "system:node:n2" }, "asks for a certificate of system:node:n2"},
		{"by somebody of that name", func() *certificatesv1.CertificateSigningRequest {
			r := good.DeepCopy()
			r.Spec.Groups = []string{"system:authenticated"}
			return r
		}(), node, func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1"} }, "asks for a certificate"},
		{"for a client", request(signer, "system:node:n1", "client auth", "digital signature"), node, func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1"} }, "usages did not match [digital signature key encipherment server auth]"},
		{"a wildcard", good, node, func(r *x509.CertificateRequest) { r.DNSNames = []string{"*"} }, "none of the node's"},
		{"a mail address", good, node, func(r *x509.CertificateRequest) { r.DNSNames, r.EmailAddresses = []string{"n1"}, []string{"a@b"} }, "Email"},
	} {
		why := Serving(c.r, parsed(c.change), c.node, others)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
