// Package images makes images present: by pull policy, with the pod's credentials, several at once up to a limit, each only
// once however many pods want it. Events and messages are upstream's. When to try again is podlife's to decide.
package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// Secrets finds pull secrets.
type Secrets interface {
	Secret(namespace, name string) (*v1.Secret, error)
}

// Config is what a Manager needs.
type Config struct {
	Runtime cri.Images
	Secrets Secrets
	// Event tells users about a container of a pod; container "" is the pod itself. It must not block.
	Event  func(pod *v1.Pod, container, eventType, reason, message string)
	Append timeline.Append
	Logger *slog.Logger
	// MaxParallel pulls run at once, the others wait; 1 is one after another (serializeImagePulls), 0 the default of 5.
	MaxParallel int
	// Wanted is told of each image that a container is about to be created from, so that it is not collected; may be nil.
	Wanted func(image string)
	Now    func() time.Time // nil: time.Now
}

const defaultParallel = 5

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Runtime == nil || c.Secrets == nil || c.Event == nil || c.Append == nil || c.Logger == nil:
		return errors.New("images: Runtime, Secrets, Event, Append and Logger are needed")
	case c.MaxParallel < 0:
		return fmt.Errorf("images: maxParallelImagePulls %d must not be negative", c.MaxParallel)
	}
	return nil
}

// Manager implements worker.Images.
type Manager struct {
	c     Config
	slots chan struct{}

	mu    sync.Mutex
	pulls map[string]*pull
}

var _ worker.Images = (*Manager)(nil)

// New makes a Manager. It starts nothing.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.MaxParallel == 0 {
		c.MaxParallel = defaultParallel
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wanted == nil {
		c.Wanted = func(string) {}
	}
	return &Manager{c: c, slots: make(chan struct{}, c.MaxParallel), pulls: map[string]*pull{}}, nil
}

// Ensure implements worker.Images.
func (m *Manager) Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	image, repo, err := normalize(c.Image)
	if err != nil {
		msg := fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)
		return "", m.fail(pod, c, "InspectFailed", msg, &podlife.Failure{Reason: "InvalidImageName", Message: msg})
	}
	spec := &runtimev1.ImageSpec{Image: image, UserSpecifiedImage: c.Image, Annotations: maps.Clone(pod.Annotations)}
	have, err := m.c.Runtime.ImageStatus(ctx, spec)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		msg := fmt.Sprintf("Failed to inspect image %q: %v", c.Image, plain(err))
		return "", m.fail(pod, c, "InspectFailed", msg, &podlife.Failure{Reason: "ImageInspectError", Message: msg})
	}
	switch {
	case have != nil && c.ImagePullPolicy != v1.PullAlways:
		m.c.Event(pod, c.Name, v1.EventTypeNormal, "Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
		m.record(pod, c, "", "present", "")
		m.c.Wanted(have.Id)
		return have.Id, nil
	case have == nil && c.ImagePullPolicy == v1.PullNever:
		msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		return "", m.fail(pod, c, "ErrImageNeverPull", msg, &podlife.Failure{Reason: "ErrImageNeverPull", Message: msg})
	}
	return m.pull(ctx, pod, c, pullRequest{spec: spec, auths: m.auths(pod, repo), sandbox: sandbox})
}

// EnsureVolume is Ensure for an image that is mounted as a volume. It returns the image's whole name: containerd finds images that
// were imported by their names only, where a volume is concerned.
func (m *Manager) EnsureVolume(ctx context.Context, pod *v1.Pod, as *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	if _, err := m.Ensure(ctx, pod, as, sandbox); err != nil {
		return "", err
	}
	named, err := reference.ParseNormalizedNamed(as.Image)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

func (m *Manager) pull(ctx context.Context, pod *v1.Pod, c *v1.Container, r pullRequest) (string, error) {
	m.c.Event(pod, c.Name, v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	m.record(pod, c, "", "pulling", "")
	start := m.c.Now()
	p, err := m.join(ctx, r)
	if err != nil {
		return "", err // the pod was stopped: nothing failed
	}
	if p.err != nil {
		return "", m.fail(pod, c, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, p.err), failure(c.Image, p.err))
	}
	m.c.Wanted(p.ref)
	total := m.c.Now().Sub(start).Truncate(time.Millisecond)
	m.c.Event(pod, c.Name, v1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
			c.Image, p.took.Truncate(time.Millisecond), total, p.size))
	m.record(pod, c, "pulling", "pulled", "",
		timeline.Field{Key: "bytes", Value: strconv.FormatUint(p.size, 10)},
		timeline.Field{Key: "ms", Value: strconv.FormatInt(total.Milliseconds(), 10)})
	return p.ref, nil
}

// auths are the credentials of the pod's pull secrets that fit the repository. A missing secret is told, and no reason to
// give up: the image may be public.
func (m *Manager) auths(pod *v1.Pod, repo string) []*runtimev1.AuthConfig {
	var found []*v1.Secret
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		s, err := m.c.Secrets.Secret(pod.Namespace, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		found = append(found, s)
	}
	if len(missing) > 0 {
		m.c.Event(pod, "", v1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
				strings.Join(missing, ", ")))
	}
	return lookup(credentials(found), repo)
}

// fail tells a failure and records it. That the container did not start ("Error: ...") is podlife's to tell.
func (m *Manager) fail(pod *v1.Pod, c *v1.Container, reason, message string, f *podlife.Failure) error {
	m.c.Event(pod, c.Name, v1.EventTypeWarning, reason, message)
	m.record(pod, c, "", "failed", f.Reason)
	return f
}

func (m *Manager) record(pod *v1.Pod, c *v1.Container, from, to, cause string, fields ...timeline.Field) {
	m.c.Append(timeline.Record{
		At: m.c.Now(), Pod: timeline.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Stage: timeline.Image, Subject: c.Image, From: from, To: to, Cause: cause, Fields: fields,
	})
}
