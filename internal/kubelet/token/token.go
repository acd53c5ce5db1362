// Package token keeps the tokens that projected volumes show. It requests them from the API, each bound to its pod, caches them,
// and says when a pod's volumes must be written again because a token nears its end. One timer serves all pods.
package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/kubelet/due"
)

// Requester asks the API for a token (client.Client).
type Requester interface {
	RequestToken(ctx context.Context, ref client.Ref, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Config is what a Manager is made of. Client, Due and Logger are required.
type Config struct {
	Client Requester
	// Due is called when a pod's token should be replaced in its volume; the writer calls Token again.
	Due    func(ctx context.Context, pod types.UID)
	Logger *slog.Logger
	Now    func() time.Time                       // default time.Now
	Jitter func(most time.Duration) time.Duration // default random
}

// Manager is described at the top of the package.
type Manager struct {
	c Config

	mu     sync.Mutex
	tokens map[key]*entry
	timer  due.Timer
}

// key is what a pod asks for. It says nothing secret.
type key struct {
	pod      types.UID
	account  string
	audience string
	seconds  int64
}

type entry struct {
	token string
	ends  time.Time
	renew time.Time // when Due is told; zero once it has been, until the token is asked for again
	asked time.Time // when it was last asked for, by the clock on the wall
}

// early tells whether the clock was set back since the token was asked for: the API server may refuse a token that is from the future.
func (e entry) early(now time.Time) bool { return now.Round(0).Before(e.asked.Add(-setBack)) }

// New makes a Manager.
func New(c Config) (*Manager, error) {
	if c.Client == nil || c.Due == nil || c.Logger == nil {
		return nil, errors.New("token: Client, Due and Logger are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = func(most time.Duration) time.Duration { return rand.N(most) }
	}
	return &Manager{c: c, tokens: map[key]*entry{}, timer: due.New()}, nil
}

// Token is the token for a volume of the pod: the cached one, or a new one when it is time. A token that could not be renewed is
// used until it expires. Renewal is tried even after that for as long as the volume is shown, since the API server may be away
// for longer than a token lives.
func (m *Manager) Token(ctx context.Context, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	k := key{pod: pod.UID, account: pod.Spec.ServiceAccountName, audience: s.Audience}
	if s.ExpirationSeconds != nil {
		k.seconds = *s.ExpirationSeconds
	}
	now := m.c.Now()
	known, ok := m.get(k)
	if ok && now.Before(known.renew) && !known.early(now) {
		return known.token, nil
	}
	next, err := m.request(ctx, pod, k)
	switch {
	case err == nil:
	case !ok:
		return "", fmt.Errorf("failed to fetch token: %w", err)
	case now.After(known.ends):
		known.renew, known.asked = now.Add(again+m.c.Jitter(spread)), now.Round(0)
		m.keep(k, known)
		return "", fmt.Errorf("the token expired and refresh failed: %w", err)
	default:
		m.c.Logger.Warn("a token could not be renewed, will try again", "pod", pod.Namespace+"/"+pod.Name, "account", k.account, "audience", k.audience, "err", err)
		next = known
		next.renew, next.asked = now.Add(again+m.c.Jitter(spread)), now.Round(0)
	}
	m.keep(k, next)
	return next.token, nil
}

func (m *Manager) keep(k key, e entry) {
	m.mu.Lock()
	m.tokens[k] = &e
	m.mu.Unlock()
	m.timer.Ring()
}

func (m *Manager) request(ctx context.Context, pod *v1.Pod, k key) (e entry, err error) {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if k.audience != "" {
		r.Spec.Audiences = []string{k.audience}
	}
	if k.seconds != 0 {
		r.Spec.ExpirationSeconds = &k.seconds
	}
	out, err := m.c.Client.RequestToken(ctx, client.ServiceAccounts.At(pod.Namespace, k.account), r)
	if err != nil {
		return e, err
	}
	ends := out.Status.ExpirationTimestamp.Time
	life := ends.Sub(m.c.Now())
	if n := out.Spec.ExpirationSeconds; n != nil { // the server may shorten the requested life
		life = time.Duration(*n) * time.Second
	}
	return entry{token: out.Status.Token, ends: ends, renew: renewAt(ends, life, m.c.Jitter(spread)), asked: m.c.Now().Round(0)}, nil
}

func (m *Manager) get(k key) (e entry, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.tokens[k]; known != nil {
		return *known, true
	}
	return e, false
}

// Forget drops the tokens of a pod that has gone.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.tokens {
		if k.pod == pod {
			delete(m.tokens, k)
		}
	}
}

// ClockSet says that the machine's clock was set: what is due is looked for anew.
func (m *Manager) ClockSet() { m.timer.Ring() }

// Run tells of the pods whose tokens are due, until ctx ends.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	ready()
	m.timer.Run(ctx, func() ([]types.UID, time.Duration) { return m.due(m.c.Now()) }, m.c.Due)
	return nil
}

// due takes the pods whose time has come, and says how long until the next one's. A token that was not requested again is dropped
// when it expires, since its volume is no longer shown.
func (m *Manager) due(now time.Time) (pods []types.UID, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next = longest
	seen := map[types.UID]bool{}
	for k, e := range m.tokens {
		switch {
		case e.renew.IsZero() && now.After(e.ends):
			delete(m.tokens, k)
		case e.renew.IsZero():
			next = min(next, e.ends.Sub(now)+time.Second)
		case !now.Before(e.renew) || e.early(now):
			e.renew = time.Time{}
			next = min(next, max(e.ends.Sub(now), 0)+time.Second)
			if !seen[k.pod] {
				seen[k.pod] = true
				pods = append(pods, k.pod)
			}
		default:
			next = min(next, e.renew.Sub(now))
		}
	}
	return pods, next
}
