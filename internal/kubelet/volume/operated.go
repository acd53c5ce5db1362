package volume

import (
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plugins is where upstream's names of the types of volumes begin.
const plugins = "kubernetes.io/"

// plugin is upstream's name of a volume's type, "" for a claim without a volume; block says that containers have it as a device.
func (m *Manager) plugin(pod *v1.Pod, v *v1.Volume) (name string, block bool) {
	switch {
	case v.HostPath != nil:
		return plugins + "host-path", false
	case v.Image != nil:
		return plugins + "image", false
	case claimSource(pod, v) == nil:
		dir, _, _ := m.layout.where(pod.UID, v)
		return kindAt(dir), false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil {
		return "", false
	}
	switch b, ok := e.claims[v.Name]; {
	case ok && b.pv.Spec.HostPath != nil:
		return plugins + "host-path", false
	case ok && b.pv.Spec.Local != nil:
		return plugins + dirLocal, b.block()
	}
	return "", false
}

// kindAt is the type of a volume that has a folder of its own among its pod's.
func kindAt(dir string) string {
	kind, ok := strings.CutPrefix(filepath.Base(filepath.Dir(dir)), "kubernetes.io~")
	if !ok {
		return ""
	}
	return plugins + kind
}

// kinds are the types of the volumes that a pod has on the disk, each once.
func (l Layout) kinds(uid types.UID) (kinds []string) {
	dirs, _ := filepath.Glob(filepath.Join(l.Pod(uid), "volumes", "kubernetes.io~*", "*"))
	for _, dir := range dirs {
		kinds = append(kinds, kindAt(dir))
	}
	return kinds
}

func (m *Manager) mounted(pod *v1.Pod, v *v1.Volume, began time.Time, err error) {
	kind, block := m.plugin(pod, v)
	operation := "volume_mount"
	if block {
		operation = "map_volume"
	}
	if kind != "" {
		m.c.Operated(kind, operation, m.c.Now().Sub(began), err)
	}
}

// unmounted reports the operation for each of a pod's volumes. They are unmounted together, so each gets the whole duration.
func (m *Manager) unmounted(kinds []string, began time.Time, err error) {
	for _, kind := range kinds {
		m.c.Operated(kind, "volume_unmount", m.c.Now().Sub(began), err)
	}
}

// Count reports every volume of the known pods: once in the desired state if it is wanted, and once in the actual state if it is
// mounted.
func (m *Manager) Count(tell func(plugin, state string)) {
	type volume struct {
		pod   *v1.Pod
		v     *v1.Volume
		there bool
	}
	var all []volume
	m.mu.Lock()
	for _, e := range m.pods {
		if e.pod == nil {
			continue
		}
		for _, v := range usedVolumes(e.pod) {
			all = append(all, volume{e.pod, v, e.absent != nil && !e.absent[v.Name]})
		}
	}
	m.mu.Unlock()
	for _, a := range all {
		kind, _ := m.plugin(a.pod, a.v)
		if kind == "" {
			continue
		}
		tell(kind, "desired_state_of_world")
		if a.there {
			tell(kind, "actual_state_of_world")
		}
	}
}
