// Package images pulls images by their pull policy, with the pod's credentials or the node's. Several pulls run at once up to a
// limit, and each image is pulled once however many pods wait for it. An image that was pulled with a Secret is not free for all
// pods: package pulled decides who may use it. Events and messages are upstream's; when to try again is podlife's decision.
package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/images/keyring"
	"podo.dev/podo/internal/kubelet/images/provider"
	"podo.dev/podo/internal/kubelet/images/pulled"
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
	// MaxParallel pulls run at once, the others wait; 1 is one after another (serializeImagePulls), 0 no limit.
	MaxParallel int
	// PullsPerSecond is how many pulls may begin a second, Burst how many at once. A pull beyond that fails and is tried again
	// later. 0 means no limit.
	PullsPerSecond, Burst int
	Plugins               *provider.Plugins // nil: none
	Records               *pulled.Records   // nil: whoever may run a pod here may have every image that is here
	// NodeDirs are folders with the node's own Docker configuration, which all its pods share: the kubelet's, then homes.
	NodeDirs []string
	// Fetching is how many bytes the runtime has fetched so far, and the total, over all downloads under way; nil: it does not
	// tell.
	Fetching func(ctx context.Context) (done, total int64, err error)
	// Wanted is told of each image that a container is about to be created from, so that it is not collected; may be nil.
	Wanted func(image string)
	// Pulled is told of each pull that succeeded; may be nil.
	Pulled func(size uint64, took time.Duration)
	// Asked is called for each image that a container needs: whether it was present and whether a pull was needed; nil where that
	// was not found out. May be nil.
	Asked func(policy v1.PullPolicy, present, needed *bool)
	Now   func() time.Time // nil: time.Now
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Runtime == nil || c.Secrets == nil || c.Event == nil || c.Append == nil || c.Logger == nil:
		return errors.New("images: Runtime, Secrets, Event, Append and Logger are needed")
	case c.MaxParallel < 0 || c.PullsPerSecond < 0 || c.Burst < 0:
		return errors.New("images: MaxParallel, PullsPerSecond and Burst must not be negative")
	}
	return nil
}

// Manager implements worker.Images.
type Manager struct {
	c     Config
	slots chan struct{} // nil: as many as come
	rate  *rate.Limiter

	mu    sync.Mutex
	pulls map[string]*pull
}

var _ worker.Images = (*Manager)(nil)

// New makes a Manager. It starts nothing.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wanted == nil {
		c.Wanted = func(string) {}
	}
	m := &Manager{c: c, pulls: map[string]*pull{}, rate: rate.NewLimiter(rate.Inf, 0)}
	if c.MaxParallel > 0 {
		m.slots = make(chan struct{}, c.MaxParallel)
	}
	if c.PullsPerSecond > 0 {
		m.rate = rate.NewLimiter(rate.Limit(c.PullsPerSecond), c.Burst)
	}
	return m, nil
}

// Ensure implements worker.Images.
func (m *Manager) Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	var present, needed *bool
	if m.c.Asked != nil {
		defer func() { m.c.Asked(c.ImagePullPolicy, present, needed) }()
	}
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
	if err != nil && c.ImagePullPolicy != v1.PullAlways {
		msg := fmt.Sprintf("Failed to inspect image %q: %v", c.Image, plain(err))
		return "", m.fail(pod, c, "InspectFailed", msg, &podlife.Failure{Reason: "ImageInspectError", Message: msg})
	}
	if c.ImagePullPolicy != v1.PullAlways {
		present = new(have != nil)
	}
	secrets := m.pullSecrets(pod)
	credentials := sync.OnceValues(func() ([]keyring.Credential, error) { return m.credentials(ctx, pod, secrets, repo) })
	if have != nil && c.ImagePullPolicy != v1.PullAlways {
		must, err := m.mustPull(image, have, credentials)
		if err != nil {
			return "", m.fail(pod, c, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err), &podlife.Failure{Reason: "ErrImagePull", Message: err.Error()})
		}
		if needed = &must; !must {
			m.c.Event(pod, c.Name, v1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
			m.record(pod, c, "", "present", "")
			m.c.Wanted(have.Id)
			return have.Id, nil
		}
	}
	if c.ImagePullPolicy == v1.PullNever {
		// The message is the same whether the image is absent or present but not for this pod: a pod must not find out what
		// others have.
		msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		return "", m.fail(pod, c, "ErrImageNeverPull", msg, &podlife.Failure{Reason: "ErrImageNeverPull", Message: msg})
	}
	needed = new(true)
	auths, err := credentials()
	if err != nil {
		return "", m.fail(pod, c, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err), &podlife.Failure{Reason: "ErrImagePull", Message: err.Error()})
	}
	return m.pull(ctx, pod, c, pullRequest{spec: spec, had: have.GetId(), auths: auths, sandbox: sandbox})
}

