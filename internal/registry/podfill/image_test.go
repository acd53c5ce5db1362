package podfill

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestPullPolicy(t *testing.T) {
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for image, want := range map[string]v1.PullPolicy{
		"a":                     v1.PullAlways,
		"a:latest":              v1.PullAlways,
		"host:5000/a":           v1.PullAlways,
		"a:latest" + digest:     v1.PullAlways,
		"host:5000/a:latest":    v1.PullAlways,
		"a:1":                   v1.PullIfNotPresent,
		"host:5000/a:1":         v1.PullIfNotPresent,
		"a" + digest:            v1.PullIfNotPresent,
		"a:1" + digest:          v1.PullIfNotPresent,
		"a:":                    v1.PullIfNotPresent,
		"A:latest":              v1.PullIfNotPresent,
		"":                      v1.PullIfNotPresent,
		"a:latest@sha256:short": v1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

// What is told without the parser is what the parser says.
func TestPullPolicyIsTheParsers(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"a", "A", "0", "latest", ":", "/", "@", ".", "-", "_", " ", "localhost", "5000", "sha256",
		"0123456789012345678901234567890123456789012345678901234567890123",
	})
	rapid.Check(t, func(t *rapid.T) {
		image := ""
		for _, p := range rapid.SliceOfN(part, 0, 8).Draw(t, "parts") {
			image += p
		}
		if got, want := pullPolicy(image), parsedPolicy(image); got != want {
			t.Fatalf("%q: %s, want %s", image, got, want)
		}
	})
}
