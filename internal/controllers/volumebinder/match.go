package volumebinder

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Match finds the volume for a claim: one that is meant for it already, or else the smallest of those with the fewest access modes; nil
// when there is none. delayed says that nothing is taken for it until a pod has a node.
func Match(c *v1.PersistentVolumeClaim, volumes []*v1.PersistentVolume, delayed bool) (*v1.PersistentVolume, error) {
	byModes := map[int][]*v1.PersistentVolume{} // by how many modes a volume has
	var counts []int
	for _, pv := range volumes {
		if !storagehelpers.CheckAccessModes(c, pv) {
			continue
		}
		n := len(distinct(pv.Spec.AccessModes))
		if byModes[n] == nil {
			counts = append(counts, n)
		}
		byModes[n] = append(byModes[n], pv)
	}
	slices.Sort(counts)
	for _, n := range counts {
		if pv, err := storagehelpers.FindMatchingVolume(c, byModes[n], nil, nil, delayed, true); pv != nil || err != nil {
			return pv, err
		}
	}
	return nil, nil
}

func distinct(modes []v1.PersistentVolumeAccessMode) []v1.PersistentVolumeAccessMode {
	out := slices.Clone(modes)
	slices.Sort(out)
	return slices.Compact(out)
}

// suits says why a volume that a claim names cannot be its.
func suits(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) error {
	size, asked := pv.Spec.Capacity[v1.ResourceStorage], c.Spec.Resources.Requests[v1.ResourceStorage]
	switch {
	case pv.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", pv.Name)
	case size.Value() < asked.Value():
		return errors.New("requested PV is too small")
	case storagehelpers.GetPersistentVolumeClass(pv) != storagehelpers.GetPersistentVolumeClaimClass(c):
		return errors.New("storageClassName does not match")
	case orEmpty(pv.Spec.VolumeAttributesClassName) != orEmpty(c.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case storagehelpers.CheckVolumeModeMismatches(&c.Spec, &pv.Spec):
		return errors.New("incompatible volumeMode")
	case !storagehelpers.CheckAccessModes(c, pv):
		return errors.New("incompatible accessMode")
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
