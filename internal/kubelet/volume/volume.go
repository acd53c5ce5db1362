// Package volume is the volume manager: it owns what is mounted for pods and the directories of pods. Each time it compares what
// a pod wants with what is on the disk and in the mount table, so that nothing has to be remembered over a restart.
//
// Volumes that show API objects (configMap, secret, downwardAPI, projected) follow these objects: one goroutine hears of changes
// and writes them into the volumes of all pods.
package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/due"
	"podo.dev/podo/internal/kubelet/objects"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Config is what a Manager needs.
type Config struct {
	Root    string // the kubelet's root directory; pods are under <Root>/pods
	Host    host.Mounts
	Objects Objects
	// Follow tells of changed objects (objects.Reader.Follow).
	Follow func(ctx context.Context, resync func(), changed func([]objects.Ref)) error
	// Facts are for the downward API. MemoryAllocatable bounds volumes in memory, in bytes; 0 is unknown.
	Facts             func() downward.Facts
	MemoryAllocatable func() int64
	NodeLabels        func() map[string]string // optional: without them, a volume that is bound to nodes fails
	Token             Token                    // optional: without it, projected tokens fail
	Certificate       Certificate              // optional: without it, pod certificates fail
	Wake              func(uid types.UID)      // optional: a pod whose volumes failed may now succeed
	// Operated is told of each volume that was mounted or unmounted, well or not; optional.
	Operated func(plugin, operation string, took time.Duration, err error)
	// Event tells users about a pod. It must not block. Optional.
	Event func(pod *v1.Pod, container, eventType, reason, message string)
	// Swapped is called once when the kernel cannot keep volumes in memory out of swap. It must not block. Optional.
	Swapped func()
	// Folder makes the folder of a local volume that is one of the node's own; optional.
	Folder func(pv *v1.PersistentVolume) error
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Validate says what is missing.
func (c Config) Validate() error {
	if c.Host == nil || c.Objects == nil || c.Follow == nil || c.Facts == nil || c.MemoryAllocatable == nil || c.Logger == nil {
		return errors.New("volume: Host, Objects, Follow, Facts, MemoryAllocatable and Logger are needed")
	}
	if !filepath.IsAbs(c.Root) {
		return fmt.Errorf("volume: the kubelet's root directory %q must be an absolute path", c.Root)
	}
	return nil
}

// Manager implements worker.Volumes.
type Manager struct {
	c      Config
	layout Layout
	maker  maker
	swaps  atomic.Bool // the kernel has no in-memory file system without swap

	mu    sync.Mutex
	pods  map[types.UID]*entry
	users map[objects.Ref]map[types.UID]bool // who shows an object
	again map[types.UID]time.Time            // volumes that could not be written, and when that is tried again
	timer due.Timer
}

// entry is a pod with volumes. Whoever works on the pod's directory holds its turn: Mount, Unmount, or the follower, which never
// waits for the turn but sets stale.
type entry struct {
	turn chan struct{} // holds one token while nobody works

	// guarded by Manager.mu
	pod    *v1.Pod          // nil when no Mount has announced the pod
	coming int              // Mounts that wait for their turn; they have announced the pod
	failed bool             // the last Mount did not succeed, or an Unmount came after it
	stale  bool             // an object changed while someone worked
	absent map[string]bool  // volumes that the last Mount has not set up (yet), and newer ones; nil after an Unmount
	waits  string           // the mount that the Unmount under way waits for
	claims map[string]bound // what claims lead to, by the volume's name
}

var _ worker.Volumes = (*Manager)(nil)

// New makes a Manager, and the directory of pods.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Operated == nil {
		c.Operated = func(string, string, time.Duration, error) {}
	}
	if c.Event == nil {
		c.Event = func(*v1.Pod, string, string, string, string) {}
	}
	if c.Swapped == nil {
		c.Swapped = func() {}
	}
	if c.NodeLabels == nil {
		c.NodeLabels = func() map[string]string { return nil }
	}
	if err := os.MkdirAll((Layout{c.Root}).Pods(), 0o750); err != nil {
		return nil, err
	}
	// The mount table has real paths: mounts below a symbolic link would not be recognized.
	root, err := filepath.EvalSymlinks(c.Root)
	if err != nil {
		return nil, err
	}
	return &Manager{
		c: c, layout: Layout{root}, maker: maker{c.Objects, c.Facts, c.Token, c.Certificate},
		pods: map[types.UID]*entry{}, users: map[objects.Ref]map[types.UID]bool{}, again: map[types.UID]time.Time{}, timer: due.New(),
	}, nil
}

