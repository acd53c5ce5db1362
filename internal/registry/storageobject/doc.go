// Package storageobject has the rules of PersistentVolumes and PersistentVolumeClaims around their specs: what a create, an update and
// a status report may do, and how they are shown. It is pure.
package storageobject

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metaPath   = field.NewPath("metadata")
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// classAnnotation named the storage class before there was a field; where it is given it counts.
const classAnnotation = v1.BetaStorageClassAnnotation

// modes are access modes as columns show them.
func modes(list []v1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  v1.PersistentVolumeAccessMode
		short string
	}{{v1.ReadWriteOnce, "RWO"}, {v1.ReadOnlyMany, "ROX"}, {v1.ReadWriteMany, "RWX"}, {v1.ReadWriteOncePod, "RWOP"}} {
		for _, has := range list {
			if has == m.mode {
				out = append(out, m.short)
				break
			}
		}
	}
	return strings.Join(out, ",")
}

func shown[T ~string](p *T) string {
	if p == nil {
		return "<unset>"
	}
	return string(*p)
}
