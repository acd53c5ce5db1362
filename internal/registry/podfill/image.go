package podfill

import (
	_ "crypto/sha256" // of the digests in references
	_ "crypto/sha512"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

// pullPolicy is Always for images whose tag is "latest" by word or by default, and IfNotPresent for all others.
//
// An image that cannot be parsed counts as one without the tag "latest", as upstream has it.
func pullPolicy(image string) v1.PullPolicy {
	// Another tag and no digest: whatever the parser makes of it. It takes longer than all other defaults of a pod together.
	if tag := image[strings.LastIndexAny(image, ":/")+1:]; strings.HasSuffix(image, ":"+tag) && tag != "latest" && !strings.Contains(image, "@") {
		return v1.PullIfNotPresent
	}
	return parsedPolicy(image)
}

func parsedPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	if t, ok := named.(reference.Tagged); ok && t.Tag() == "latest" || reference.IsNameOnly(named) {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
