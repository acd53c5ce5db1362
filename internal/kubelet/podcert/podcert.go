// Package podcert keeps the keys and certificates that projected volumes show by podCertificate: it makes a key, asks for a certificate
// by a PodCertificateRequest, and asks anew with another key when the signer says that it is time. Keys are in memory only, so that a
// restart of the kubelet asks again.
//
//	nothing ──► asked ──► issued ──────► asked again, the old one still shown ──► issued
//	              ▲ │       ▲                 │
//	              │ │       └─────────────────┘ the request is gone
//	  it is gone  │ ├──► denied, failed: for good
//	              └─┘
//
// It acts when it is asked for a bundle, and has the pod's volumes written anew when something is due; a request's change does the same
// (objects.PodCertificate).
package podcert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/kubelet/due"
)

// API is what is asked of the API server (client.Client).
type API interface {
	Get(ctx context.Context, ref client.Ref) (runtime.Object, error)
	Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error)
}

// Config is what a Manager is made of. Now and Jitter may be left out.
type Config struct {
	API API
	// Request is the request as the API has it, nil when it is not there (yet, or any more).
	Request func(namespace, name string) *certificatesv1.PodCertificateRequest
	Node    func() *v1.Node // nil while it is not known
	// Due is called when a pod's volumes have to be written again; the writer calls Bundle.
	Due    func(ctx context.Context, pod types.UID)
	Event  func(pod *v1.Pod, container, eventType, reason, message string)
	Logger *slog.Logger
	Now    func() time.Time
	Jitter func(most time.Duration) time.Duration
}

// Manager is described at the top of the package.
type Manager struct {
	c Config

	mu    sync.Mutex
	known map[source]*credential
	timer due.Timer
}

// source is a place in a pod that shows a certificate.
type source struct {
	pod    types.UID
	volume string
	index  int // among the volume's sources
}

// credential is what is known of one certificate. Calls for one pod's bundles come one after the other.
type credential struct {
	signer     string
	key, chain []byte    // shown; nil before the first is issued
	refresh    time.Time // the signer's word for when it should be replaced
	renew      time.Time // when that is tried (again)
	notAfter   time.Time
	asked      *asked // nil while nothing is asked for
	refused    error  // for good
	refusal    string // the condition that says so
	told       string // the reason of the last event about being late
}

// asked is a request under way.
type asked struct {
	name   string
	key    []byte
	giveUp time.Time // when it counts as deleted, unless it is seen
}

const (
	// deletedAfter is how long a request may be unseen before it counts as deleted.
	deletedAfter = 10 * time.Minute
	// lateAfter is how long after its time a certificate that could not be replaced is late.
	lateAfter = 10 * time.Minute
	spread    = 5 * time.Minute
)

var requests = client.Resource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}

// New makes a Manager.
func New(c Config) (*Manager, error) {
	if c.API == nil || c.Request == nil || c.Node == nil || c.Due == nil || c.Event == nil || c.Logger == nil {
		return nil, errors.New("podcert: API, Request, Node, Due, Event and Logger are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = func(most time.Duration) time.Duration { return rand.N(most) }
	}
	return &Manager{c: c, known: map[source]*credential{}, timer: due.New()}, nil
}

var errNotIssued = errors.New("credential bundle is not issued yet")

// Bundle is the key and the certificates, both PEM, that a source of a pod's projected volume shows now.
func (m *Manager) Bundle(ctx context.Context, pod *v1.Pod, volume string, index int, s *v1.PodCertificateProjection) (key, chain []byte, err error) {
	at := source{pod.UID, volume, index}
	m.mu.Lock()
	c := m.known[at]
	if c == nil {
		c = &credential{signer: s.SignerName}
		m.known[at] = c
	}
	m.mu.Unlock()
	defer m.timer.Ring()
	if c.asked != nil {
		m.look(pod, c)
	}
	if c.refused != nil {
		return nil, nil, c.refused
	}
	if now := m.c.Now(); c.asked == nil && (c.key == nil || !now.Before(c.renew)) {
		if err := m.ask(ctx, pod, s, c); err != nil {
			if c.key == nil {
				return nil, nil, err
			}
			m.c.Logger.Warn("a pod's certificate could not be asked for anew", "pod", pod.Namespace+"/"+pod.Name, "signer", s.SignerName, "err", err)
			m.set(func() { c.renew = now.Add(time.Minute) })
		}
	}
	if c.key == nil {
		return nil, nil, errNotIssued
	}
	m.late(pod, c)
	return c.key, c.chain, nil
}

// set changes what Run reads.
func (m *Manager) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// look takes in what became of a request.
func (m *Manager) look(pod *v1.Pod, c *credential) {
	r := m.c.Request(pod.Namespace, c.asked.name)
	if r == nil {
		if !m.c.Now().Before(c.asked.giveUp) {
			m.set(func() { c.asked = nil })
		}
		return
	}
	full := r.Namespace + "/" + r.Name
	for _, cond := range r.Status.Conditions {
		switch cond.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied:
			m.refuse(pod, c, cond, fmt.Errorf("PodCertificateRequest was permanently denied: reason=%q message=%q", cond.Reason, cond.Message),
				fmt.Sprintf("PodCertificateRequest %s was denied, reason=%q, message=%q", full, cond.Reason, cond.Message))
		case certificatesv1.PodCertificateRequestConditionTypeFailed:
			m.refuse(pod, c, cond, fmt.Errorf("PodCertificateRequest was permanently failed: reason=%q message=%q", cond.Reason, cond.Message),
				fmt.Sprintf("PodCertificateRequest %s failed, reason=%q, message=%q", full, cond.Reason, cond.Message))
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			if r.Status.BeginRefreshAt == nil || r.Status.NotAfter == nil {
				continue // validation does not let this be
			}
			m.set(func() {
				c.key, c.chain, c.asked, c.told = c.asked.key, plain(r.Status.CertificateChain), nil, ""
				c.refresh, c.notAfter = r.Status.BeginRefreshAt.Add(m.c.Jitter(spread)), r.Status.NotAfter.Time
				c.renew = c.refresh
			})
		default:
			continue
		}
		return
	}
}

