package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/kubelet/objects"
)

// bound is what a persistentVolumeClaim of a pod leads to.
type bound struct {
	claim    objects.Ref
	pv       *v1.PersistentVolume
	readOnly bool // the pod says so
}

// exclusive tells whether only one pod may have the volume.
func (b bound) exclusive() bool { return slices.Contains(b.pv.Spec.AccessModes, v1.ReadWriteOncePod) }

// block tells whether containers are given the device itself.
func (b bound) block() bool {
	return b.pv.Spec.VolumeMode != nil && *b.pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// mode is the volume's mode as messages call it.
func (b bound) mode() v1.PersistentVolumeMode {
	if b.block() {
		return v1.PersistentVolumeBlock
	}
	return v1.PersistentVolumeFilesystem
}

// unprocessed is an error from before anything was tried on the machine: what the volume is could not be found out.
type unprocessed struct{ err error }

func (e *unprocessed) Error() string { return e.err.Error() }
func (e *unprocessed) Unwrap() error { return e.err }

// stepError is a failed step of setting up a persistent volume, which messages then call by its own name.
type stepError struct {
	step string // MountVolume.SetUp failed, ...
	pv   string
	err  error
}

// mapDevice is the step of making a volume available as a device.
const mapDevice = "MapVolume.MapPodDevice failed"

func (e *stepError) Error() string { return fmt.Sprintf("%s for volume %q : %v", e.step, e.pv, e.err) }
func (e *stepError) Unwrap() error { return e.err }

// claimSource is the claim that a volume is, by name or made for the pod; nil when it is none.
func claimSource(pod *v1.Pod, v *v1.Volume) *v1.PersistentVolumeClaimVolumeSource {
	if v.Ephemeral != nil {
		return &v1.PersistentVolumeClaimVolumeSource{ClaimName: ephemeral.VolumeClaimName(pod, v)}
	}
	return v.PersistentVolumeClaim
}

// claimed finds what a claim of the pod leads to, as the API says it now.
func (m *Manager) claimed(pod *v1.Pod, v *v1.Volume) (bound, error) {
	s := claimSource(pod, v)
	b, err := m.lookUp(pod, v, s)
	if err != nil {
		return bound{}, &unprocessed{fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, s.ClaimName, err)}
	}
	for _, c := range containersOf(pod) {
		if !b.block() && slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == v.Name }) {
			return bound{}, &unprocessed{fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", v.Name, b.mode())}
		}
		if b.block() && slices.ContainsFunc(c.VolumeMounts, func(vm v1.VolumeMount) bool { return vm.Name == v.Name }) {
			return bound{}, &unprocessed{fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", v.Name, b.mode())}
		}
	}
	return b, nil
}

func (m *Manager) lookUp(pod *v1.Pod, v *v1.Volume, s *v1.PersistentVolumeClaimVolumeSource) (bound, error) {
	claim, err := m.c.Objects.PersistentVolumeClaim(pod.Namespace, s.ClaimName)
	if err != nil {
		return bound{}, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return bound{}, err
		}
	}
	const protection = "kubernetes.io/pvc-protection" // a claim with this finalizer stays until the pod has gone
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return bound{}, errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return bound{}, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return bound{}, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := m.c.Objects.PersistentVolume(claim.Spec.VolumeName)
	if err != nil {
		return bound{}, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	}
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return bound{}, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case ref.UID != claim.UID:
		return bound{}, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, ref.UID, claim.UID)
	}
	return bound{objects.Ref{Kind: objects.Claim, Namespace: pod.Namespace, Name: s.ClaimName}, pv, s.ReadOnly}, nil
}