// Layout is where pods' files are.
func (m *Manager) Layout() Layout { return m.layout }

// Path says where a volume of the pod is on the host, and whether containers may only read it.
func (m *Manager) Path(pod *v1.Pod, volume string) (path string, readOnly bool, err error) {
	v := volumeOf(pod, volume)
	if v == nil {
		return "", false, fmt.Errorf("the pod has no volume %q", volume)
	}
	if claimSource(pod, v) != nil {
		return m.claimPath(pod, v)
	}
	path, readOnly, ok := m.layout.where(pod.UID, v)
	if !ok {
		return "", false, unsupported(v)
	}
	return path, readOnly, nil
}

func volumeOf(pod *v1.Pod, name string) *v1.Volume {
	if i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name }); i >= 0 {
		return &pod.Spec.Volumes[i]
	}
	return nil
}

const parallelMounts = 8 // of one pod

// Mount implements worker.Volumes. Volumes that no container mounts are left out.
//
// The kernel may block a mount forever, and nothing can cancel it. When ctx ends, Mount returns an error with the volumes that
// are missing, and the pod's turn stays with the goroutine that waits: nobody else touches the pod's directory before the kernel
// has answered, and then the pod is woken.
func (m *Manager) Mount(ctx context.Context, pod *v1.Pod) error {
	// Announced before the objects are read, so that no change is missed.
	e := m.announce(pod)
	select {
	case <-e.turn:
		m.came(e)
	case <-ctx.Done():
		m.came(e)
		return m.late(ctx, e)
	}
	done := make(chan error)
	go func() {
		err := m.mount(ctx, e)
		select {
		case done <- err:
		case <-ctx.Done():
			m.wake(pod.UID)
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return m.late(ctx, e)
	}
}

func (m *Manager) wake(uid types.UID) {
	if m.c.Wake != nil {
		m.c.Wake(uid)
	}
}

// mount works until everything is as the objects say, or has failed. It is called with the turn held, and gives it back.
func (m *Manager) mount(ctx context.Context, e *entry) error {
	m.mu.Lock()
	whole := e.absent != nil && !e.failed // then what is absent was brought by an ephemeral container, and the other volumes stay in use
	m.mu.Unlock()
	for {
		pod := m.podOf(e)
		failure := m.mountAll(ctx, e, pod, whole)
		if m.finish(e, failure != nil && !whole, ctx.Err() != nil) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failure != nil { // never a typed nil
				return failure
			}
			return nil
		}
	}
}

// late is the error that names what is missing when ctx ends.
func (m *Manager) late(ctx context.Context, e *entry) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	absent := slices.Sorted(maps.Keys(e.absent))
	if e.absent == nil && e.pod != nil { // an Unmount has the turn
		for _, v := range usedVolumes(e.pod) {
			absent = append(absent, v.Name)
		}
		slices.Sort(absent)
	}
	return &podlife.Failure{Reason: "FailedMount", Unsure: true, Message: fmt.Sprintf(
		"Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed to process volumes=[]: %v", absent, ctx.Err())}
}

// mountAll sets up all volumes of the pod in parallel and says which failed. With whole (the pod was complete before), a volume
// that was mounted stays mounted even if it cannot be updated.
func (m *Manager) mountAll(ctx context.Context, e *entry, pod *v1.Pod, whole bool) *podlife.Failure {
	if err := os.MkdirAll(filepath.Join(m.layout.Pod(pod.UID), "volumes"), 0o750); err != nil {
		return &podlife.Failure{Reason: "Failed", Message: "error making pod data directories: " + err.Error()}
	}
	used := usedVolumes(pod)
	m.mu.Lock()
	if !whole {
		e.absent = map[string]bool{}
		for _, v := range usedVolumes(e.pod) { // the pod may have a newer form by now
			e.absent[v.Name] = true
		}
	}
	m.mu.Unlock()
	errs := make([]error, len(used))
	var g errgroup.Group
	g.SetLimit(parallelMounts)
	for i, v := range used {
		g.Go(func() error {
			began := m.c.Now()
			errs[i] = m.setUp(ctx, pod, v)
			m.mounted(pod, v, began, errs[i])
			m.mu.Lock()
			if errs[i] == nil {
				delete(e.absent, v.Name)
			}
			kept := whole && errs[i] != nil && !e.absent[v.Name]
			m.mu.Unlock()
			if kept {
				m.c.Logger.Info("a volume keeps its old content", "pod", pod.Namespace+"/"+pod.Name, "volume", v.Name, "err", errs[i])
				errs[i] = nil
				m.tryLater(pod.UID, refreshAgain)
			}
			return nil
		})
	}
	g.Wait() //nolint:errcheck // errors are in errs
	return failure(used, errs)
}

