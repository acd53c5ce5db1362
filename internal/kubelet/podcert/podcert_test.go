package podcert

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

// world is an API that keeps requests, and a signer that the test plays.
type world struct {
	t        *testing.T
	m        *Manager
	pod      *v1.Pod
	requests []*certificatesv1.PodCertificateRequest
	down     bool
	events   []string
	due      chan types.UID
}

func (w *world) Get(_ context.Context, ref client.Ref) (runtime.Object, error) {
	a := &v1.ServiceAccount{}
	a.Name, a.UID = ref.Name, "account-uid"
	return a, nil
}

func (w *world) Create(_ context.Context, _ client.Ref, obj runtime.Object) (runtime.Object, error) {
	if w.down {
		return nil, apierrors.NewInternalError(errors.New("down"))
	}
	r := obj.DeepCopyObject().(*certificatesv1.PodCertificateRequest)
	r.Name = r.GenerateName + string(rune('a'+len(w.requests)))
	w.requests = append(w.requests, r)
	return r, nil
}

func (w *world) request(namespace, name string) *certificatesv1.PodCertificateRequest {
	for _, r := range w.requests {
		if r.Namespace == namespace && r.Name == name {
			return r
		}
	}
	return nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, pod: &v1.Pod{}, due: make(chan types.UID, 100)}
	w.pod.Namespace, w.pod.Name, w.pod.UID, w.pod.Spec.ServiceAccountName = "ns", "p", "pod-uid", "sa"
	node := &v1.Node{}
	node.Name, node.UID = "n1", "node-uid"
	var err error
	w.m, err = New(Config{
		API: w, Request: w.request, Node: func() *v1.Node { return node }, Logger: slog.New(slog.DiscardHandler),
		Due:    func(_ context.Context, pod types.UID) { w.due <- pod },
		Event:  func(_ *v1.Pod, _, _, reason, message string) { w.events = append(w.events, reason+": "+message) },
		Jitter: func(time.Duration) time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.m.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// counted expects the one certificate to be like that.
func (w *world) counted(state string) {
	w.t.Helper()
	var got []string
	w.m.Count(func(signer, state string) { got = append(got, signer+" "+state) })
	if !slices.Equal(got, []string{"example.com/s " + state}) {
		w.t.Errorf("it is %q, want %s", got, state)
	}
}

func (w *world) bundle() (key, chain []byte, err error) {
	return w.m.Bundle(context.Background(), w.pod, "v", 0, &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519"})
}

func (w *world) answer(r *certificatesv1.PodCertificateRequest, kind string) {
	r.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Because", Message: "so"}}
	if kind == certificatesv1.PodCertificateRequestConditionTypeIssued {
		chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(r.Name)})
		r.Status.CertificateChain = "between\n" + string(chain)
		r.Status.BeginRefreshAt, r.Status.NotAfter = &metav1.Time{Time: time.Now().Add(time.Hour)}, &metav1.Time{Time: time.Now().Add(2 * time.Hour)}
	}
}

// A certificate is asked for once, with a proof of the key that is shown with it; it is asked for anew, with another key, when its time
// has come; the old one is shown until the new one is there.
func TestIssueAndRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 2 {
			if _, _, err := w.bundle(); err == nil || err.Error() != "credential bundle is not issued yet" {
				t.Fatalf("%v", err)
			}
		}
		if len(w.requests) != 1 {
			t.Fatalf("%d requests", len(w.requests))
		}
		first := w.requests[0]
		s := first.Spec
		if s.PodUID != "pod-uid" || s.ServiceAccountUID != "account-uid" || s.NodeName != "n1" || s.NodeUID != "node-uid" || first.OwnerReferences[0].UID != "pod-uid" {
			t.Errorf("%+v", first)
		}
		w.answer(first, certificatesv1.PodCertificateRequestConditionTypeIssued)
		key, chain, err := w.bundle()
		if err != nil || !strings.HasPrefix(string(chain), "-----BEGIN CERTIFICATE-----") || bytes.Contains(chain, []byte("between")) {
			t.Fatalf("%s, %v", chain, err)
		}
		block, _ := pem.Decode(key)
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := x509.ParseCertificateRequest(s.StubPKCS10Request)
		if err != nil || proof.CheckSignature() != nil || !private.(ed25519.PrivateKey).Public().(ed25519.PublicKey).Equal(proof.PublicKey) {
			t.Fatalf("the proof: %v", err)
		}
		if got := <-w.due; got != "pod-uid" { // an hour later
			t.Fatalf("due: %s", got)
		}
		again, _, err := w.bundle()
		if err != nil || !bytes.Equal(again, key) || len(w.requests) != 2 {
			t.Fatalf("while it is renewed: %v, %d requests", err, len(w.requests))
		}
		w.answer(w.requests[1], certificatesv1.PodCertificateRequestConditionTypeIssued)
		next, _, err := w.bundle()
		if err != nil || bytes.Equal(next, key) {
			t.Errorf("the next key is the old one, %v", err)
		}
		w.m.Forget("pod-uid")
		if len(w.m.known) != 0 {
			t.Error("not forgotten")
		}
	})
}