func (m *Manager) mustPull(image string, have *runtimev1.Image, mine func() ([]keyring.Credential, error)) (bool, error) {
	if m.c.Records == nil {
		return false, nil
	}
	name := WholeName(image)
	named := slices.Contains(have.RepoTags, name) || slices.Contains(have.RepoDigests, name)
	return m.c.Records.MustPull(image, have.Id, named, mine)
}

// EnsureVolume is Ensure for an image that is mounted as a volume. It returns the full name: for a volume, containerd finds
// imported images by their full names only.
func (m *Manager) EnsureVolume(ctx context.Context, pod *v1.Pod, as *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	if _, err := m.Ensure(ctx, pod, as, sandbox); err != nil {
		var f *podlife.Failure
		if errors.As(err, &f) && f.Reason != "" {
			f.Image = as.Image
		}
		return "", err
	}
	return WholeName(as.Image), nil
}

func (m *Manager) pull(ctx context.Context, pod *v1.Pod, c *v1.Container, r pullRequest) (string, error) {
	m.c.Event(pod, c.Name, v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	start, stage := m.c.Now(), ""
	p := m.join(ctx, r)
	defer m.leave(p)
	if !p.begun() {
		m.record(pod, c, "", "queued", "")
		stage = "queued"
		if !p.await(ctx, p.running) {
			return "", ctx.Err()
		}
	}
	m.record(pod, c, stage, "pulling", "")
	if !m.awaitEnd(ctx, p, pod, c) {
		return "", ctx.Err() // the pod was stopped: nothing failed
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

// progressEvery is between two records of a pull that takes long.
const progressEvery = 10 * time.Second

// awaitEnd waits for the end of a pull and meanwhile records its progress, as long as it is the only pull: of several, the
// runtime does not tell which fetches what. It returns false when ctx ends first.
func (m *Manager) awaitEnd(ctx context.Context, p *pull, pod *v1.Pod, c *v1.Container) bool {
	if m.c.Fetching == nil {
		return p.await(ctx, p.done)
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		m.mu.Lock()
		alone := len(m.pulls) == 1
		m.mu.Unlock()
		if !alone {
			continue
		}
		if done, total, err := m.c.Fetching(ctx); err == nil && total > 0 {
			m.record(pod, c, "pulling", "pulling", "", timeline.Field{Key: "fetched", Value: strconv.FormatInt(done, 10)},
				timeline.Field{Key: "of", Value: strconv.FormatInt(total, 10)})
		}
	}
}

// pullSecrets are the pod's. A missing one is reported, also where no image has to be pulled for now, and fails nothing: the image may be
// public.
func (m *Manager) pullSecrets(pod *v1.Pod) (found []*v1.Secret) {
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
	return found
}

// credentials are those that the pod may use for the repository: from its pull secrets, then from the node's own configuration,
// then from plug-ins.
func (m *Manager) credentials(ctx context.Context, pod *v1.Pod, secrets []*v1.Secret, repo string) ([]keyring.Credential, error) {
	own, err := keyring.OfSecrets(secrets)
	if err != nil {
		return nil, err
	}
	nodes := keyring.OfNode(m.c.NodeDirs, func(path string, err error) {
		m.c.Logger.Warn("the node's Docker configuration cannot be used", "path", path, "err", err)
	})
	return slices.Concat(own.Lookup(repo), nodes.Lookup(repo), m.c.Plugins.Lookup(ctx, pod, repo)), nil
}

// fail reports and records a failure. The event that the container did not start ("Error: ...") is podlife's.
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
