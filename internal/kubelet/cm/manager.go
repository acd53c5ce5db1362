// Package cm is the container manager: it owns the cgroups of pods, of their classes and of all pods together, and knows what
// the node has and what of it pods may have.
//
//	<root>/kubepods                    all pods: limited to capacity less what is reserved
//	<root>/kubepods/pod<uid>           a Guaranteed pod
//	<root>/kubepods/burstable/pod<uid>   cpu weight of the class: the sum of its pods' requests
//	<root>/kubepods/besteffort/pod<uid>  cpu weight of the class: the least there is
//
// Each node has a root of its own, so that several live on one machine; nothing outside of it is touched.
package cm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host"
)

// Config is what a Manager needs.
type Config struct {
	Host   host.Host
	Root   string // the node's own cgroup under which kubepods is made, like "/podo"; "/" is upstream's place
	Driver Driver // "" is Cgroupfs
	// Pods is the limit of all pods together (Machine.ForPods); resources that are missing are not limited.
	Pods v1.ResourceList
	// PodPidsLimit bounds the processes of each pod; 0 and below is no bound.
	PodPidsLimit int64
	// NoCPUQuota turns cpu limits off (cpuCFSQuota: false). QuotaPeriod 0 is upstream's 100 ms.
	NoCPUQuota  bool
	QuotaPeriod time.Duration
	PageSizes   []string // of huge pages, as the kernel names them (Machine.PageSizes)
	// ThrottlingFactor is memoryThrottlingFactor; nil: nobody is slowed down for memory. On cgroup v1 nobody can be.
	ThrottlingFactor *float64
	// Operated is told of each cgroup of a pod, or of pods, that was created, updated or destroyed, well or not; may be nil.
	Operated func(operation string, took time.Duration)
	Logger   *slog.Logger
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Host == nil || c.Logger == nil:
		return errors.New("cm: Host and Logger are needed")
	case !strings.HasPrefix(c.Root, "/"):
		return fmt.Errorf("cm: cgroupRoot %q must begin with a slash", c.Root)
	case c.Driver != "" && c.Driver != Cgroupfs && c.Driver != Systemd:
		return fmt.Errorf("cm: cgroupDriver %q is neither cgroupfs nor systemd", c.Driver)
	}
	return nil
}

// Manager owns the node's cgroups.
type Manager struct {
	c      Config
	layout Layout
	root   Name
	period int64

	// classMu orders the writes of the burstable class's weight; it guards two numbers and one small write to a kernel file.
	classMu  sync.Mutex
	requests map[types.UID]int64 // milli cpus asked for by burstable pods
	weight   uint64              // last written
}

// New detects the layout, makes the cgroups of all pods and of the classes, and adopts those that a former run left: the weight
// of running burstable pods is read back from the kernel.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Driver == "" {
		c.Driver = Cgroupfs
	}
	layout, err := DetectLayout(c.Host)
	if err != nil {
		return nil, err
	}
	m := &Manager{c: c, layout: layout, requests: map[types.UID]int64{}, period: QuotaPeriod}
	if c.QuotaPeriod > 0 {
		m.period = c.QuotaPeriod.Microseconds()
	}
	for part := range strings.SplitSeq(c.Root, "/") {
		if part != "" {
			m.root = append(m.root, part)
		}
	}
	if err := m.setUp(); err != nil {
		return nil, err
	}
	return m, nil
}

// Layout is how the host's cgroups are laid out.
func (m *Manager) Layout() Layout { return m.layout }

// SwapLimited tells whether containers can be kept from swapping: the kernel accounts swap per cgroup.
func (m *Manager) SwapLimited() bool {
	file := path.Join(m.layout.dir("memory", m.c.Driver.Path(className(m.root, v1.PodQOSGuaranteed))), "memory.swap.max")
	if !m.layout.V2 {
		file = path.Join(path.Dir(file), "memory.memsw.limit_in_bytes")
	}
	_, err := m.c.Host.ReadFile(file)
	return err == nil
}

// LimitPods limits all pods together to what they may have. The kernel may refuse that while they use more; then it is called
// again until enough pods have been evicted. New has called it once.
func (m *Manager) LimitPods() error {
	all := className(m.root, v1.PodQOSGuaranteed)
	if err := m.set(m.c.Driver.Path(all), m.podsLimits()); err != nil {
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Failed to update Node Allocatable Limits %q: %w", all, err)
	}
	return nil
}

func (m *Manager) podsLimits() Limits {
	all := Limits{}
	if q, ok := m.c.Pods[v1.ResourceCPU]; ok {
		all.CPUShares = ptr(MilliCPUToShares(q.MilliValue()))
	}
	if q, ok := m.c.Pods[v1.ResourceMemory]; ok {
		all.Memory = ptr(q.Value())
	}
	if q, ok := m.c.Pods[Processes]; ok {
		all.Pids = ptr(q.Value())
	}
	return all
}

