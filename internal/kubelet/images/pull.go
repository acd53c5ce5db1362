package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"podo.dev/podo/internal/podlife"
)

// pull is one pull in flight. Those who want the same image with the same credentials wait for the same pull; it goes on as
// long as one of them does.
//
//	queued ── a slot is free ──► running ──► done (ref, size or err)
//	   └──────── everyone left ────┴───────► done (err)
type pull struct {
	waiters int // guarded by Manager.mu
	cancel  context.CancelFunc
	done    chan struct{}

	// set before done is closed
	ref  string
	size uint64
	took time.Duration // without waiting for a slot
	err  error
}

type pullRequest struct {
	spec    *runtimev1.ImageSpec
	auths   []*runtimev1.AuthConfig // tried one after another; empty is anonymous
	sandbox *runtimev1.PodSandboxConfig
}

// join waits for the request's pull, starting it when there is none, until it is done or ctx is.
func (m *Manager) join(ctx context.Context, r pullRequest) (*pull, error) {
	key := r.spec.Image + "\x00" + r.spec.RuntimeHandler + "\x00" + fingerprint(r.auths)
	m.mu.Lock()
	p := m.pulls[key]
	if p == nil {
		// The pull outlives the caller that began it when others wait, so that it cannot live on that caller's context.
		pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p = &pull{cancel: cancel, done: make(chan struct{})}
		m.pulls[key] = p
		go m.run(pctx, key, p, r)
	}
	p.waiters++
	m.mu.Unlock()

	select {
	case <-p.done:
		return p, nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	if p.waiters--; p.waiters == 0 {
		p.cancel()
		if m.pulls[key] == p { // whoever comes now starts anew
			delete(m.pulls, key)
		}
	}
	m.mu.Unlock()
	return nil, ctx.Err()
}

func (m *Manager) run(ctx context.Context, key string, p *pull, r pullRequest) {
	defer p.cancel()
	select {
	case m.slots <- struct{}{}:
		start := m.c.Now()
		p.ref, p.err = m.fetch(ctx, r)
		p.took = m.c.Now().Sub(start)
		<-m.slots
	case <-ctx.Done():
		p.err = ctx.Err()
	}
	if p.err == nil {
		if image, err := m.c.Runtime.ImageStatus(ctx, &runtimev1.ImageSpec{Image: p.ref, RuntimeHandler: r.spec.RuntimeHandler}); err == nil && image != nil {
			p.size = image.Size
		}
	}
	m.mu.Lock()
	if m.pulls[key] == p {
		delete(m.pulls, key)
	}
	m.mu.Unlock()
	close(p.done)
}

// fetch pulls with each credential in turn until one is accepted.
func (m *Manager) fetch(ctx context.Context, r pullRequest) (string, error) {
	if len(r.auths) == 0 {
		ref, err := m.c.Runtime.PullImage(ctx, r.spec, nil, r.sandbox)
		return ref, plain(err)
	}
	var errs []error
	for _, auth := range r.auths {
		ref, err := m.c.Runtime.PullImage(ctx, r.spec, auth, r.sandbox)
		if err == nil {
			return ref, nil
		}
		errs = append(errs, plain(err))
	}
	if len(errs) == 1 {
		return "", errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return "", fmt.Errorf("[%s]", strings.Join(texts, ", "))
}

// plain drops the code of an error whose code says nothing.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil && s.Code() == codes.Unknown {
		return errors.New(s.Message())
	}
	return err
}

// failure is what users are told about a pull that failed. A runtime marks two causes by a prefix.
func failure(image string, err error) *podlife.Failure {
	for _, cause := range []struct {
		err  error
		text string
	}{
		{crierrors.ErrRegistryUnavailable, "the registry is unavailable"},
		{crierrors.ErrSignatureValidationFailed, "the signature validation failed"},
	} {
		if detail, ok := strings.CutPrefix(err.Error(), cause.err.Error()); ok {
			return &podlife.Failure{
				Reason:  cause.err.Error(),
				Message: fmt.Sprintf("image pull failed for %s because %s%s", image, cause.text, detail),
			}
		}
	}
	return &podlife.Failure{Reason: "ErrImagePull", Message: err.Error()}
}
