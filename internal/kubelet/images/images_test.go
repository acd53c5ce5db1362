package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// registry is a runtime's image service before a made-up registry: a pull takes delay, and needs password where one is set.
type registry struct {
	cri.Images // the methods that are not used

	mu       sync.Mutex
	have     map[string]*runtimev1.Image
	delay    time.Duration
	password string
	err      error
	inspect  error
	pulls    int
	running  int
	most     int
	canceled int
}

func (r *registry) ImageStatus(_ context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have[image.Image], r.inspect
}

func (r *registry) PullImage(ctx context.Context, image *runtimev1.ImageSpec, auth *runtimev1.AuthConfig, _ *runtimev1.PodSandboxConfig) (string, error) {
	r.mu.Lock()
	r.pulls++
	r.running++
	r.most = max(r.most, r.running)
	r.mu.Unlock()
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	switch {
	case err != nil:
		r.canceled++
		return "", err
	case r.err != nil:
		return "", r.err
	case r.password != "" && auth.GetPassword() != r.password:
		return "", status.Errorf(codes.Unknown, "denied for %q", auth.GetUsername())
	}
	id := "sha256:" + image.Image
	r.have[id] = &runtimev1.Image{Id: id, Size: 1234}
	r.have[image.Image] = r.have[id]
	return id, nil
}

type secrets map[string]*v1.Secret

func (s secrets) Secret(namespace, name string) (*v1.Secret, error) {
	if x, ok := s[namespace+"/"+name]; ok {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
}

// node is a Manager with what it told.
type node struct {
	*Manager
	registry *registry

	mu      sync.Mutex
	events  []string
	records []string
	wanted  []string
}

func newNode(t *testing.T, parallel int, s secrets) *node {
	t.Helper()
	r := &registry{have: map[string]*runtimev1.Image{}}
	n := newNodeOf(t, Config{Runtime: r, Secrets: s, MaxParallel: parallel})
	n.registry = r
	return n
}

// newNodeOf makes a Manager that tells the node what it tells.
func newNodeOf(t *testing.T, c Config) *node {
	t.Helper()
	n := &node{}
	m, err := New(Config{
		Runtime: c.Runtime, Secrets: c.Secrets, PullsPerSecond: c.PullsPerSecond, Burst: c.Burst, Records: c.Records, Plugins: c.Plugins, NodeDirs: c.NodeDirs, Fetching: c.Fetching,
		Logger: slog.New(slog.DiscardHandler), MaxParallel: c.MaxParallel,
		Event: func(_ *v1.Pod, container, kind, reason, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, strings.Join([]string{container, kind, reason, message}, "|"))
		},
		Wanted: func(image string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.wanted = append(n.wanted, image)
		},
		Append: func(r timeline.Record) {
			n.mu.Lock()
			defer n.mu.Unlock()
			text := fmt.Sprintf("%s %s->%s %s", r.Subject, r.From, r.To, r.Cause)
			for _, f := range r.Fields {
				text += " " + f.Key + "=" + f.Value
			}
			n.records = append(n.records, strings.TrimSpace(text))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Manager = m
	return n
}

func (n *node) expect(t *testing.T, events, records []string) {
	t.Helper()
	if !slices.Equal(n.events, events) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(n.events, "\n"), strings.Join(events, "\n"))
	}
	if !slices.Equal(n.records, records) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(n.records, "\n"), strings.Join(records, "\n"))
	}
}

func wants(image string, policy v1.PullPolicy) *v1.Container {
	return &v1.Container{Name: "a", Image: image, ImagePullPolicy: policy}
}

func TestPullOfWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, nil)
		n.registry.delay = 1234567 * time.Microsecond
		ref, err := n.Ensure(context.Background(), &v1.Pod{}, wants("busybox", v1.PullIfNotPresent), nil)
		if err != nil || ref != "sha256:busybox:latest" {
			t.Fatalf("Ensure = %s, %v", ref, err)
		}
		ref, err = n.Ensure(context.Background(), &v1.Pod{}, wants("busybox", v1.PullIfNotPresent), nil)
		if err != nil || ref != "sha256:busybox:latest" {
			t.Fatalf("Ensure again = %s, %v", ref, err)
		}
		n.expect(t, []string{
			`a|Normal|Pulling|Pulling image "busybox"`,
			`a|Normal|Pulled|Successfully pulled image "busybox" in 1.234s (1.234s including waiting). Image size: 1234 bytes.`,
			`a|Normal|Pulled|Container image "busybox" already present on machine and can be accessed by the pod`,
		}, []string{"busybox ->pulling", "busybox pulling->pulled  bytes=1234 ms=1234", "busybox ->present"})
	})
}