func (m *Manager) setUp() error {
	if err := m.apply(className(m.root, v1.PodQOSGuaranteed), Limits{}); err != nil {
		return err
	}
	if err := m.LimitPods(); err != nil {
		m.c.Logger.Warn("the pods together are not held to what they may have", "err", err)
	}
	for _, class := range []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort} {
		if err := m.apply(className(m.root, class), Limits{CPUShares: ptr(uint64(MinShares))}); err != nil {
			return err
		}
	}
	m.weight = MinShares
	return m.adopt()
}

// adopt counts the requests of burstable pods that already run, so that the first new pod does not reset their class's weight.
func (m *Manager) adopt() error {
	dir := m.layout.dir("cpu", m.c.Driver.Path(className(m.root, v1.PodQOSBurstable)))
	names, err := m.c.Host.ChildCgroups(dir)
	if err != nil {
		return fmt.Errorf("look for pods of a former run: %w", err)
	}
	for _, n := range names {
		uid, ok := podUID(n)
		if !ok {
			continue
		}
		b, err := m.c.Host.ReadFile(path.Join(dir, n, "cpu.shares"))
		if err != nil {
			continue // v2's weight does not tell the request; the pod's worker brings it by Ensure
		}
		if shares, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			m.requests[uid] = shares * milliPerCPU / SharesPerCPU
		}
	}
	if len(m.requests) == 0 {
		return nil
	}
	return m.weigh(func() {})
}

// podUID reads a pod's UID from the name of its cgroup's directory, of either driver.
func podUID(name string) (types.UID, bool) {
	if s, ok := strings.CutSuffix(name, ".slice"); ok {
		i := strings.LastIndex(s, "-pod")
		if i < 0 {
			return "", false
		}
		return types.UID(strings.ReplaceAll(s[i+len("-pod"):], "_", "-")), true
	}
	s, ok := strings.CutPrefix(name, "pod")
	return types.UID(s), ok && s != ""
}

// Ensure makes the pod's cgroup, sets its limits, and returns the parent's name for the runtime. It is idempotent: a changed pod
// gets its new limits, unless keep says that an existing cgroup keeps the ones it has.
func (m *Manager) Ensure(_ context.Context, pod *v1.Pod, keep bool) (string, error) {
	defer m.operated("create", time.Now())
	name := podName(m.root, QOS(pod), pod.UID)
	there := false
	if keep {
		_, err := m.c.Host.ChildCgroups(m.layout.dir("cpu", m.c.Driver.Path(name)))
		there = err == nil
	}
	limits := m.Wanted(pod)
	if there {
		limits = Limits{}
	}
	if err := m.apply(name, limits); err != nil {
		return "", err
	}
	return m.c.Driver.Parent(name), m.count(pod)
}

// operated tells what began then, as it ends.
func (m *Manager) operated(operation string, began time.Time) {
	if m.c.Operated != nil {
		m.c.Operated(operation, time.Since(began))
	}
}

// weigh edits the requests and writes the burstable class's weight when that changed it.
func (m *Manager) weigh(edit func()) error {
	m.classMu.Lock()
	defer m.classMu.Unlock()
	edit()
	var sum int64
	for _, milli := range m.requests {
		sum += milli
	}
	shares := MilliCPUToShares(sum)
	if shares == m.weight {
		return nil
	}
	defer m.operated("update", time.Now())
	if err := m.set(m.c.Driver.Path(className(m.root, v1.PodQOSBurstable)), Limits{CPUShares: &shares}); err != nil {
		return err
	}
	m.weight = shares
	return nil
}

// apply makes a cgroup in every hierarchy and sets its limits.
func (m *Manager) apply(name Name, limits Limits) error {
	for i := 1; i <= len(name); i++ {
		if err := m.make(name[:i]); err != nil {
			return fmt.Errorf("make cgroup %s: %w", m.c.Driver.Path(name), err)
		}
	}
	return m.set(m.c.Driver.Path(name), limits)
}

func (m *Manager) set(p string, limits Limits) error {
	for _, w := range m.layout.writes(limits) {
		if err := m.c.Host.WriteControl(m.layout.dir(w.controller, p), w.file, w.value); err != nil {
			return err
		}
	}
	return nil
}

// make makes one cgroup below an existing parent, and passes on what it needs before a process can live in it: on v2 the parent
// must delegate its controllers, on v1 a new cpuset is empty until it is given cpus and memory nodes.
func (m *Manager) make(name Name) error {
	p := m.c.Driver.Path(name)
	for _, dir := range m.layout.dirs(p) {
		if m.layout.V2 {
			enable := "+" + strings.Join(m.layout.has, " +")
			if err := m.c.Host.WriteControl(path.Dir(dir), "cgroup.subtree_control", enable); err != nil {
				return err
			}
		}
		made, err := m.c.Host.MakeCgroup(dir)
		if err != nil {
			return err
		}
		if made && !m.layout.V2 && dir == m.layout.dir("cpuset", p) && m.layout.Has("cpuset") {
			if err := m.inheritCPUSet(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Manager) inheritCPUSet(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := m.c.Host.ReadFile(path.Join(path.Dir(dir), file))
		if err != nil {
			return err
		}
		if err := m.c.Host.WriteControl(dir, file, strings.TrimSpace(string(b))); err != nil {
			return err
		}
	}
	return nil
}
