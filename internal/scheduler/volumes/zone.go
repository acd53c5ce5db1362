package volumes

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// Zone lets a pod go only to the zones that the labels of its volumes name.
type Zone struct{ s *Storage }

const zoneName = "VolumeZone"

// Name is upstream's.
func (*Zone) Name() string { return zoneName }

var otherZone = &framework.Rejection{Plugin: zoneName, Reasons: []string{"node(s) had no available volume zone"}, Unresolvable: true}

var zoneLabels = []string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion}

var newerLabel = map[string]string{v1.LabelFailureDomainBetaZone: v1.LabelTopologyZone, v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion}

// within is a label of a volume with the values that it allows.
type within struct {
	volume, key string
	values      []string
}

// Relate reads the labels of the pod's volumes.
func (z *Zone) Relate(_ *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil || !slices.ContainsFunc(pod.Object.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		return nil
	}
	out, n := &zones{}, z.s.now()
	for i := range pod.Object.Spec.Volumes {
		v := pod.Object.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil {
			continue
		}
		c, ok := n.claim(pod.Object.Namespace, v.ClaimName)
		if !ok {
			out.refused = refused(zoneName, fmt.Sprintf("persistentvolumeclaim %q not found", v.ClaimName))
			return out
		}
		if c.Spec.VolumeName == "" {
			if out.refused = n.unbound(c); out.refused != nil {
				return out
			}
			continue
		}
		pv, ok := n.volume(c.Spec.VolumeName)
		if !ok {
			out.refused = refused(zoneName, fmt.Sprintf("persistentvolume %q not found", c.Spec.VolumeName))
			return out
		}
		out.within = append(out.within, zonesOf(pv)...)
	}
	if len(out.within) == 0 {
		return nil
	}
	return out
}

// unbound is why a claim without a volume keeps its pod from every node; nil when the claim waits for the pod.
func (n now) unbound(c *v1.PersistentVolumeClaim) *framework.Rejection {
	name := storagehelpers.GetPersistentVolumeClaimClass(c)
	if name == "" {
		return refused(zoneName, "PersistentVolumeClaim had no pv name and storageClass name")
	}
	class, ok := n.class(name)
	switch {
	case !ok:
		return refused(zoneName, fmt.Sprintf("storageclass.storage.k8s.io %q not found", name))
	case class.VolumeBindingMode == nil:
		return refused(zoneName, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", name))
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return refused(zoneName, "PersistentVolume had no name")
	}
	return nil
}

// zonesOf are a volume's zone labels. "__" separates several zones in one value; a value with an empty zone says nothing.
func zonesOf(pv *v1.PersistentVolume) (out []within) {
	for _, key := range zoneLabels {
		if value, ok := pv.Labels[key]; ok {
			values := strings.Split(value, "__")
			for i := range values {
				values[i] = strings.TrimSpace(values[i])
			}
			if !slices.Contains(values, "") {
				out = append(out, within{pv.Name, key, values})
			}
		}
	}
	return out
}

type zones struct {
	quiet
	refused *framework.Rejection
	within  []within
}

func (x *zones) Refused() *framework.Rejection { return x.refused }

func (x *zones) Filter(n *framework.Node) *framework.Rejection {
	if x.outside(n.Object.Labels) != nil {
		return otherZone
	}
	return nil
}

// outside is a label that the node is not within. Nodes without zones are everywhere.
func (x *zones) outside(node map[string]string) *within {
	if !slices.ContainsFunc(zoneLabels, func(key string) bool { _, ok := node[key]; return ok }) {
		return nil
	}
	for i := range x.within {
		w := &x.within[i]
		value, ok := node[w.key]
		if newer := newerLabel[w.key]; !ok && newer != "" {
			value, ok = node[newer]
		}
		if !ok || !slices.Contains(w.values, value) {
			return w
		}
	}
	return nil
}

// Explain tells the volume and where it is.
func (x *zones) Explain(n *framework.Node) []timeline.Field {
	w := x.outside(n.Object.Labels)
	if w == nil {
		return nil
	}
	return timeline.Record{}.With("volume", w.volume).With(w.key, strings.Join(w.values, ",")).Fields
}
