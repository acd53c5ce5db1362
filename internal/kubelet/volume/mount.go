package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/kubelet/cm"
)

// setUp makes one volume available; it is there already when that was done before.
func (m *Manager) setUp(ctx context.Context, pod *v1.Pod, v *v1.Volume) error {
	dir, readOnly, ok := m.layout.where(pod.UID, v)
	switch {
	case v.Image != nil:
		return nil // the runtime mounts it into the containers
	case claimSource(pod, v) != nil:
		return m.setUpClaim(pod, v)
	case !ok:
		return unsupported(v)
	case v.HostPath != nil:
		return checkHostPath(v.HostPath)
	case v.EmptyDir != nil:
		if err := m.setUpEmptyDir(pod, v, dir); err != nil {
			return err
		}
		return m.share(pod, v, dir)
	}
	if err := makeDir(dir, 0o777); err != nil {
		return err
	}
	// What must not reach a disk is in memory, and so is what a pod is told about itself, as upstream has it.
	if v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil {
		if err := m.memory(pod, nil, dir); err != nil {
			return err
		}
	}
	if err := m.show(ctx, pod, v); err != nil {
		return err
	}
	group := fsGroup(pod)
	if owned(dir, group, groupBits(true, readOnly)) {
		return nil
	}
	return own(dir, group, readOnly, nil)
}

// show writes what the API objects say now into a volume that is set up.
func (m *Manager) show(ctx context.Context, pod *v1.Pod, v *v1.Volume) error {
	p, err := m.maker.make(ctx, pod, v)
	if err != nil {
		return err
	}
	dir, readOnly, _ := m.layout.where(pod.UID, v)
	return writeAtomically(dir, p, m.c.Now(), replacedStays(pod, v.Name), func(fresh string) error { return own(fresh, fsGroup(pod), readOnly, nil) })
}

// startTime is how long a container may take from the making of its configuration until it has its mounts.
const startTime = 5 * time.Minute

// replacedStays is how long a replaced version of a volume must stay: not at all where no container mounts a part of the volume.
func replacedStays(pod *v1.Pod, volume string) time.Duration {
	parts := func(mounts []v1.VolumeMount) bool {
		return slices.ContainsFunc(mounts, func(m v1.VolumeMount) bool { return m.Name == volume && (m.SubPath != "" || m.SubPathExpr != "") })
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if slices.ContainsFunc(list, func(c v1.Container) bool { return parts(c.VolumeMounts) }) {
			return startTime
		}
	}
	return 0
}

// share makes a volume a shared mount of its own where a container's mountPropagation asks for that: on a machine without systemd
// the mounts around it may be private.
func (m *Manager) share(pod *v1.Pod, v *v1.Volume, dir string) error {
	asks := func(c *v1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(vm v1.VolumeMount) bool {
			return vm.Name == v.Name && vm.MountPropagation != nil && *vm.MountPropagation != v1.MountPropagationNone
		})
	}
	if !slices.ContainsFunc(containersOf(pod), asks) {
		return nil
	}
	mounted, err := m.c.Host.IsMount(dir)
	if err == nil && !mounted {
		err = m.c.Host.Mount(dir, dir, "", []string{"bind"})
	}
	if err != nil {
		return err
	}
	return m.c.Host.Mount("", dir, "", []string{"rshared"})
}

func (m *Manager) setUpEmptyDir(pod *v1.Pod, v *v1.Volume, dir string) error {
	if err := makeDir(dir, 0o777); err != nil {
		return err
	}
	switch medium := v.EmptyDir.Medium; {
	case medium == v1.StorageMediumMemory:
		if err := m.memory(pod, v.EmptyDir.SizeLimit, dir); err != nil {
			return err
		}
	case strings.HasPrefix(string(medium), string(v1.StorageMediumHugePages)):
		if err := m.hugePages(pod, medium, dir); err != nil {
			return err
		}
	case medium != v1.StorageMediumDefault:
		return fmt.Errorf("unknown storage medium %q", medium)
	}
	group := fsGroup(pod)
	if owned(dir, group, fs.ModeSetgid) { // its containers may have changed its mode, and their files' modes are theirs
		return nil
	}
	return own(dir, group, false, nil)
}