// setUpClaim makes the volume of a claim available, and remembers it: for the life of the pod its volume stays the one that it
// began with.
func (m *Manager) setUpClaim(pod *v1.Pod, v *v1.Volume) error {
	b, err := m.claimed(pod, v)
	if err != nil {
		m.followVolume(pod, v)
		return err
	}
	if err := storagehelpers.CheckNodeAffinity(b.pv, m.c.NodeLabels()); err != nil {
		step := "MountVolume.NodeAffinity check failed"
		if b.block() {
			step = "MapVolume.NodeAffinity check failed"
		}
		return &stepError{step, b.pv.Name, err}
	}
	if err := m.take(pod.UID, v.Name, b); err != nil {
		return &stepError{"MountVolume.SetUp failed", b.pv.Name, err}
	}
	switch {
	case b.pv.Spec.HostPath != nil && len(mountOptions(b.pv)) > 0: // nothing is mounted that they could be for
		return &stepError{"MountVolume.MountOptionSupport check failed", b.pv.Name, errors.New("mount options are not supported for this volume type")}
	case b.pv.Spec.HostPath != nil:
		err = checkHostPath(b.pv.Spec.HostPath)
	case b.pv.Spec.Local != nil && b.block():
		return checkDevice(b.pv)
	case b.pv.Spec.Local != nil:
		if err := m.setUpLocal(pod, b); err != nil {
			return err
		}
		err = m.share(pod, v, m.layout.volume(pod.UID, dirLocal, b.pv.Name))
	default:
		err = fmt.Errorf("persistent volumes of this type are not supported yet: use local or hostPath")
	}
	if err != nil {
		return &stepError{"MountVolume.SetUp failed", b.pv.Name, err}
	}
	return nil
}

// take gives the pod a volume, unless another pod has exclusive use of it.
func (m *Manager) take(uid types.UID, volume string, b bound) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.exclusive() {
		for other, e := range m.pods {
			for _, has := range e.claims {
				if other != uid && has.pv.UID == b.pv.UID {
					return errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
				}
			}
		}
	}
	if e := m.pods[uid]; e != nil {
		if e.claims == nil {
			e.claims = map[string]bound{}
		}
		e.claims[volume] = b
	}
	return nil
}

// leave wakes the pods that wait for a volume which a pod had exclusively.
func (m *Manager) leave(claims map[string]bound) {
	for _, b := range claims {
		if !b.exclusive() || m.c.Wake == nil {
			continue
		}
		for uid := range m.usersOf([]objects.Ref{b.claim}) {
			m.c.Wake(uid)
		}
	}
}

// followVolume also wakes the pod when the claim's volume changes.
func (m *Manager) followVolume(pod *v1.Pod, v *v1.Volume) {
	claim, err := m.c.Objects.PersistentVolumeClaim(pod.Namespace, claimSource(pod, v).ClaimName)
	if err != nil || claim.Spec.VolumeName == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.use(objects.Ref{Kind: objects.PersistentVolume, Name: claim.Spec.VolumeName}, pod.UID)
}

// setUpLocal mounts a local volume's directory, or the file system on its device, for the pod.
func (m *Manager) setUpLocal(pod *v1.Pod, b bound) error {
	source, dir := b.pv.Spec.Local, m.layout.volume(pod.UID, dirLocal, b.pv.Name)
	fail := func(err error) error { return &stepError{"MountVolume.SetUp failed", b.pv.Name, err} }
	if m.c.Folder != nil {
		if err := m.c.Folder(b.pv); err != nil {
			return fail(err)
		}
	}
	info, err := os.Stat(source.Path)
	if err != nil {
		return &stepError{"MountVolume.NewMounter initialization failed", b.pv.Name, fmt.Errorf("path %q does not exist", source.Path)}
	}
	if !info.IsDir() && !isBlock(info) {
		return &stepError{"MountVolume.NewMounter initialization failed", b.pv.Name, errors.New("only directory and block device are supported")}
	}
	if mounted, err := m.c.Host.IsMount(dir); err != nil || mounted {
		return err
	}
	others, err := m.others(pod, b.pv.Name)
	if err != nil {
		return fail(err)
	}
	if err := makeDir(dir, 0o750); err != nil {
		return fail(err)
	}
	options := mountOptions(b.pv)
	if b.readOnly {
		options = append(options, "ro")
	}
	if info.IsDir() {
		err = m.c.Host.Mount(source.Path, dir, "", append(options, "bind"))
	} else {
		fsType := "ext4"
		if source.FSType != nil {
			fsType = *source.FSType
		}
		err = m.c.Host.MountDevice(source.Path, dir, fsType, options)
	}
	if err != nil {
		return fail(err)
	}
	if !b.readOnly {
		m.giveLocal(pod, b, dir, others)
	}
	return nil
}

