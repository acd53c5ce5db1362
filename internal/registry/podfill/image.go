package podfill

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// pullPolicy is Always for images whose tag is "latest" by word or by default, and IfNotPresent for all others.
//
// An image that cannot be parsed counts as one without the tag "latest", as upstream has it.
func pullPolicy(image string) v1.PullPolicy {
	if tag, ok := imageTag(image); ok && tag == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// imageTag is the tag that a reference means: the one given; "latest" when there is neither tag nor digest; "" with only a
// digest. ok is false for what is no reference.
func imageTag(image string) (tag string, ok bool) {
	name, digest, hasDigest := strings.Cut(image, "@")
	if hasDigest && !strings.Contains(digest, ":") {
		return "", false
	}
	// A colon after the last slash starts the tag; one before it is a registry's port.
	last := name[strings.LastIndex(name, "/")+1:]
	repo, tag, hasTag := strings.Cut(last, ":")
	switch {
	case !validRepository(name, repo):
		return "", false
	case hasTag && !validTag(tag):
		return "", false
	case hasTag:
		return tag, true
	case hasDigest:
		return "", true
	}
	return "latest", true
}

// validRepository checks the characters of the path; the host in front of the first slash may have upper-case letters.
func validRepository(name, last string) bool {
	if last == "" {
		return false
	}
	path := strings.TrimSuffix(name, name[strings.LastIndex(name, "/")+1:]) + last
	if host, rest, ok := strings.Cut(path, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost" || host != strings.ToLower(host)) {
		path = rest
	}
	for _, part := range strings.Split(path, "/") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			return false
		}
		if !isAlphanumeric(part[0]) || !isAlphanumeric(part[len(part)-1]) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func validTag(tag string) bool {
	if tag == "" || len(tag) > 128 || tag[0] == '.' || tag[0] == '-' {
		return false
	}
	return strings.Trim(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}
