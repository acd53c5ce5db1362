package volumebinder

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/view"
)

// census counts volumes and claims when it is asked, under the names of upstream's metrics.
type census struct {
	view                                               *view.View
	all, boundVolumes, freeVolumes, boundClaims, opens *prometheus.Desc
}

func newCensus(v *view.View) *census {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pv_collector_"+name, help, labels, nil)
	}
	ofClaim := []string{"namespace", "storage_class", "volume_attributes_class"}
	return &census{
		view:         v,
		all:          desc("total_pv_count", "Volumes.", "plugin_name", "volume_mode"),
		boundVolumes: desc("bound_pv_count", "Volumes that are bound.", "storage_class"),
		freeVolumes:  desc("unbound_pv_count", "Volumes that are not bound.", "storage_class"),
		boundClaims:  desc("bound_pvc_count", "Claims that are bound.", ofClaim...),
		opens:        desc("unbound_pvc_count", "Claims that are not bound.", ofClaim...),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *census) Collect(ch chan<- prometheus.Metric) {
	type row struct {
		of     *prometheus.Desc
		labels [3]string
	}
	counts, widths := map[row]int{}, map[*prometheus.Desc]int{c.all: 2, c.boundVolumes: 1, c.freeVolumes: 1, c.boundClaims: 3, c.opens: 3}
	s := c.view.Snapshot()
	for e := range s.All(volumes, "", view.Key{}) {
		pv := e.Object.(*v1.PersistentVolume)
		mode := v1.PersistentVolumeFilesystem
		if pv.Spec.VolumeMode != nil {
			mode = *pv.Spec.VolumeMode
		}
		counts[row{c.all, [3]string{plugin(pv), string(mode)}}]++
		of := c.freeVolumes
		if pv.Status.Phase == v1.VolumeBound {
			of = c.boundVolumes
		}
		counts[row{of, [3]string{pv.Spec.StorageClassName}}]++
	}
	for e := range s.All(claims, "", view.Key{}) {
		pvc := e.Object.(*v1.PersistentVolumeClaim)
		attributes := ""
		if name := pvc.Spec.VolumeAttributesClassName; name != nil {
			attributes = *name
		}
		of := c.opens
		if pvc.Status.Phase == v1.ClaimBound {
			of = c.boundClaims
		}
		counts[row{of, [3]string{pvc.Namespace, storagehelpers.GetPersistentVolumeClaimClass(pvc), attributes}}]++
	}
	for r, n := range counts {
		ch <- prometheus.MustNewConstMetric(r.of, prometheus.GaugeValue, float64(n), r.labels[:widths[r.of]]...)
	}
}

// plugin is what serves a volume, as upstream calls it. What no plug-in of upstream's controllers serves has none.
func plugin(pv *v1.PersistentVolume) string {
	name := ""
	switch src := pv.Spec.PersistentVolumeSource; {
	case src.HostPath != nil:
		name = hostPath
	case src.Local != nil:
		name = "kubernetes.io/local-volume"
	case src.NFS != nil:
		name = "kubernetes.io/nfs"
	case src.CSI != nil:
		name = "kubernetes.io/csi:" + src.CSI.Driver
	}
	return cmp.Or(name, "N/A")
}