func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, nil)
		_, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x:1", v1.PullNever), nil)
		same(t, err, "ErrImageNeverPull", `Container image "x:1" is not present with pull policy of Never`)
		for range 2 {
			if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x:1", v1.PullAlways), nil); err != nil {
				t.Fatal(err)
			}
		}
		if n.registry.pulls != 2 {
			t.Errorf("%d pulls with policy Always, want 2", n.registry.pulls)
		}
		if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x:1", v1.PullNever), nil); err != nil {
			t.Errorf("Never with the image there: %v", err)
		}
		if want := []string{"sha256:x:1", "sha256:x:1", "sha256:x:1"}; !slices.Equal(n.wanted, want) {
			t.Errorf("images that a container is about to have: %v, want %v: each time one is there, pulled or not", n.wanted, want)
		}
	})
}

func same(t *testing.T, err error, reason, message string) {
	t.Helper()
	var f *podlife.Failure
	if !errors.As(err, &f) || f.Reason != reason || f.Message != message {
		t.Errorf("failure %#v\nwant %s: %s", err, reason, message)
	}
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			image, reason, message string
			pull, inspect          error
			event                  string
		}{
			{
				image: "Foo Bar", reason: "InvalidImageName",
				message: `Failed to apply default image tag "Foo Bar": couldn't parse image name "Foo Bar": invalid reference format: repository name (library/Foo Bar) must be lowercase`,
				event:   `InspectFailed|Failed to apply default image tag "Foo Bar": couldn't parse image name "Foo Bar": invalid reference format: repository name (library/Foo Bar) must be lowercase`,
			},
			{
				image: "x", reason: "ErrImagePull", pull: status.Error(codes.Unknown, "no route"), message: "no route",
				event: `Failed|Failed to pull image "x": no route`,
			},
			{
				image: "x", reason: "ErrImagePull", pull: status.Error(codes.NotFound, "x: not found"),
				message: "rpc error: code = NotFound desc = x: not found",
				event:   `Failed|Failed to pull image "x": rpc error: code = NotFound desc = x: not found`,
			},
			{
				image: "x", reason: "RegistryUnavailable", pull: status.Error(codes.Unknown, "RegistryUnavailable: down"),
				message: "image pull failed for x because the registry is unavailable: down",
				event:   `Failed|Failed to pull image "x": RegistryUnavailable: down`,
			},
			{
				image: "x", reason: "SignatureValidationFailed", pull: status.Error(codes.Unknown, "SignatureValidationFailed: bad"),
				message: "image pull failed for x because the signature validation failed: bad",
				event:   `Failed|Failed to pull image "x": SignatureValidationFailed: bad`,
			},
			{
				image: "x", reason: "ImageInspectError", inspect: status.Error(codes.Unavailable, "gone"),
				message: `Failed to inspect image "x": rpc error: code = Unavailable desc = gone`,
				event:   `InspectFailed|Failed to inspect image "x": rpc error: code = Unavailable desc = gone`,
			},
		} {
			n := newNode(t, 1, nil)
			n.registry.err, n.registry.inspect = tc.pull, tc.inspect
			_, err := n.Ensure(context.Background(), &v1.Pod{}, wants(tc.image, v1.PullIfNotPresent), nil)
			same(t, err, tc.reason, tc.message)
			if last, want := n.events[len(n.events)-1], "a|Warning|"+tc.event; last != want {
				t.Errorf("event %q\nwant %q", last, want)
			}
			// Of an image that is mounted it is said which one it is: the container waits for it as for its own.
			_, err = n.EnsureVolume(context.Background(), &v1.Pod{}, wants(tc.image, v1.PullIfNotPresent), nil)
			same(t, err, tc.reason, tc.message)
			if f, ok := errors.AsType[*podlife.Failure](err); !ok || f.Image != tc.image {
				t.Errorf("%+v is not told to be of %s", f, tc.image)
			}
		}
	})
}

func TestEqualPullsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 2, nil)
		n.registry.delay = time.Second
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x", v1.PullIfNotPresent), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n.registry.pulls != 1 {
			t.Errorf("%d pulls of one image, want 1", n.registry.pulls)
		}
	})
}

func TestParallelUpToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 2, nil)
		n.registry.delay = time.Second
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants(fmt.Sprint("x", i), v1.PullIfNotPresent), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n.registry.most != 2 || time.Since(start) != 3*time.Second {
			t.Errorf("%d at once, %s in all; want 2 and 3s", n.registry.most, time.Since(start))
		}
		if !slices.ContainsFunc(n.events, func(e string) bool { return strings.Contains(e, "in 1s (3s including waiting)") }) {
			t.Errorf("no event tells the waiting: %q", n.events)
		}
	})
}

func TestPullGoesOnWhileSomeoneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, nil)
		n.registry.delay = time.Second
		first, stopFirst := context.WithCancel(context.Background())
		var firstErr, secondErr error
		var wg sync.WaitGroup
		wg.Go(func() { _, firstErr = n.Ensure(first, &v1.Pod{}, wants("x", v1.PullIfNotPresent), nil) })
		synctest.Wait()
		wg.Go(func() { _, secondErr = n.Ensure(context.Background(), &v1.Pod{}, wants("x", v1.PullIfNotPresent), nil) })
		synctest.Wait()
		stopFirst()
		wg.Wait()
		if !errors.Is(firstErr, context.Canceled) || secondErr != nil {
			t.Errorf("first %v, second %v; want canceled and nil", firstErr, secondErr)
		}
		if slices.ContainsFunc(n.events, func(e string) bool { return strings.Contains(e, "|Warning|") }) {
			t.Errorf("a stopped pod is no failure: %q", n.events)
		}

		// When nobody waits any more, the pull ends, and the next one who comes starts a new one.
		only, stop := context.WithCancel(context.Background())
		wg.Go(func() { _, firstErr = n.Ensure(only, &v1.Pod{}, wants("y", v1.PullIfNotPresent), nil) })
		synctest.Wait()
		stop()
		wg.Wait()
		if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("y", v1.PullIfNotPresent), nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n.registry.canceled != 1 || len(n.pulls) != 0 {
			t.Errorf("%d canceled, %d left; want 1 and 0", n.registry.canceled, len(n.pulls))
		}
	})
}

func TestCredentialsAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, secrets{
			"ns/wrong": dockerConfig(`"reg.example:5000/team":{"username":"w","password":"wrong"}`),
			"ns/right": dockerConfig(`"reg.example:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("r:secret:1")) + `"}`),
		})
		n.registry.password = "secret:1"
		pod := &v1.Pod{}
		pod.Namespace = "ns"
		pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "wrong"}, {Name: "missing"}, {Name: "right"}, {}}
		if _, err := n.Ensure(context.Background(), pod, wants("reg.example:5000/team/x", v1.PullIfNotPresent), nil); err != nil {
			t.Fatal(err)
		}
		if n.registry.pulls != 2 {
			t.Errorf("%d pulls, want 2: the more exact pattern first", n.registry.pulls)
		}
		if want := "|Warning|FailedToRetrieveImagePullSecret|Unable to retrieve some image pull secrets (missing); attempting to pull the image may not succeed."; !slices.Contains(n.events, want) {
			t.Errorf("events %q", n.events)
		}
		n.events = nil
		if _, err := n.Ensure(context.Background(), pod, wants("reg.example:5000/team/x", v1.PullIfNotPresent), nil); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(n.events, func(e string) bool { return strings.Contains(e, "FailedToRetrieveImagePullSecret") }) {
			t.Errorf("of a present image is told %q", n.events)
		}
		pod.Spec.ImagePullSecrets = pod.Spec.ImagePullSecrets[:1]
		_, err := n.Ensure(context.Background(), pod, wants("reg.example:5000/team/y", v1.PullIfNotPresent), nil)
		same(t, err, "ErrImagePull", `denied for "w"`)
		for _, e := range n.events {
			if strings.Contains(e, "secret:1") {
				t.Errorf("an event tells a password: %s", e)
			}
		}
	})
}

func TestNormalize(t *testing.T) {
	for image, want := range map[string]string{
		"busybox": "busybox:latest", "busybox:1": "busybox:1", "localhost:5000/x": "localhost:5000/x:latest", "r/x:latest": "r/x:latest",
		"x@sha256:" + strings.Repeat("a", 64): "x@sha256:" + strings.Repeat("a", 64),
	} {
		if got, _, err := normalize(image); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", image, got, err, want)
		}
	}
	for _, bad := range []string{"", "X", "a b", "x:", "x@sha256:1", strings.Repeat("a", 64)} {
		if got, _, err := normalize(bad); err == nil {
			t.Errorf("%q was taken as %s", bad, got)
		}
	}
}