// What a signer refuses stays refused, and the pod is told once.
func TestRefused(t *testing.T) {
	for kind, want := range map[string][2]string{
		certificatesv1.PodCertificateRequestConditionTypeDenied: {
			`PodCertificateRequest was permanently denied: reason="Because" message="so"`, `Denied: PodCertificateRequest ns/req-a was denied, reason="Because", message="so"`,
		},
		certificatesv1.PodCertificateRequestConditionTypeFailed: {
			`PodCertificateRequest was permanently failed: reason="Because" message="so"`, `Failed: PodCertificateRequest ns/req-a failed, reason="Because", message="so"`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.bundle() //nolint:errcheck // asks
			w.answer(w.requests[0], kind)
			for range 2 {
				if _, _, err := w.bundle(); err == nil || err.Error() != want[0] {
					t.Errorf("%v", err)
				}
			}
			if len(w.events) != 1 || w.events[0] != want[1] {
				t.Errorf("%q", w.events)
			}
			w.counted(strings.ToLower(kind))
		})
	}
}

// A request that somebody deleted is made again; a server that is down costs nothing but time, until the certificate is late and expires.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.down = true
		if _, _, err := w.bundle(); err == nil || !strings.Contains(err.Error(), "while creating on API") {
			t.Errorf("%v", err)
		}
		w.down = false
		w.bundle() //nolint:errcheck // asks
		w.requests = nil
		<-w.due
		w.bundle() //nolint:errcheck // asks again
		if len(w.requests) != 1 {
			t.Fatalf("%d requests", len(w.requests))
		}
		w.counted("not_yet_issued")
		w.answer(w.requests[0], certificatesv1.PodCertificateRequestConditionTypeIssued)
		key, _, err := w.bundle()
		if err != nil {
			t.Fatal(err)
		}
		w.counted("fresh")
		w.down = true
		time.Sleep(time.Hour + lateAfter + time.Second)
		w.counted("overdue_for_refresh")
		end := time.Now().Add(3 * time.Hour)
		for time.Now().Before(end) {
			<-w.due
			if got, _, err := w.bundle(); err != nil || !bytes.Equal(got, key) {
				t.Fatalf("shown: %v", err)
			}
		}
		want := []string{"CertificateOverdueForRefresh: PodCertificate refresh overdue", "CertificateExpired: PodCertificate expired"}
		if !slices.Equal(w.events, want) {
			t.Errorf("%q", w.events)
		}
	})
}

func TestKeys(t *testing.T) {
	for _, kind := range []string{"RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"} {
		if key, proof, err := newKey(kind); err != nil || len(key) == 0 || len(proof) == 0 {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, _, err := newKey("DSA"); err == nil {
		t.Error("a key of no kind")
	}
}
