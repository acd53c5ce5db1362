package volume

import (
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Layout is where pods' files are under the kubelet's root, as upstream lays them down:
//
//	<root>/pods/<uid>/volumes/kubernetes.io~<type>/<name>           a volume
//	<root>/pods/<uid>/volume-subpaths/<name>/<container>/<index>    what a subPath leads to, pinned by a bind mount
//	<root>/pods/<uid>/containers/<container>/<id>                   a termination message
//	<root>/pods/<uid>/etc-hosts
type Layout struct{ Root string }

// Pods is the directory of all pods.
func (l Layout) Pods() string { return filepath.Join(l.Root, "pods") }

// Pod is a pod's directory.
func (l Layout) Pod(uid types.UID) string { return filepath.Join(l.Pods(), string(uid)) }

// Container is a container's directory.
func (l Layout) Container(uid types.UID, container string) string {
	return filepath.Join(l.Pod(uid), "containers", container)
}

// EmptyDir is an emptyDir's directory.
func (l Layout) EmptyDir(uid types.UID, volume string) string {
	return l.volume(uid, dirEmptyDir, volume)
}

func (l Layout) volume(uid types.UID, kind, name string) string {
	return filepath.Join(l.Pod(uid), "volumes", "kubernetes.io~"+kind, name)
}

func (l Layout) subPath(uid types.UID, volume, container, index string) string {
	return filepath.Join(l.Pod(uid), "volume-subpaths", volume, container, index)
}

// LocalMounts are where pods have a local volume of that name mounted, or did until they were cleaned away.
func (l Layout) LocalMounts(volume string) []string {
	found, _ := filepath.Glob(filepath.Join(l.Pods(), "*", "volumes", "kubernetes.io~"+dirLocal, volume))
	return found
}

// directory names of the types.
const (
	dirEmptyDir  = "empty-dir"
	dirConfigMap = "configmap"
	dirSecret    = "secret"
	dirDownward  = "downward-api"
	dirProjected = "projected"
	dirLocal     = "local-volume"
)

// where says where a volume is on the host, and whether containers may only read it. ok is false for a type that is not
// supported.
func (l Layout) where(uid types.UID, v *v1.Volume) (path string, readOnly, ok bool) {
	switch {
	case v.EmptyDir != nil:
		return l.volume(uid, dirEmptyDir, v.Name), false, true
	case v.HostPath != nil:
		return v.HostPath.Path, false, true
	case v.ConfigMap != nil:
		return l.volume(uid, dirConfigMap, v.Name), true, true
	case v.Secret != nil:
		return l.volume(uid, dirSecret, v.Name), true, true
	case v.DownwardAPI != nil:
		return l.volume(uid, dirDownward, v.Name), true, true
	case v.Projected != nil:
		return l.volume(uid, dirProjected, v.Name), true, true
	}
	return "", false, false
}

// below tells whether path is inside dir.
func below(dir, path string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
