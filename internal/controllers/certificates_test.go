package controllers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/certificateapproval"
	"podo.dev/podo/internal/controllers/certificatecleaning"
	"podo.dev/podo/internal/controllers/certificatesigning"
	"podo.dev/podo/internal/controllers/trustbundle"
)

var (
	csrs    = client.Resource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	bundles = client.Resource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
)

// authority signs in the bubble's time.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now(), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}, key}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) Authority() *x509.Certificate { return a.cert }

func (a *authority) Sign(template *x509.Certificate) ([]byte, error) {
	t := *template
	t.SerialNumber = big.NewInt(2)
	der, err := x509.CreateCertificate(rand.Reader, &t, a.cert, t.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func (w *world) csr(name, signer string, usage certificatesv1.KeyUsage, t *x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, t, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: []certificatesv1.KeyUsage{"digital signature", usage},
	}}
}

// state is a request's conditions, and "Issued" when it has a certificate.
func (w *world) csrState(name string) (out []string) {
	w.t.Helper()
	r, _ := w.get(csrs.At("", name)).(*certificatesv1.CertificateSigningRequest)
	if r == nil {
		return []string{"gone"}
	}
	for _, c := range r.Status.Conditions {
		out = append(out, string(c.Type))
	}
	if len(r.Status.Certificate) > 0 {
		out = append(out, "Issued")
	}
	return out
}

// A machine with a token becomes a node; the node gets a serving certificate for its own addresses, and its next client certificate.
func TestAMachineBecomesANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		ca := newAuthority(t)
		w.run(certificateapproval.New(certificateapproval.Config{View: w.view, Client: w.controllers, Reserved: func() []string { return []string{"10.0.0.1", "kubernetes"} }}))
		w.run(certificatesigning.New(w.view, w.controllers, ca, nil))
		w.run(certificatecleaning.New(w.view, w.controllers, nil))
		ctx := context.Background()
		machine := local.New(w.verbs, "system:bootstrap:abcdef", "system:bootstrappers", "system:authenticated")
		node := local.New(w.verbs, "system:node:node-a", "system:nodes", "system:authenticated")
		stranger := local.New(w.verbs, "ann", "system:authenticated")
		subject := pkix.Name{CommonName: "system:node:node-a", Organization: []string{"system:nodes"}}
		const kubelet, serving = certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName
		is := func(name string, want ...string) {
			t.Helper()
			if got := w.csrState(name); !slices.Equal(got, want) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}

		w.must(machine.Create(ctx, csrs.At("", ""), w.csr("first", kubelet, "client auth", &x509.CertificateRequest{Subject: subject})))
		is("first", "Approved", "Issued")
		block, _ := pem.Decode(w.get(csrs.At("", "first")).(*certificatesv1.CertificateSigningRequest).Status.Certificate)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || leaf.CheckSignatureFrom(ca.cert) != nil || leaf.Subject.CommonName != subject.CommonName || time.Until(leaf.NotAfter) > 366*24*time.Hour {
			t.Errorf("the certificate: %v, %v", leaf, err)
		}
		w.must(node.Create(ctx, csrs.At("", ""), w.csr("next", kubelet, "client auth", &x509.CertificateRequest{Subject: subject})))
		is("next", "Approved", "Issued")
		if _, err := stranger.Create(ctx, csrs.At("", ""), w.csr("x", kubelet, "client auth", &x509.CertificateRequest{Subject: subject})); err == nil {
			t.Error("anybody may ask to be a node")
		}
		// An administrator may ask, and approve it; nobody does it for him.
		w.must(w.admin.Create(ctx, csrs.At("", ""), w.csr("person", certificatesv1.KubeAPIServerClientSignerName, "client auth", &x509.CertificateRequest{Subject: pkix.Name{CommonName: "bob"}})))
		is("person")

		address := net.ParseIP("10.0.0.2")
		w.must(node.Create(ctx, csrs.At("", ""), w.csr("serving", serving, "server auth", &x509.CertificateRequest{Subject: subject, IPAddresses: []net.IP{address}})))
		is("serving") // there is no Node yet
		w.node("node-a")
		w.node("node-b")
		tell := func(node, address string) {
			w.must(w.admin.Mutate(ctx, client.Nodes.At("", node).Sub("status"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Status.Addresses = append(o.(*v1.Node).Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
				return true, nil
			}))
		}
		is("serving")
		tell("node-a", "10.0.0.2")
		is("serving", "Approved", "Issued")
		tell("node-a", "10.0.0.1") // the API server's
		tell("node-b", "10.0.0.3")
		tell("node-a", "10.0.0.3") // node-b's
		for name, ip := range map[string]string{"as-server": "10.0.0.1", "as-other": "10.0.0.3", "as-none": "10.0.0.4"} {
			w.must(node.Create(ctx, csrs.At("", ""), w.csr(name, serving, "server auth", &x509.CertificateRequest{Subject: subject, IPAddresses: []net.IP{address, net.ParseIP(ip)}})))
			is(name)
		}
		// What was decided goes after an hour, what was not after a day.
		time.Sleep(time.Hour + time.Minute)
		is("first", "gone")
		is("as-none")
		time.Sleep(23 * time.Hour)
		is("as-none", "gone")
	})
}

func TestTheAuthorityIsABundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		ca := newAuthority(t)
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
		ctx := context.Background()
		old := trustbundle.Wanted(string(text)).DeepCopy()
		old.Name = "kubernetes.io:kube-apiserver-serving:old"
		w.must(w.admin.Create(ctx, bundles.At("", ""), old))
		w.run(trustbundle.New(w.view, w.controllers, text, nil))
		name := trustbundle.Wanted(string(text)).Name
		there := func() bool {
			b, _ := w.get(bundles.At("", name)).(*certificatesv1.ClusterTrustBundle)
			return b != nil && b.Spec.TrustBundle == string(text) && b.Spec.SignerName == trustbundle.Signer
		}
		if !there() || w.get(bundles.At("", old.Name)) != nil {
			t.Error("the signer has not its one bundle")
		}
		if err := w.admin.Delete(ctx, bundles.At("", name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if !there() {
			t.Error("a bundle that was deleted is not made again")
		}
		if n := w.metric("clustertrustbundle_publisher_sync_total", "200"); n < 2 {
			t.Errorf("%v looks at it, by the metric", n)
		}
	})
}
