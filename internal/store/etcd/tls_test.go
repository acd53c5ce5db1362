package etcd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/store/storetest"
)

// authority signs certificates for the tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// write makes a certificate and its key and writes both; it returns the paths. name "ca" makes the authority itself.
func (a *authority) write(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if name == "ca" {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if name == "ca" {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		a.key = key
	}
	kder, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: kder}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// front serves a unix socket over TLS on loopback, as an etcd that asks for client certificates does.
func front(t *testing.T, socket, caFile, certFile, keyFile string) (endpoint string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = in.Close() }()
				out, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer func() { _ = out.Close() }()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return "https://" + l.Addr().String()
}

func TestExternalOverTLS(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	a := &authority{dir: t.TempDir()}
	caFile, _ := a.write(t, "ca")
	serverCert, serverKey := a.write(t, "server")
	clientCert, clientKey := a.write(t, "client")
	endpoint := front(t, e.Socket(), caFile, serverCert, serverKey)

	x, err := etcd.NewExternal(etcd.ExternalConfig{Endpoints: []string{endpoint}, CAFile: caFile, CertFile: clientCert, KeyFile: clientKey})
	if err != nil {
		t.Fatal(err)
	}
	start(t, x)
	storetest.Run(t, func(*testing.T) store.Store { return x })

	other := &authority{dir: t.TempDir()}
	otherCA, _ := other.write(t, "ca")
	for name, c := range map[string]etcd.ExternalConfig{
		"another CA":     {Endpoints: []string{endpoint}, CAFile: otherCA, CertFile: clientCert, KeyFile: clientKey},
		"no certificate": {Endpoints: []string{endpoint}, CAFile: caFile},
	} {
		x, err := etcd.NewExternal(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err = x.Run(ctx, func() { t.Errorf("%s: ready", name) })
		cancel()
		if err == nil || !strings.Contains(err.Error(), "check the endpoints, and the CA, certificate and key") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