// mountOptions are those of a volume: its annotation's, from before there was a field for them, or the field's.
func mountOptions(pv *v1.PersistentVolume) []string {
	if old, ok := pv.Annotations[v1.MountOptionAnnotation]; ok {
		return strings.Split(old, ",")
	}
	return slices.Clone(pv.Spec.MountOptions)
}

// giveLocal gives a local volume to the pod's group, unless other pods use it, which would lose access. A failure, as on a file
// system without owners, does not keep the pod from the volume.
func (m *Manager) giveLocal(pod *v1.Pod, b bound, dir string, others bool) {
	group := fsGroup(pod)
	if group == nil || onRootMismatch(pod) && owned(dir, group, groupBits(true, false)) {
		return
	}
	if others {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err == nil && int64(st.Gid) != *group {
			m.c.Event(pod, "", v1.EventTypeWarning, "AlreadyMountedVolume", fmt.Sprintf(
				"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", *group, b.pv.Name, st.Gid))
		}
		return
	}
	files, end := m.tellSlow(pod, dir)
	defer end()
	if err := own(dir, group, false, files); err != nil {
		m.c.Logger.Warn("a volume cannot be given to its pod's group", "pod", pod.Namespace+"/"+pod.Name, "volume", b.pv.Name, "err", err)
	}
}

// others tells whether other pods have a local volume mounted.
func (m *Manager) others(pod *v1.Pod, volume string) (bool, error) {
	own := m.layout.volume(pod.UID, dirLocal, volume)
	for _, dir := range m.layout.LocalMounts(volume) {
		if dir == own {
			continue
		}
		if mounted, err := m.c.Host.IsMount(dir); err != nil || mounted {
			return mounted, err
		}
	}
	return false, nil
}

func onRootMismatch(pod *v1.Pod) bool {
	p := pod.Spec.SecurityContext.FSGroupChangePolicy // fsGroup is set: so is this
	return p != nil && *p == v1.FSGroupChangeOnRootMismatch
}

func isBlock(info os.FileInfo) bool { return info.Mode().Type() == os.ModeDevice }

func checkDevice(pv *v1.PersistentVolume) error {
	info, err := os.Stat(pv.Spec.Local.Path)
	if err == nil && !isBlock(info) {
		err = fmt.Errorf("%s is not a block device", pv.Spec.Local.Path)
	}
	if err != nil {
		return &stepError{mapDevice, pv.Name, err}
	}
	return nil
}

// Device is the block device that a volume of the pod is, and whether containers may only read it.
func (m *Manager) Device(pod *v1.Pod, volume string) (path string, readOnly bool, err error) {
	v := volumeOf(pod, volume)
	if v == nil || claimSource(pod, v) == nil {
		return "", false, fmt.Errorf("the pod has no claim %q", volume)
	}
	b, err := m.has(pod, v)
	if err != nil {
		return "", false, err
	}
	if !b.block() || b.pv.Spec.Local == nil {
		return "", false, fmt.Errorf("volume %q is no block device", volume)
	}
	path, err = filepath.EvalSymlinks(b.pv.Spec.Local.Path)
	return path, b.readOnly, err
}

// has is the volume that a claim of the pod led to when it was set up; after a restart, the one that it leads to now.
func (m *Manager) has(pod *v1.Pod, v *v1.Volume) (bound, error) {
	m.mu.Lock()
	e := m.pods[pod.UID]
	var b bound
	var ok bool
	if e != nil {
		b, ok = e.claims[v.Name]
	}
	m.mu.Unlock()
	if ok {
		return b, nil
	}
	return m.claimed(pod, v)
}

// claimPath is where a claim's volume is on the host.
func (m *Manager) claimPath(pod *v1.Pod, v *v1.Volume) (path string, readOnly bool, err error) {
	b, err := m.has(pod, v)
	switch {
	case err != nil:
		return "", false, err
	case b.pv.Spec.HostPath != nil:
		return b.pv.Spec.HostPath.Path, b.readOnly, nil
	case b.pv.Spec.Local != nil && !b.block():
		return m.layout.volume(pod.UID, dirLocal, b.pv.Name), b.readOnly, nil
	}
	return "", false, fmt.Errorf("volume %q cannot be mounted", v.Name)
}
