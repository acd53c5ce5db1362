// Package spec turns a pod into what the runtime is asked for: the configuration of its sandbox and of its containers. The
// translation is a function of the pod, the objects it refers to and the node's configuration; beside it, only the files that
// the configuration points to are made (/etc/hosts, the termination message, log directories).
package spec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Objects are the ConfigMaps and Secrets that environment variables come from.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, error)
	Secret(namespace, name string) (*v1.Secret, error)
}

// Volumes say where mounted volumes are (package volume).
type Volumes interface {
	Path(pod *v1.Pod, volume string) (path string, readOnly bool, err error)
	Device(pod *v1.Pod, volume string) (path string, readOnly bool, err error)
	SubPath(pod *v1.Pod, container string, index int, volume, subPath string) (string, error)
	MakePlace(pod *v1.Pod, volume, at, like string) error
	Layout() volume.Layout
}

// Images tell as which user an image runs.
type Images interface {
	ImageStatus(ctx context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error)
}

// Config is what a Builder needs.
type Config struct {
	Node    string // its name
	LogDir  string // podLogsDir
	LogList string // where several nodes share LogDir: has an entry for each directory that is this node's (containergc.Config)
	Files   host.Files
	Objects Objects
	Volumes Volumes
	Images  Images
	// Facts are the node's addresses and allocatable resources, for the downward API; PodIPs is not used.
	Facts   func() downward.Facts
	Machine cm.Machine
	// Volume makes the image of a volume present, as that of a container that has its reference and pull policy, and returns what the
	// runtime mounts. nil: there are no image volumes.
	Volume func(ctx context.Context, pod *v1.Pod, as *v1.Container, sandbox *runtimev1.PodSandboxConfig) (ref string, err error)
	// Users are the users of a pod's own (package userns), nil for a pod of the host's; the function may be nil.
	Users func(pod *v1.Pod, handler string) (*runtimev1.UserNamespace, error)
	// Handler is what the runtime calls a RuntimeClass; nil: there are none.
	Handler func(class string) (string, error)
	// Services are those of the namespace and the API server's (may be nil): containers are told of them.
	Services func(namespace string) []*v1.Service
	// Event tells users about a pod, NodeEvent (which may be nil) about the node. They must not block.
	Event     func(pod *v1.Pod, container, eventType, reason, message string)
	NodeEvent func(eventType, reason, message string)
	Logger    *slog.Logger

	DNS DNS

	SeccompDefault bool          // RuntimeDefault for those that say nothing
	SeccompDir     string        // of Localhost profiles
	SandboxSeccomp string        // file of the seccomp profile of sandboxes' own process; "" takes the runtime's default
	NoCPUQuota     bool          // cpuCFSQuota: false
	QuotaPeriod    time.Duration // 0: 100 ms
	SwapLimited    bool          // the kernel accounts swap per cgroup (cm.Manager.SwapLimited)
	CgroupV2       bool
	// SingleProcessOOMKill leaves the other processes of a container alone when one is killed for memory; false kills the
	// whole container, which only cgroup v2 can.
	SingleProcessOOMKill bool
	LimitedSwap          bool // memorySwap.swapBehavior is LimitedSwap; without effect on cgroup v1
	// ThrottlingFactor is memoryThrottlingFactor; nil: no container is slowed down for memory.
	ThrottlingFactor  *float64
	RecursiveReadOnly bool // the runtime can make mounts below a read-only one read-only too
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Files == nil || c.Objects == nil || c.Volumes == nil || c.Images == nil || c.Facts == nil || c.Event == nil || c.Logger == nil:
		return errors.New("spec: Files, Objects, Volumes, Images, Facts, Event and Logger are needed")
	case c.Node == "":
		return errors.New("spec: the node has no name")
	case !filepath.IsAbs(c.LogDir):
		return fmt.Errorf("spec: podLogsDir %q must be an absolute path", c.LogDir)
	case c.Machine.Memory <= 0:
		return errors.New("spec: the machine has no memory")
	}
	return nil
}

// Builder implements worker.Specs.
type Builder struct {
	c      Config
	period int64    // µs
	masked []string // paths that containers must not see

	noClusterDNS sync.Once // reports once for the node that there is no cluster DNS; each pod reports it for itself
}

var _ worker.Specs = (*Builder)(nil)

// New makes a Builder.
func New(c Config) (*Builder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.NodeEvent == nil {
		c.NodeEvent = func(string, string, string) {}
	}
	b := &Builder{c: c, period: cm.QuotaPeriod, masked: defaultMasked}
	if c.QuotaPeriod > 0 {
		b.period = c.QuotaPeriod.Microseconds()
	}
	// The times at which a cpu was throttled leak what others compute.
	for i := range c.Machine.CPUs {
		path := "/sys/devices/system/cpu/cpu" + strconv.Itoa(i) + "/thermal_throttle"
		if _, err := c.Files.ReadDir(path); err == nil {
			b.masked = append(b.masked[:len(b.masked):len(b.masked)], path)
		}
	}
	return b, nil
}

// Handler implements worker.Specs.
func (b *Builder) Handler(pod *v1.Pod) (string, error) {
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if b.c.Handler == nil {
		return "", fmt.Errorf("runtimeclass.node.k8s.io %q not found", *class)
	}
	return b.c.Handler(*class)
}

// podLogs is the directory of a pod's logs.
func (b *Builder) podLogs(pod *v1.Pod) string {
	return filepath.Join(b.c.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// full names a pod in messages.
func full(pod *v1.Pod) string { return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID) }

func configError(err error) error {
	if f := (*podlife.Failure)(nil); errors.As(err, &f) {
		return f // of an image volume, in its own words
	}
	return &podlife.Failure{Reason: "CreateContainerConfigError", Message: err.Error()}
}
