package about

import "github.com/prometheus/client_golang/prometheus"

// Native has a histogram kept in buckets that follow what is observed too, as upstream keeps all of its own (NativeHistograms): who asks for
// metrics in protobuf is told both. Two buckets stand for each doubling where upstream has eight, up to 40 for its 160: one series takes 4 kB
// so, where it would take 9, and there are hundreds of them in a process that means to be small.
func Native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.5, 40
	return o
}