func TestWholeName(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]string{
		"busybox": "docker.io/library/busybox:latest", "busybox:1": "docker.io/library/busybox:1", "localhost:5000/x": "localhost:5000/x:latest",
		"r.example/x" + digest: "r.example/x" + digest, "r.example/x:1" + digest: "r.example/x" + digest, "x:1" + digest: "docker.io/library/x" + digest,
		"X": "X", strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		if got := WholeName(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

func TestMorePullsThanMayBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{have: map[string]*runtimev1.Image{}}
		n := newNodeOf(t, Config{Runtime: r, Secrets: secrets{}, PullsPerSecond: 1, Burst: 2})
		for i, fails := range []bool{false, false, true} {
			_, err := n.Ensure(context.Background(), &v1.Pod{}, wants(fmt.Sprint("x", i), v1.PullIfNotPresent), nil)
			if !fails && err != nil {
				t.Error(err)
			} else if fails {
				same(t, err, "ErrImagePull", "pull QPS exceeded")
			}
		}
		time.Sleep(time.Second)
		if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x3", v1.PullIfNotPresent), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitingForASlotIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, nil)
		n.registry.delay = time.Second
		var wg sync.WaitGroup
		for _, image := range []string{"x", "y"} {
			wg.Go(func() {
				if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants(image, v1.PullIfNotPresent), nil); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []string{"x ->pulling", "y ->queued", "x pulling->pulled  bytes=1234 ms=1000", "y queued->pulling", "y pulling->pulled  bytes=1234 ms=2000"}
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(n.records)), want) {
			t.Errorf("records %q", n.records)
		}
	})
}

func TestALongPullTellsHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{have: map[string]*runtimev1.Image{}, delay: 25 * time.Second}
		begin := time.Now()
		n := newNodeOf(t, Config{Runtime: r, Secrets: secrets{}, Fetching: func(context.Context) (int64, int64, error) {
			return int64(time.Since(begin).Seconds()), 25, nil
		}})
		if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x", v1.PullIfNotPresent), nil); err != nil {
			t.Fatal(err)
		}
		want := []string{"x ->pulling", "x pulling->pulling  fetched=10 of=25", "x pulling->pulling  fetched=20 of=25", "x pulling->pulled  bytes=1234 ms=25000"}
		if !slices.Equal(n.records, want) {
			t.Errorf("records %q, want %q", n.records, want)
		}
	})
}

// The answer to a pull that nobody waits for any more is lost: the image came all the same, and must not be taken for one that nobody pulled.
func TestAnImageThatCameUnseen(t *testing.T) {
	r := &late{puller: puller{have: map[string]*runtimev1.Image{}}}
	n := newNodeOf(t, Config{Runtime: r, Secrets: secrets{}, Records: records(t, t.TempDir(), v1beta1.NeverVerifyPreloadedImages)})
	if _, err := n.Ensure(context.Background(), &v1.Pod{}, wants("x", v1.PullIfNotPresent), nil); err == nil {
		t.Fatal("the answer was to be lost")
	}
	if must, err := n.c.Records.MustPull("x:latest", "sha256:late", true, nil); err != nil || !must {
		t.Errorf("the image is free for all: %v %v", must, err)
	}
}

// late has the image after a pull whose answer it does not give.
type late struct{ puller }

func (l *late) PullImage(context.Context, *runtimev1.ImageSpec, *runtimev1.AuthConfig, *runtimev1.PodSandboxConfig) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have["x:latest"] = &runtimev1.Image{Id: "sha256:late"}
	return "", status.Error(codes.Unavailable, "connection lost")
}

// What containers need is told by whether it was there and had to be pulled, as far as that was found out.
func TestWhatIsAskedForIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1, nil)
		var told []string
		word := func(b *bool) string {
			if b == nil {
				return "?"
			}
			return strconv.FormatBool(*b)
		}
		n.c.Asked = func(policy v1.PullPolicy, present, needed *bool) {
			told = append(told, fmt.Sprintf("%s %s %s", policy, word(present), word(needed)))
		}
		for _, c := range []*v1.Container{
			wants("x:1", v1.PullNever), wants("x:1", v1.PullIfNotPresent), wants("x:1", v1.PullIfNotPresent), wants("x:1", v1.PullNever),
			wants("x:1", v1.PullAlways), wants("X", v1.PullIfNotPresent),
		} {
			n.Ensure(t.Context(), &v1.Pod{}, c, nil) //nolint:errcheck // what is told is what counts
		}
		want := []string{
			"Never false ?", "IfNotPresent false true", "IfNotPresent true false", "Never true false", "Always ? true", "IfNotPresent ? ?",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