// failure names the volumes that failed; nil when none did.
func failure(used []*v1.Volume, errs []error) *podlife.Failure {
	var texts, failed, unknown, why []string
	reason := "FailedMapVolume" // unless something else failed too
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed = append(failed, used[i].Name)
		if s := (*stepError)(nil); !errors.As(err, &s) || s.step != mapDevice {
			reason = "FailedMount"
		}
		switch e := (*unprocessed)(nil); {
		case errors.As(err, &e):
			unknown, why = append(unknown, used[i].Name), append(why, e.Error())
		case errors.As(err, new(*stepError)):
			texts = append(texts, err.Error())
		default:
			texts = append(texts, fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", used[i].Name, err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if len(unknown) > 0 {
		texts = append(texts, fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed to process volumes=%v: %s",
			failed, unknown, strings.Join(why, "; ")))
	}
	return &podlife.Failure{Reason: reason, Message: strings.Join(texts, "; ")}
}

// usedVolumes are those that some container mounts, or has as a device.
func usedVolumes(pod *v1.Pod) []*v1.Volume {
	names := map[string]bool{}
	for _, c := range containersOf(pod) {
		for _, vm := range c.VolumeMounts {
			names[vm.Name] = true
		}
		for _, d := range c.VolumeDevices {
			names[d.Name] = true
		}
	}
	var out []*v1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; names[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

// containersOf are all containers of a pod.
func containersOf(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		out = append(out, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

// announce registers a pod that comes for its turn, and the objects that its volumes show.
func (m *Manager) announce(pod *v1.Pod) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(pod.UID)
	e.take(pod)
	e.coming++
	for _, v := range usedVolumes(pod) {
		for _, r := range refs(pod, v) {
			m.use(r, pod.UID)
		}
	}
	return e
}

// came says that a Mount no longer waits for its turn.
func (m *Manager) came(e *entry) {
	m.mu.Lock()
	e.coming--
	m.mu.Unlock()
}

// entryOf is a pod's entry, known or not. Manager.mu is held.
func (m *Manager) entryOf(uid types.UID) *entry {
	e := m.pods[uid]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		e.turn <- struct{}{}
		m.pods[uid] = e
	}
	return e
}

// use notes that a pod shows an object. Manager.mu is held.
func (m *Manager) use(r objects.Ref, uid types.UID) {
	if m.users[r] == nil {
		m.users[r] = map[types.UID]bool{}
	}
	m.users[r][uid] = true
}

func (m *Manager) podOf(e *entry) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.pod
}

// finish gives the turn back, unless an object changed while the pod was worked on: then the work must be done again. The
// follower takes the turn or sets stale under the same mutex, so that no change is lost.
func (m *Manager) finish(e *entry, failed, stop bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.stale && !stop {
		e.stale = false
		return false
	}
	e.failed, e.stale = failed, false
	e.turn <- struct{}{}
	return true
}

// unmounting is called with the turn held, before anything of the pod is unmounted. Until a Mount has succeeded again, the
// follower writes nothing into the pod's folders: Secrets would land on the disk below where the memory was mounted.
func (m *Manager) unmounting(e *entry) {
	m.mu.Lock()
	e.failed, e.absent = true, nil
	m.mu.Unlock()
}

// forget is called with the turn held, when nothing of the pod is left. The entry stays as long as a Mount waits for its turn,
// since a second entry would have a turn of its own. It returns the volumes that the pod's claims led to.
func (m *Manager) forget(uid types.UID, e *entry) map[string]bound {
	m.mu.Lock()
	defer m.mu.Unlock()
	claims := e.claims
	e.claims = nil
	if e.coming > 0 {
		return claims
	}
	delete(m.pods, uid)
	delete(m.again, uid)
	for r, who := range m.users {
		if delete(who, uid); len(who) == 0 {
			delete(m.users, r)
		}
	}
	return claims
}

// OnDisk implements worker.Volumes.
func (m *Manager) OnDisk() ([]types.UID, error) {
	entries, err := os.ReadDir(m.layout.Pods())
	if err != nil {
		return nil, err
	}
	var out []types.UID
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, types.UID(e.Name()))
		}
	}
	return out, nil
}
