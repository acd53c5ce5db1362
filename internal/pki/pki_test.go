package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func config(t testing.TB, now time.Time) Config {
	return Config{
		Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "n1", NodeIP: net.ParseIP("10.1.2.3"),
		ServiceIP: net.ParseIP("10.43.0.1"), ExtraSANs: []string{"api.example", "192.0.2.9"},
		Now: func() time.Time { return now },
	}
}

func ensure(t testing.TB, c Config) *Bundle {
	t.Helper()
	b, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCertificatesVerify(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	b := ensure(t, config(t, now))
	verify := func(n Name, host string, usage x509.ExtKeyUsage) error {
		_, err := b.Get(n).Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: b.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	for _, host := range []string{"n1", "localhost", "127.0.0.1", "::1", "10.1.2.3", "10.43.0.1", "kubernetes", "kubernetes.default.svc.cluster.local", "api.example", "192.0.2.9"} {
		if err := verify(Serving, host, x509.ExtKeyUsageServerAuth); err != nil {
			t.Errorf("serving certificate for %s: %v", host, err)
		}
	}
	if err := verify(Kubelet, "10.1.2.3", x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	for _, n := range []Name{Admin, Node, Scheduler, ControllerManager, KubeletClient} {
		if err := verify(n, "", x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		if err := verify(n, "", x509.ExtKeyUsageServerAuth); err == nil {
			t.Errorf("%s may serve, it must only be a client", n)
		}
	}
	if got := b.Get(Node).Leaf.Subject; got.CommonName != "system:node:n1" || got.Organization[0] != "system:nodes" {
		t.Errorf("node subject %v", got)
	}
}

func TestKeptRenewedAndReissued(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c := config(t, now)
	first := ensure(t, c)
	same := ensure(t, c)
	for _, n := range []Name{Serving, Admin, Node} {
		if !first.Get(n).Leaf.Equal(same.Get(n).Leaf) {
			t.Errorf("%s was issued again without need", n)
		}
	}
	// A new SAN concerns the serving certificate only.
	c.ExtraSANs = append(c.ExtraSANs, "new.example")
	wider := ensure(t, c)
	if wider.Get(Serving).Leaf.Equal(first.Get(Serving).Leaf) || !wider.Get(Admin).Leaf.Equal(first.Get(Admin).Leaf) {
		t.Error("a new SAN must replace the serving certificate and nothing else")
	}
	// Near its end everything is renewed, under the same authority.
	c.Now = func() time.Time { return now.Add(leafLife - renewBefore + time.Hour) }
	late := ensure(t, c)
	if late.Get(Admin).Leaf.Equal(first.Get(Admin).Leaf) {
		t.Error("a certificate near its end was kept")
	}
	if string(late.CAPEM()) != string(first.CAPEM()) {
		t.Error("the authority changed")
	}
	// A damaged file is replaced.
	if err := os.WriteFile(filepath.Join(c.Dir, "admin.pem"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := late.Renew(); err != nil || len(got) != 1 || got[0] != Admin {
		t.Errorf("Renew after damage: %v, %v", got, err)
	}
}

func TestAuthorityAfterACrash(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c := config(t, now)
	first := ensure(t, c)
	// The certificate was not written yet: the same authority comes back, what it signed stays valid.
	if err := os.Remove(filepath.Join(c.Dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	again := ensure(t, c)
	if !again.Get(Admin).Leaf.Equal(first.Get(Admin).Leaf) {
		t.Error("certificates of the same key were issued again")
	}
	// A lost key cannot be made again.
	if err := os.Remove(filepath.Join(c.Dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(c); err == nil || !strings.Contains(err.Error(), "restore the key") {
		t.Errorf("want advice about the missing key, got %v", err)
	}
}

func TestModesAndKubeconfig(t *testing.T) {
	c := config(t, time.Now())
	b := ensure(t, c)
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]os.FileMode{true: 0o644, false: 0o600}[f.Name() == "ca.crt"]; info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", f.Name(), info.Mode(), want)
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := b.WriteKubeconfig(Admin, "https://127.0.0.1:6443", path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("kubeconfig: %v %v", info.Mode(), err)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if rest.Host != "https://127.0.0.1:6443" {
		t.Errorf("host %q", rest.Host)
	}
	if _, err := tls.X509KeyPair(rest.CertData, rest.KeyData); err != nil {
		t.Error(err)
	}
}

func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	synctest.Test(t, func(t *testing.T) {
		c := config(t, time.Time{})
		c.Dir, c.Now = dir, time.Now
		b := ensure(t, c)
		first := b.Get(Admin)
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan []Name, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Keep(ctx, nil, func(n []Name) error { told <- n; return nil }, func(err error) { t.Error(err) })
		}()
		start := time.Now()
		names := <-told
		if after := time.Since(start); after < leafLife-renewBefore-lookEvery || after > leafLife-renewBefore+lookEvery {
			t.Errorf("renewed after %v", after)
		}
		if len(names) != 7 || b.Get(Admin).Leaf.Equal(first.Leaf) {
			t.Errorf("renewed %v", names)
		}
		cancel()
		<-done
	})
}

// A server that was made while the clock was wrong goes on when it is set: its authority is as good as before, and the rest is made anew.
func TestAClockThatIsSet(t *testing.T) {
	for name, wrong := range map[string]time.Time{"1970": time.Unix(1000, 0), "2040": time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[time.Time]
			now.Store(&wrong)
			c := config(t, wrong)
			c.Now = func() time.Time { return *now.Load() }
			b := ensure(t, c)
			ca := string(b.CAPEM())
			verify := func() error {
				_, err := b.Get(Serving).Leaf.Verify(x509.VerifyOptions{DNSName: "n1", Roots: b.Pool(), CurrentTime: c.Now()})
				return err
			}
			if err := verify(); err != nil {
				t.Error("by the wrong clock: ", err)
			}
			right := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
			now.Store(&right)
			if verify() == nil {
				t.Fatal("there is nothing to repair")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			set, told := make(chan struct{}, 1), make(chan []Name, 1)
			go b.Keep(ctx, set, func(n []Name) error { told <- n; return nil }, func(err error) { t.Error(err) })
			set <- struct{}{}
			<-told
			if err := verify(); err != nil || string(b.CAPEM()) != ca {
				t.Errorf("after the clock was set: %v", err)
			}
			if _, err := Ensure(c); err != nil {
				t.Error("the next start: ", err)
			}
		})
	}
}