// memory mounts a file system in memory on dir. Its size is the least of the volume's limit, the pod's memory limit and what
// the node can give.
func (m *Manager) memory(pod *v1.Pod, limit *resource.Quantity, dir string) error {
	if mounted, err := m.c.Host.IsMount(dir); err != nil || mounted {
		return err
	}
	size := int64(0)
	least := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	least(m.c.MemoryAllocatable())
	if l := cm.PodLimits(pod, false, cm.QuotaPeriod).Memory; l != nil {
		least(*l)
	}
	if limit != nil {
		least(limit.Value())
	}
	var options []string
	if size > 0 {
		options = []string{"size=" + strconv.FormatInt(size, 10)}
	}
	return m.mountMemory(dir, options)
}

// mountMemory keeps the volume's content out of swap where the kernel can.
func (m *Manager) mountMemory(dir string, options []string) error {
	if !m.swaps.Load() {
		err := m.c.Host.Mount("tmpfs", dir, "tmpfs", append(slices.Clip(options), "noswap"))
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
		if m.swaps.CompareAndSwap(false, true) { // the kernel is older than 6.4, or this process is not its root
			m.c.Swapped()
		}
	}
	return m.c.Host.Mount("tmpfs", dir, "tmpfs", options)
}

// hugePages mounts huge pages of the size that the medium names, or of the only size that the pod asks for.
func (m *Manager) hugePages(pod *v1.Pod, medium v1.StorageMedium, dir string) error {
	if mounted, err := m.c.Host.IsMount(dir); err != nil || mounted {
		return err
	}
	size, err := pageSize(pod, medium)
	if err != nil {
		return err
	}
	return m.c.Host.Mount("nodev", dir, "hugetlbfs", []string{"pagesize=" + size.String()})
}

func pageSize(pod *v1.Pod, medium v1.StorageMedium) (found resource.Quantity, err error) {
	name, named := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	var want resource.Quantity
	if named {
		if want, err = resource.ParseQuantity(name); err != nil {
			return found, fmt.Errorf("medium %q: %w", medium, err)
		}
	}
	var asked []v1.ResourceList
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		asked = append(asked, pod.Spec.Resources.Requests)
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			asked = append(asked, list[i].Resources.Requests)
		}
	}
	for _, requests := range asked {
		for name := range requests {
			s, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			size, err := resource.ParseQuantity(s)
			switch {
			case !ok, named && want.Cmp(size) != 0:
			case err != nil:
				return found, err
			case !named && !found.IsZero() && found.Cmp(size) != 0:
				return found, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
			default:
				found = size
			}
		}
	}
	if found.IsZero() {
		return found, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}

// makeDir makes a volume's directory with exactly this mode, whatever the umask; one that is there keeps its own.
func makeDir(dir string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, mode)
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// unsupported is why a volume cannot be had whose type this node does not mount. Upstream's words are used where upstream does not mount it
// either: without the CSI driver, without the plug-in of a FlexVolume, and of types that upstream has given up.
func unsupported(v *v1.Volume) error {
	switch {
	case v.GitRepo != nil:
		return errors.New("git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`")
	case v.CSI != nil:
		return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name %s not found in the list of registered CSI drivers", v.CSI.Driver)
	case v.FlexVolume != nil, v.Glusterfs != nil, v.RBD != nil, v.CephFS != nil, v.Flocker != nil, v.Quobyte != nil, v.ScaleIO != nil, v.StorageOS != nil:
		return &unprocessed{fmt.Errorf("failed to get Plugin from volumeSpec for volume %q err=no volume plugin matched", v.Name)}
	}
	return fmt.Errorf("volumes of type %s are not supported yet", kindOf(v))
}

// kindOf names the type of a volume by its field.
func kindOf(v *v1.Volume) string {
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "this"
}
