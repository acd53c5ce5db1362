package about

import "github.com/prometheus/client_golang/prometheus"

// Native has a histogram kept in buckets that follow what is observed too, as upstream keeps all of its own (NativeHistograms): who asks for
// metrics in protobuf is told both.
func Native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
	return o
}
