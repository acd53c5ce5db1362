package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

func TestRenewAt(t *testing.T) {
	ends := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ life, jitter, before time.Duration }{
		{10 * time.Minute, 0, 2 * time.Minute},
		{time.Hour, 0, 12 * time.Minute},
		{time.Hour, 10 * time.Second, 12*time.Minute + 10*time.Second},
		{24 * time.Hour, 0, 24 * time.Hour / 5},
		{30 * time.Hour, 0, 6 * time.Hour},
		{365 * 24 * time.Hour, 0, 364 * 24 * time.Hour},
	} {
		if got := ends.Sub(renewAt(ends, c.life, c.jitter)); got != c.before {
			t.Errorf("a token that lives %v is renewed %v before its end, want %v", c.life, got, c.before)
		}
	}
}

// server makes tokens that are numbered, or fails.
type server struct {
	made, tried int
	fail        error
	now         func() time.Time // nil: the real one
	last        *authenticationv1.TokenRequest
	ref         client.Ref
}

func (s *server) RequestToken(_ context.Context, ref client.Ref, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	s.ref, s.last = ref, r.DeepCopy()
	s.tried++
	now := time.Now()
	if s.now != nil {
		now = s.now()
	}
	if s.fail != nil {
		return nil, s.fail
	}
	s.made++
	out := r.DeepCopy()
	seconds := int64(3600)
	if r.Spec.ExpirationSeconds != nil {
		seconds = *r.Spec.ExpirationSeconds
	}
	out.Spec.ExpirationSeconds = &seconds
	out.Status.Token = fmt.Sprintf("secret-%d", s.made)
	out.Status.ExpirationTimestamp = metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
	return out, nil
}

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "worker", UID: "u1"}, Spec: v1.PodSpec{ServiceAccountName: "robot"}}

func source(audience string, seconds int64) *v1.ServiceAccountTokenProjection {
	return &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: "token"}
}

// A clock that is set makes tokens expired, or tokens of the future: they are replaced at once, however long they were to last.
func TestTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{100 * time.Hour, -100 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			var set atomic.Int64
			var m *Manager
			var shown []string
			show := func(ctx context.Context) {
				if token, err := m.Token(ctx, pod, source("vault", 600)); err == nil {
					shown = append(shown, token)
				}
			}
			m, err := New(Config{
				Client: s, Due: func(ctx context.Context, _ types.UID) { show(ctx) }, Jitter: func(time.Duration) time.Duration { return 0 },
				Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(set.Load())).Round(0) },
			})
			if err != nil {
				t.Fatal(err)
			}
			s.now = m.c.Now
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx, func() {}) }()
			show(ctx)
			time.Sleep(2 * time.Minute)
			set.Store(int64(by))
			m.ClockSet()
			synctest.Wait()
			if len(shown) != 2 || shown[1] != "secret-2" {
				t.Errorf("set by %v: shown are %q", by, shown)
			}
			s.fail = errors.New("no connection")
			set.Store(2 * int64(by))
			m.ClockSet()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if n := s.tried; n < 8 || n > 14 {
				t.Errorf("set by %v while nobody answers: asked %d times within ten minutes", by, n)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTokensAreRenewedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var log bytes.Buffer
		told := make(chan types.UID, 10)
		m, err := New(Config{
			Client: s, Due: func(_ context.Context, uid types.UID) { told <- uid }, Jitter: func(time.Duration) time.Duration { return 0 },
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx, func() {}) }()
		start := time.Now()
		show := func() string {
			t.Helper()
			token, err := m.Token(ctx, pod, source("vault", 3600))
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		due := func(want time.Duration) {
			t.Helper()
			if uid := <-told; uid != "u1" || time.Since(start) != want {
				t.Errorf("%s is due after %v, want %v", uid, time.Since(start), want)
			}
		}
		if first, again := show(), show(); first != "secret-1" || again != first || s.made != 1 {
			t.Error("a known token is asked for again")
		}
		b := s.last.Spec.BoundObjectRef
		if s.ref.Name != "robot" || s.ref.Namespace != "work" || b.Kind != "Pod" || b.Name != "worker" || b.UID != "u1" || s.last.Spec.Audiences[0] != "vault" {
			t.Errorf("it asks %v for %+v", s.ref, s.last.Spec)
		}
		due(48 * time.Minute)
		if show() != "secret-2" {
			t.Error("a due token is not renewed")
		}
		due(96 * time.Minute)
		s.fail = errors.New("no connection")
		if show() != "secret-2" {
			t.Error("a token that lives is dropped because the next one is not there")
		}
		due(97 * time.Minute) // tried again soon
		s.fail = nil
		if show() != "secret-3" {
			t.Error("the token is not renewed once that is possible")
		}
		due(145 * time.Minute)
		// Nobody shows it any more: it is forgotten at its end, and nobody is told again.
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(m.tokens) != 0 || len(told) != 0 {
			t.Errorf("%d tokens are kept, %d told", len(m.tokens), len(told))
		}
		s.fail = errors.New("no connection")
		if _, err := m.Token(ctx, pod, source("vault", 3600)); err == nil || !strings.HasPrefix(err.Error(), "failed to fetch token: ") {
			t.Errorf("without a token: %v", err)
		}
		s.fail = nil
		show()
		m.Forget("u1")
		if len(m.tokens) != 0 {
			t.Error("a pod that has gone keeps its tokens")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), "secret-") {
			t.Errorf("the log tells a token: %s", log.String())
		}
	})
}

// An API server that is away for longer than a token lives is asked until it is back: the pod's token is new then, without anybody else's doing.
func TestATokenOutlivedByAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var mu sync.Mutex // of all that the test and the manager both touch
		shown, shows := "", 0
		serve := func(fail error) {
			mu.Lock()
			defer mu.Unlock()
			s.fail = fail
		}
		see := func() (string, int) {
			mu.Lock()
			defer mu.Unlock()
			return shown, shows
		}
		var m *Manager
		renew := func(ctx context.Context, _ types.UID) { // as the volume manager does: what fails leaves the file as it is
			mu.Lock()
			defer mu.Unlock()
			if token, err := m.Token(ctx, pod, source("vault", 3600)); err == nil {
				shown = token
			}
			shows++
		}
		m, err := New(Config{Client: s, Due: renew, Jitter: func(time.Duration) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx, func() {}) }()
		renew(ctx, pod.UID)
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		serve(errors.New("no connection"))
		time.Sleep(time.Hour + time.Second) // between two tries
		synctest.Wait()
		if shown, shows := see(); shown != "secret-1" || shows < 10 || shows > 60 {
			t.Errorf("%q after %d looks", shown, shows)
		}
		serve(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if shown, _ := see(); shown != "secret-2" {
			t.Errorf("%q is shown once the server is back", shown)
		}
		m.Forget(pod.UID)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
