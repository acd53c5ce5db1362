package metrics

import (
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ImageCollected counts an image that was removed, by what for: age or space.
func (m *Metrics) ImageCollected(reason string) { m.imagesCollected.WithLabelValues(reason).Inc() }

// ImageAsked counts an image that a container needs; nil is what was not found out.
func (m *Metrics) ImageAsked(policy v1.PullPolicy, present, needed *bool) {
	word := func(b *bool) string {
		if b == nil {
			return "unknown"
		}
		return strconv.FormatBool(*b)
	}
	m.imagesAsked.WithLabelValues(strings.ToLower(string(policy)), word(present), word(needed)).Inc()
}

// ImageChecked counts the checks whether a pod may use an image that is present, by their result.
func (m *Metrics) ImageChecked(result string) { m.imageChecks.WithLabelValues(result).Inc() }

// ImagePulled counts a pull that succeeded.
func (m *Metrics) ImagePulled(size uint64, took time.Duration) {
	m.imagePull.WithLabelValues(sizeBucket(size)).Observe(took.Seconds())
}

// sizeBucket is what upstream calls an image's size.
func sizeBucket(size uint64) string {
	const mb, gb = 1 << 20, 1 << 30
	name := "0-10MB"
	for _, b := range []struct {
		from uint64
		name string
	}{
		{10 * mb, "10MB-100MB"},
		{100 * mb, "100MB-500MB"},
		{500 * mb, "500MB-1GB"},
		{gb, "1GB-5GB"},
		{5 * gb, "5GB-10GB"},
		{10 * gb, "10GB-20GB"},
		{20 * gb, "20GB-30GB"},
		{30 * gb, "30GB-40GB"},
		{40 * gb, "40GB-60GB"},
		{60 * gb, "60GB-100GB"},
		{100 * gb, "GT100GB"},
	} {
		if size >= b.from {
			name = b.name
		}
	}
	return name
}

// ImageVolume counts an image that a container wants as a volume.
func (m *Metrics) ImageVolume(err error) {
	m.imageVolumesRequested.Inc()
	if err != nil {
		m.imageVolumesFailed.Inc()
	} else {
		m.imageVolumesMounted.Inc()
	}
}
