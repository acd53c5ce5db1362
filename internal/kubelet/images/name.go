package images

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// WholeName is what the runtime calls an image: with its registry and its digest or, where it has none, a tag. What is no image name stays as it
// is.
func WholeName(image string) string {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return image
	}
	return named.String()
}

// normalize checks an image's name and gives it the tag "latest" when it has neither tag nor digest. A short name stays short:
// which registry it means is the runtime's to say. repo is the full name without tag and digest, for finding credentials.
func normalize(image string) (name, repo string, err error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	_, tagged := named.(reference.Tagged)
	_, digested := named.(reference.Digested)
	if !tagged && !digested && !strings.HasSuffix(image, ":latest") {
		image += ":latest"
	}
	return image, named.Name(), nil
}
