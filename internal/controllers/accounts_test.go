//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package controllers_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/kubernetesservice"
	"podo.dev/podo/internal/controllers/secrettokens"
	"podo.dev/podo/internal/controllers/tokencleaner"
	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view/codec"
)

// secretTokens runs what fills Secrets; a token is the account's UID and the Secret's name.
func (w *world) secretTokens() {
	w.t.Helper()
	w.run(secrettokens.New(secrettokens.Config{
		View: w.view, Client: w.controllers, CA: []byte("PEM"),
		Sign: func(a *v1.ServiceAccount, s *v1.Secret) (string, error) { return string(a.UID) + " " + s.Name, nil },
	}))
}

func tokenSecret(name, account string, uid types.UID) *v1.Secret {
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: name, Annotations: map[string]string{v1.ServiceAccountNameKey: account}}, Type: v1.SecretTypeServiceAccountToken}
	if uid != "" {
		s.Annotations[v1.ServiceAccountUIDKey] = string(uid)
	}
	return s
}

func TestSecretsOfAccountsAreFilledAndGoWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.secretTokens()
		w.createNamespace("work")
		account := w.get(client.ServiceAccounts.At("work", "default")).(*v1.ServiceAccount)
		put := func(s *v1.Secret) {
			w.must(w.admin.Create(context.Background(), client.Secrets.At("work", ""), s))
		}
		secret := func(name string) *v1.Secret {
			s, _ := w.get(client.Secrets.At("work", name)).(*v1.Secret)
			return s
		}
		put(tokenSecret("filled", "default", ""))
		put(tokenSecret("nobody", "nobody", ""))
		put(tokenSecret("another", "default", "another-uid"))
		s := secret("filled")
		uid := string(account.UID)
		if string(s.Data["token"]) != uid+" filled" || string(s.Data["ca.crt"]) != "PEM" || string(s.Data["namespace"]) != "work" || s.Annotations[v1.ServiceAccountUIDKey] != uid {
			t.Errorf("filled to %v, %v", s.Data, s.Annotations)
		}
		if secret("nobody") != nil || secret("another") != nil {
			t.Error("a Secret of nobody, or of another of its name, stays")
		}
		// A certificate that was changed is put right, a token stays.
		w.must(w.admin.Mutate(context.Background(), client.Secrets.At("work", "filled"), func(o runtime.Object) (bool, error) {
			o.(*v1.Secret).Data["ca.crt"], o.(*v1.Secret).Data["token"] = []byte("x"), []byte("mine")
			return true, nil
		}))
		if s = secret("filled"); string(s.Data["ca.crt"]) != "PEM" || string(s.Data["token"]) != "mine" {
			t.Errorf("repaired to %v", s.Data)
		}
		// An account forgets a Secret that it listed and that has gone.
		put(tokenSecret("listed", "default", ""))
		w.must(w.admin.Mutate(context.Background(), client.ServiceAccounts.At("work", "default"), func(o runtime.Object) (bool, error) {
			o.(*v1.ServiceAccount).Secrets = []v1.ObjectReference{{Name: "listed"}, {Name: "other"}}
			return true, nil
		}))
		w.delete(client.Secrets.At("work", "listed"))
		if got := w.get(client.ServiceAccounts.At("work", "default")).(*v1.ServiceAccount).Secrets; len(got) != 1 || got[0].Name != "other" {
			t.Errorf("the account lists %v", got)
		}
		// The account goes and is made again by its controller: the Secret was the old one's.
		w.delete(client.ServiceAccounts.At("work", "default"))
		if secret("filled") != nil {
			t.Error("a Secret stays without its account")
		}
		if w.get(client.ServiceAccounts.At("work", "default")) == nil {
			t.Error("the account was not made again")
		}
	})
}

func TestBootstrapTokensGoWhenTheirTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(tokencleaner.New(w.view, w.controllers, nil))
		put := func(name, end string, kind v1.SecretType) {
			s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: kind, Data: map[string][]byte{}}
			if end != "" {
				s.Data["expiration"] = []byte(end)
			}
			w.must(w.admin.Create(context.Background(), client.Secrets.At("kube-system", ""), s))
		}
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
		put("hour", in(time.Hour), jointoken.SecretType)
		put("ever", "", jointoken.SecretType)
		put("unread", "tomorrow", jointoken.SecretType)
		put("other", in(time.Hour), v1.SecretTypeOpaque)
		there := func(name string) bool { return w.get(client.Secrets.At("kube-system", name)) != nil }
		if !there("hour") || there("unread") {
			t.Error("one with an hour left goes, or one whose end cannot be read stays")
		}
		time.Sleep(time.Hour - time.Second)
		if !there("hour") {
			t.Error("it goes too early")
		}
		time.Sleep(2 * time.Second)
		if there("hour") || !there("ever") || !there("other") {
			t.Error("after an hour only the one that has ended must go")
		}
	})
}

func TestTheAPIServerIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		stop := w.run(kubernetesservice.New(w.view, w.admin, kubernetesservice.Address{Inside: netip.MustParseAddr("10.43.0.1"), Server: netip.MustParseAddrPort("192.0.2.7:6443")}, nil, nil))
		at := func(r string, group string) client.Ref {
			return client.Resource{Group: group, Resource: r}.At("default", "kubernetes")
		}
		s := w.get(at("services", "")).(*v1.Service)
		if p := s.Spec.Ports[0]; s.Spec.ClusterIP != "10.43.0.1" || p.Name != "https" || p.Port != 443 || p.TargetPort.IntValue() != 6443 || s.Labels["component"] != "apiserver" || s.Labels["provider"] != "kubernetes" {
			t.Errorf("the Service is %+v", s)
		}
		check := func(address string, port int32) {
			t.Helper()
			e := w.get(at("endpoints", "")).(*v1.Endpoints)
			if len(e.Subsets) != 1 || e.Subsets[0].Addresses[0].IP != address || e.Subsets[0].Ports[0].Port != port || e.Subsets[0].Ports[0].Name != "https" || e.Labels[discoveryv1.LabelSkipMirror] != "true" {
				t.Errorf("the Endpoints are %+v", e)
			}
			s := w.get(at("endpointslices", "discovery.k8s.io")).(*discoveryv1.EndpointSlice)
			if s.AddressType != discoveryv1.AddressTypeIPv4 || s.Endpoints[0].Addresses[0] != address || !*s.Endpoints[0].Conditions.Ready || *s.Ports[0].Port != port || s.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
				t.Errorf("the EndpointSlice is %+v", s)
			}
		}
		check("192.0.2.7", 6443)
		w.must(w.admin.Mutate(context.Background(), at("endpoints", ""), func(o runtime.Object) (bool, error) {
			o.(*v1.Endpoints).Subsets[0].Addresses[0].IP = "192.0.2.66"
			return true, nil
		}))
		w.delete(at("endpointslices", "discovery.k8s.io"))
		check("192.0.2.7", 6443)
		w.delete(at("services", ""))
		if w.get(at("services", "")) == nil {
			t.Error("the Service was not made again")
		}
		// The server starts again elsewhere.
		stop()
		w.run(kubernetesservice.New(w.view, w.admin, kubernetesservice.Address{Inside: netip.MustParseAddr("10.43.0.1"), Server: netip.MustParseAddrPort("192.0.2.8:7443")}, nil, nil))
		check("192.0.2.8", 7443)
	})
}

// Servers on one store publish each other: none overwrites another, one that stops takes itself away, one that dies goes with its lease.
func TestServersPublishEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		inside := netip.MustParseAddr("10.43.0.1")
		server := func(at string) func() {
			return w.run(kubernetesservice.New(w.view, w.admin, kubernetesservice.Address{Inside: inside, Server: netip.MustParseAddrPort(at)}, &kubernetesservice.Leases{Store: w.store}, nil))
		}
		check := func(want ...string) {
			t.Helper()
			var got, slice []string
			e := w.get(client.Resource{Resource: "endpoints"}.At("default", "kubernetes")).(*v1.Endpoints)
			for _, a := range e.Subsets[0].Addresses {
				got = append(got, a.IP)
			}
			s := w.get(client.Resource{Group: "discovery.k8s.io", Resource: "endpointslices"}.At("default", "kubernetes")).(*discoveryv1.EndpointSlice)
			for _, a := range s.Endpoints {
				slice = append(slice, a.Addresses...)
			}
			if !slices.Equal(got, want) || !slices.Equal(slice, want) || e.Subsets[0].Ports[0].Port != 6443 {
				t.Errorf("published are %v and %v, want %v", got, slice, want)
			}
		}
		server("192.0.2.7:6443")
		check("192.0.2.7")
		stopEight := server("192.0.2.8:6443")
		server("192.0.2.9:7443") // cannot be published with the others
		time.Sleep(time.Minute)
		check("192.0.2.7", "192.0.2.8")
		rv := w.get(client.Resource{Resource: "endpoints"}.At("default", "kubernetes")).(*v1.Endpoints).ResourceVersion
		time.Sleep(time.Minute)
		if now := w.get(client.Resource{Resource: "endpoints"}.At("default", "kubernetes")).(*v1.Endpoints).ResourceVersion; now != rv {
			t.Errorf("at rest they write: %s became %s", rv, now)
		}
		stopEight()
		check("192.0.2.7")

		// One of upstream's, which dies: its key has no port and is not renewed.
		dead := &v1.Endpoints{Subsets: []v1.EndpointSubset{{Addresses: []v1.EndpointAddress{{IP: "192.0.2.6"}}}}}
		dead.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Endpoints"))
		value, err := codec.Encode(dead)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Txn(t.Context(), nil, []store.Op{{Key: "/registry/masterleases/192.0.2.6", Value: value, TTL: 15 * time.Second}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		check("192.0.2.6", "192.0.2.7")
		time.Sleep(15 * time.Second)
		check("192.0.2.7")
	})
}
