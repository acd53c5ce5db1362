package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"podo.dev/podo/internal/kubelet/images/keyring"
	"podo.dev/podo/internal/podlife"
)

// pull is one pull in flight. Those who want the same image with the same credentials wait for the same pull; it goes on as
// long as one of them does.
//
//	queued ── a slot is free ──► running ──► done (ref, size or err)
//	   └──────── everyone left ────┴───────► done (err)
type pull struct {
	key     string
	waiters int // guarded by Manager.mu
	cancel  context.CancelFunc
	running chan struct{} // closed when it has its slot, or is done without
	done    chan struct{}

	// set before done is closed
	ref  string
	size uint64
	took time.Duration // without waiting for a slot
	err  error
}

type pullRequest struct {
	spec    *runtimev1.ImageSpec
	had     string               // the image of that name that was there before
	auths   []keyring.Credential // tried one after another; empty is anonymous
	sandbox *runtimev1.PodSandboxConfig
}

func (p *pull) begun() bool {
	select {
	case <-p.running:
		return true
	default:
		return false
	}
}

// await waits for one of the pull's channels, and says false when ctx ends before.
func (p *pull) await(ctx context.Context, ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return false
	}
}

// join finds the request's pull or starts it. Whoever has joined must leave.
func (m *Manager) join(ctx context.Context, r pullRequest) *pull {
	key := r.spec.Image + "\x00" + r.spec.RuntimeHandler + "\x00" + keyring.Fingerprint(r.auths)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pulls[key]
	if p == nil {
		// The pull outlives the caller that began it when others wait, so that it cannot live on that caller's context.
		pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p = &pull{key: key, cancel: cancel, running: make(chan struct{}), done: make(chan struct{})}
		m.pulls[key] = p
		if m.slot() {
			close(p.running)
		}
		go m.run(pctx, p, r)
	}
	p.waiters++
	return p
}

// slot takes a free slot at once, if there is one.
func (m *Manager) slot() bool {
	if m.slots == nil {
		return true
	}
	select {
	case m.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (m *Manager) leave(p *pull) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		p.cancel()
		m.drop(p)
	}
}

// drop makes whoever comes now start anew.
func (m *Manager) drop(p *pull) {
	if m.pulls[p.key] == p {
		delete(m.pulls, p.key)
	}
}

func (m *Manager) run(ctx context.Context, p *pull, r pullRequest) {
	defer p.cancel()
	if p.err = m.awaitSlot(ctx, p); p.err == nil {
		start := m.c.Now()
		p.ref, p.err = m.recorded(ctx, r)
		p.took = m.c.Now().Sub(start)
		if m.slots != nil {
			<-m.slots
		}
	}
	if p.err == nil {
		if image, err := m.c.Runtime.ImageStatus(ctx, &runtimev1.ImageSpec{Image: p.ref, RuntimeHandler: r.spec.RuntimeHandler}); err == nil && image != nil {
			p.size = image.Size
		}
		if m.c.Pulled != nil {
			m.c.Pulled(p.size, p.took)
		}
	}
	m.mu.Lock()
	m.drop(p)
	m.mu.Unlock()
	close(p.done)
}

func (m *Manager) awaitSlot(ctx context.Context, p *pull) error {
	if p.begun() {
		return nil
	}
	defer close(p.running)
	select {
	case m.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recorded wraps a pull in the two records that let the next start finish what a crash interrupted.
func (m *Manager) recorded(ctx context.Context, r pullRequest) (string, error) {
	if !m.rate.Allow() {
		return "", errors.New("pull QPS exceeded")
	}
	image, records := r.spec.Image, m.c.Records
	if records == nil {
		ref, _, err := m.fetch(ctx, r)
		return ref, err
	}
	if err := records.Begin(image, r.had); err != nil {
		//lint:ignore ST1005 upstream's text
		return "", fmt.Errorf("Failed to record image pull intent for container image %q: %w", image, err)
	}
	ref, with, err := m.fetch(ctx, r)
	if err != nil {
		records.Failed(image, m.came(ctx, r, err))
		return "", err
	}
	records.Pulled(image, ref, with)
	return ref, nil
}

// askLimit bounds asking for an image whose pull was given up.
const askLimit = 5 * time.Second

// came is the image that the runtime has although its answer to the pull was lost.
func (m *Manager) came(ctx context.Context, r pullRequest, err error) string {
	switch c := status.Code(err); {
	case ctx.Err() != nil, c == codes.Unavailable, c == codes.DeadlineExceeded, c == codes.Canceled:
	default:
		return "" // it said no
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer cancel()
	image, err := m.c.Runtime.ImageStatus(ctx, r.spec)
	if err != nil || image.GetId() == r.had {
		return ""
	}
	return image.GetId()
}

// fetch pulls with each credential in turn until one is accepted, and tells which.
func (m *Manager) fetch(ctx context.Context, r pullRequest) (string, *keyring.Credential, error) {
	if len(r.auths) == 0 {
		ref, err := m.c.Runtime.PullImage(ctx, r.spec, nil, r.sandbox)
		return ref, nil, plain(err)
	}
	var errs []error
	for i := range r.auths {
		ref, err := m.c.Runtime.PullImage(ctx, r.spec, r.auths[i].Auth, r.sandbox)
		if err == nil {
			return ref, &r.auths[i], nil
		}
		errs = append(errs, plain(err))
	}
	if len(errs) == 1 {
		return "", nil, errs[0]
	}
	return "", nil, utilerrors.NewAggregate(errs)
}

// plain drops the code of an error when it tells nothing.
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
