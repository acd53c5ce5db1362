package pulled

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/kubelet/config/v1beta1"
)

// Policy says for which images that are present a pod must prove that it may pull them (imagePullCredentialsVerificationPolicy).
type Policy struct {
	kind    v1beta1.ImagePullCredentialsVerificationPolicy
	names   map[string]bool
	folders []string // each ends with a slash
}

// NewPolicy reads the configuration's two fields. Errors name the field.
func NewPolicy(kind v1beta1.ImagePullCredentialsVerificationPolicy, allowed []string) (Policy, error) {
	p := Policy{kind: kind, names: map[string]bool{}}
	switch kind {
	case v1beta1.NeverVerify, v1beta1.NeverVerifyPreloadedImages, v1beta1.AlwaysVerify:
		if len(allowed) > 0 {
			return p, fmt.Errorf("preloadedImagesVerificationAllowlist: can't set for %q imagePullCredentialsVerificationPolicy", kind)
		}
	case v1beta1.NeverVerifyAllowlistedImages:
		if len(allowed) == 0 {
			return p, fmt.Errorf("preloadedImagesVerificationAllowlist: must contain at least one item when the policy is %s", kind)
		}
	default:
		return p, fmt.Errorf("imagePullCredentialsVerificationPolicy: %q must be %s, %s, %s or %s", kind,
			v1beta1.NeverVerify, v1beta1.NeverVerifyPreloadedImages, v1beta1.NeverVerifyAllowlistedImages, v1beta1.AlwaysVerify)
	}
	for _, pattern := range allowed {
		if err := p.allow(pattern); err != nil {
			return p, fmt.Errorf("preloadedImagesVerificationAllowlist: %w", err)
		}
	}
	return p, nil
}

func (p *Policy) allow(pattern string) error {
	if pattern != strings.TrimSpace(pattern) {
		return fmt.Errorf("leading/trailing spaces are not allowed: %s", pattern)
	}
	folder, isFolder := strings.CutSuffix(pattern, "*")
	isFolder = isFolder && strings.HasSuffix(folder, "/")
	switch {
	case pattern == "":
		return fmt.Errorf("the supplied pattern is too short: %s", pattern)
	case isFolder && folder == "/":
		return fmt.Errorf("at least registry hostname is required")
	case isFolder && strings.Contains(folder, "*"), !isFolder && strings.Contains(pattern, "*"):
		return fmt.Errorf("not a valid wildcard pattern, only patterns ending with '/*' are allowed: %s", pattern)
	case isFolder:
		p.folders = append(p.folders, folder)
		return nil
	}
	bare, err := bare(pattern)
	if err != nil {
		return fmt.Errorf("failed to parse as an image name: %w", err)
	}
	if bare != pattern {
		return fmt.Errorf("neither tag nor digest is accepted in an image reference: %s", pattern)
	}
	p.names[pattern] = true
	return nil
}

// verifies tells whether a pod must prove that it may pull an image that is present.
func (p Policy) verifies(image string, byKubelet bool) bool {
	switch p.kind {
	case v1beta1.NeverVerify:
		return false
	case v1beta1.NeverVerifyAllowlistedImages:
		return !p.allows(image)
	case v1beta1.AlwaysVerify:
		return true
	}
	return byKubelet
}

func (p Policy) allows(image string) bool {
	if name, err := bare(image); err == nil {
		image = name
	}
	if p.names[image] {
		return true
	}
	for _, f := range p.folders {
		if strings.HasPrefix(image, f) {
			return true
		}
	}
	return false
}

// bare is an image's name as the pod wrote it, without tag and digest.
func bare(image string) (string, error) {
	ref, err := reference.Parse(image)
	if err != nil {
		return "", err
	}
	if d, ok := ref.(reference.Digested); ok {
		image = strings.TrimSuffix(image, "@"+d.Digest().String())
	}
	if t, ok := ref.(reference.Tagged); ok {
		image = strings.TrimSuffix(image, ":"+t.Tag())
	}
	return image, nil
}
