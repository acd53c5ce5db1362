package podfill

import (
	_ "crypto/sha256" // of the digests in references
	_ "crypto/sha512"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

// pullPolicy is Always for images whose tag is "latest" by word or by default, and IfNotPresent for all others.
//
// An image that cannot be parsed counts as one without the tag "latest", as upstream has it.
func pullPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	if t, ok := named.(reference.Tagged); ok && t.Tag() == "latest" || reference.IsNameOnly(named) {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
