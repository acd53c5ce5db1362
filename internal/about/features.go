package about

import (
	_ "embed"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// features are upstream's gates at their defaults, by which the API is served (registry/gate): a line "name stage on|off" each, - for what is
// no longer in a stage. test/conformance/policy writes and compares it.
//
//go:embed features.txt
var features string

// gates makes its metrics of the text when somebody looks: nothing is held for them.
type gates struct{}

var enabled = prometheus.NewDesc("kubernetes_feature_enabled", "[BETA] Whether a feature gate is on, and the stage that the feature is in.",
	[]string{"name", "stage"}, nil)

// Describe implements prometheus.Collector.
func (gates) Describe(ch chan<- *prometheus.Desc) { ch <- enabled }

// Collect implements prometheus.Collector.
func (gates) Collect(ch chan<- prometheus.Metric) {
	for line := range strings.Lines(features) {
		words := strings.Fields(line)
		value := 0.0
		if words[2] == "on" {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(enabled, prometheus.GaugeValue, value, words[0], strings.TrimPrefix(words[1], "-"))
	}
}
