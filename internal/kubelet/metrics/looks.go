package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/worker"
)

// Looks are the sources that are asked at each scrape; those that are nil are left out.
type Looks struct {
	// Volumes tells of each volume that is wanted, and of each that is there (volume.Manager).
	Volumes func(tell func(plugin, state string))
	// Certificates tells of each certificate of a pod (podcert.Manager).
	Certificates func(tell func(signer, state string))
	// Records are how many pulls, and pulled images, are on record (pulled.Records).
	Records func() (pulling, pulled int)
	// LogBytes is what the logs of a pod's container take.
	LogBytes func(pod *v1.Pod, container string) int64
}

var (
	volumes = prometheus.NewDesc("volume_manager_total_volumes", alpha+"Number of volumes in Volume Manager",
		[]string{"plugin_name", "state"}, nil)
	certificates = prometheus.NewDesc("kubelet_podcertificate_states",
		alpha+"Gauge vector reporting the number of pod certificate projected volume sources, faceted by signer_name and state.",
		[]string{"signer_name", "state"}, nil)
	pulling = prometheus.NewDesc("kubelet_imagemanager_ondisk_pullintents", alpha+"Number of ImagePullIntents stored on disk.", nil, nil)
	pulled  = prometheus.NewDesc("kubelet_imagemanager_ondisk_pulledrecords", alpha+"Number of ImagePulledRecords stored on disk.", nil, nil)
	logs    = prometheus.NewDesc("kubelet_container_log_filesystem_used_bytes",
		alpha+"Bytes used by the container's logs on the filesystem.", []string{"uid", "namespace", "pod", "container"}, nil)

	looks = []*prometheus.Desc{volumes, certificates, pulling, pulled, logs}
)

func (m *Metrics) look(out chan<- prometheus.Metric) {
	for d, each := range map[*prometheus.Desc]func(func(a, b string)){volumes: m.Volumes, certificates: m.Certificates} {
		if each == nil {
			continue
		}
		n := map[[2]string]float64{}
		each(func(a, b string) { n[[2]string{a, b}]++ })
		for labels, n := range n {
			tell(out, d, n, labels[:]...)
		}
	}
	if m.Records != nil {
		under, done := m.Records()
		tell(out, pulling, float64(under))
		tell(out, pulled, float64(done))
	}
	if m.LogBytes == nil || m.Pods == nil {
		return
	}
	for _, p := range m.Pods() {
		for _, c := range inRun(&p) {
			tell(out, logs, float64(m.LogBytes(p.Pod, c)), string(p.Pod.UID), p.Pod.Namespace, p.Pod.Name, c)
		}
	}
}

// inRun are a pod's containers that run.
func inRun(p *worker.Snapshot) (names []string) {
	st := p.Status()
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				names = append(names, list[i].Name)
			}
		}
	}
	return names
}
