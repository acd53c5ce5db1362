package stats

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
)

// What a claim uses is told once, however many pods mount it, and of claims alone.
func TestClaims(t *testing.T) {
	s := source(t, &fakeRuntime{cpu: 2, at: 7})
	dir := filepath.Join(s.cfg.Volumes("uid-p"), "kubernetes.io~local-volume", "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := s.cfg.Pod("ns", "p")
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "mine"},
	}})
	other := pod.DeepCopy()
	other.UID = "other"
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(s.Claims(func() []*v1.Pod { return []*v1.Pod{s.cfg.Pod("ns", "p"), pod, other} }))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := w.Body.String()
	for _, name := range []string{"capacity_bytes", "available_bytes", "inodes", "inodes_free", "inodes_used"} {
		if line := "\nkubelet_volume_stats_" + name + `{namespace="ns",persistentvolumeclaim="mine"} `; strings.Count(got, line) != 1 {
			t.Errorf("%s: %d times in\n%s", line, strings.Count(got, line), got)
		}
	}
	if line := `kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="mine"} 1.0`; strings.Count(got, line) != 1 {
		t.Errorf("%s is missing in\n%s", line, got)
	}
}
