package probe

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/podlife"
)

func TestProbesAreCountedWhileTheyRun(t *testing.T) {
	bubble(t, func(b *bench) {
		scrape := func() string {
			w := httptest.NewRecorder()
			b.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics/probes", nil))
			return w.Body.String()
		}
		c := &v1.Container{Name: "a", ReadinessProbe: probe("ready", 2, 2)}
		b.answer["ready"] = func(n int) (Result, error) { return Result{OK: n > 1}, nil }
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(7 * time.Second) // at 0, 2, 4 and 6
		got := scrape()
		for _, want := range []string{
			`prober_probe_total{container="a",namespace="ns",pod="p",pod_uid="u",probe_type="Readiness",result="failed"} `,
			`prober_probe_total{container="a",namespace="ns",pod="p",pod_uid="u",probe_type="Readiness",result="successful"} `,
			`prober_probe_duration_seconds_count{container="a",namespace="ns",pod="p",probe_type="Readiness"} `,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is missing in\n%s", want, got)
			}
		}
		b.SetProbes(b.pod, c, "id", "ip", podlife.NoProbes)
		settle(0)
		if got := scrape(); strings.Contains(got, `container="a"`) {
			t.Errorf("of a probe that does not run any more:\n%s", got)
		}
	})
}