func (m *Manager) refuse(pod *v1.Pod, c *credential, cond metav1.Condition, err error, event string) {
	m.set(func() { c.refused, c.refusal, c.asked = err, cond.Type, nil })
	m.c.Event(pod, "", v1.EventTypeWarning, cond.Type, event)
}

// Count tells of each certificate whose it is and how it is, in upstream's words.
func (m *Manager) Count(tell func(signer, state string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.known {
		state := "fresh"
		switch now := m.c.Now(); {
		case c.refused != nil:
			state = strings.ToLower(c.refusal)
		case c.key == nil:
			state = "not_yet_issued"
		case now.After(c.notAfter):
			state = "expired"
		case now.After(c.refresh.Add(lateAfter)):
			state = "overdue_for_refresh"
		}
		tell(c.signer, state)
	}
}

// late tells that a certificate should have been replaced long ago, and that it has expired, once each.
func (m *Manager) late(pod *v1.Pod, c *credential) {
	reason, message := "", ""
	switch now := m.c.Now(); {
	case now.After(c.notAfter):
		reason, message = "CertificateExpired", "PodCertificate expired"
	case now.After(c.refresh.Add(lateAfter)):
		reason, message = "CertificateOverdueForRefresh", "PodCertificate refresh overdue"
	}
	if reason != "" && reason != c.told {
		c.told = reason
		m.c.Event(pod, "", v1.EventTypeWarning, reason, message)
	}
}

// ask makes a key and asks for its certificate.
func (m *Manager) ask(ctx context.Context, pod *v1.Pod, s *v1.PodCertificateProjection, c *credential) error {
	node := m.c.Node()
	if node == nil {
		return errors.New("while getting node object from local cache: the node is not known yet")
	}
	account, err := m.c.API.Get(ctx, client.ServiceAccounts.At(pod.Namespace, pod.Spec.ServiceAccountName))
	if err != nil {
		return fmt.Errorf("while fetching service account: %w", err)
	}
	key, proof, err := newKey(s.KeyType)
	if err != nil {
		return err
	}
	made, err := m.c.API.Create(ctx, requests.At(pod.Namespace, ""), &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: s.SignerName, PodName: pod.Name, PodUID: pod.UID,
			ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: account.(*v1.ServiceAccount).UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: proof, UnverifiedUserAnnotations: s.UserAnnotations,
		},
	})
	if err != nil {
		return fmt.Errorf("while creating on API: %w", err)
	}
	name := made.(*certificatesv1.PodCertificateRequest).Name
	m.set(func() { c.asked = &asked{name, key, m.c.Now().Add(deletedAfter + m.c.Jitter(spread))} })
	return nil
}

// Forget drops what is known of a pod that has gone.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.known {
		if at.pod == pod {
			delete(m.known, at)
		}
	}
}

// ClockSet says that the machine's clock was set: what is due is looked for anew.
func (m *Manager) ClockSet() { m.timer.Ring() }

// Run tells of the pods whose certificates are due, until ctx ends.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	ready()
	m.timer.Run(ctx, func() ([]types.UID, time.Duration) { return m.due(m.c.Now()) }, m.c.Due)
	return nil
}

// rest is the longest wait; the shortest is a second, so that what stays due is not asked for in a loop.
const rest = 24 * time.Hour

// due are the pods that have to be looked at now, and how long until the next one has to.
func (m *Manager) due(now time.Time) (pods []types.UID, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next = rest
	for at, c := range m.known {
		var t time.Time
		switch {
		case c.refused != nil:
			continue
		case c.asked != nil:
			t = c.asked.giveUp
		case c.key != nil:
			t = c.renew
		default:
			continue // its Mount failed, and is tried again
		}
		if !now.Before(t) {
			pods = append(pods, at.pod)
			t = now.Add(time.Minute)
		}
		next = min(next, t.Sub(now))
	}
	return pods, max(next, time.Second)
}
