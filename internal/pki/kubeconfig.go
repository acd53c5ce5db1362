package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the text of a kubeconfig that reaches server (https://host:port) as the holder of the named certificate.
func (b *Bundle) Kubeconfig(n Name, server string) ([]byte, error) {
	c := b.Get(n)
	if c == nil {
		return nil, fmt.Errorf("there is no certificate %q", n)
	}
	cert, key, err := split(c.Certificate[0], c.PrivateKey)
	if err != nil {
		return nil, err
	}
	user := string(n)
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"podo": {Server: server, CertificateAuthorityData: b.CAPEM()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: cert, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{"podo": {Cluster: "podo", AuthInfo: user}},
		CurrentContext: "podo",
	})
}

// WriteKubeconfig puts the kubeconfig at path, mode 0600, whole or not at all.
func (b *Bundle) WriteKubeconfig(n Name, server, path string) error {
	data, err := b.Kubeconfig(n, server)
	if err != nil {
		return err
	}
	if err := WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

func split(der []byte, private crypto.PrivateKey) (cert, key []byte, err error) {
	k, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("unexpected private key type %T", private)
	}
	key, err = KeyPEM(k)
	return certPEM(der), key, err
}

// PairPEM is the text of a certificate with its chain, and then its key, as the files of this package hold them.
func PairPEM(c *tls.Certificate) ([]byte, error) {
	var out []byte
	for _, der := range c.Certificate {
		out = append(out, certPEM(der)...)
	}
	_, key, err := split(nil, c.PrivateKey)
	return append(out, key...), err
}
