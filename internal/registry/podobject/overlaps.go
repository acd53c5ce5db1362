package podobject

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// file is a path that a volume is to have, and what it is of where a volume has several sources.
type file struct{ path, of string }

func (f file) String() string {
	if f.of == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.of)
}

// overlaps tells of paths of one volume that are the same, or of which one lies below the other: the last file written wins, or none can
// be made.
func (w *warner) overlaps(v *v1.Volume) {
	switch {
	case v.ConfigMap != nil:
		w.overlap(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), nil, keyFiles(v.ConfigMap.Items, ""))
	case v.Secret != nil:
		w.overlap(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), nil, keyFiles(v.Secret.Items, ""))
	case v.DownwardAPI != nil:
		w.overlap(v.Name, "DownwardAPI", nil, fieldFiles(v.DownwardAPI.Items, ""))
	case v.Projected != nil:
		var all []file
		for _, s := range v.Projected.Sources {
			if s == (v1.VolumeProjection{}) {
				w.out = append(w.out, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			all = w.overlap(v.Name, "Projected", all, sourceFiles(s))
		}
	}
}

// overlap compares files with each other and with those before, and returns all of them.
func (w *warner) overlap(volume, kind string, before, files []file) []file {
	for _, f := range files {
		f.path = strings.TrimRight(f.path, "/")
		for _, other := range before {
			if f.path != "" && other.path != "" && (below(f.path, other.path) || below(other.path, f.path)) {
				w.out = append(w.out, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", volume, kind, f, other))
			}
		}
		before = append(before, f)
	}
	return before
}

// below tells whether a path lies below another one, or is the same.
func below(path, other string) bool { return strings.HasPrefix(path+"/", other+"/") }

func keyFiles(items []v1.KeyToPath, of string) (out []file) {
	for _, i := range items {
		out = append(out, file{i.Path, of})
	}
	return out
}

func fieldFiles(items []v1.DownwardAPIVolumeFile, of string) (out []file) {
	for _, i := range items {
		out = append(out, file{i.Path, of})
	}
	return out
}

func sourceFiles(s v1.VolumeProjection) []file {
	switch {
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		return keyFiles(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		return keyFiles(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		return fieldFiles(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return []file{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		if name == nil {
			name = new(string)
		}
		return []file{{s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case s.PodCertificate != nil:
		return []file{
			{s.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{s.PodCertificate.KeyPath, "PodCertificate key"},
			{s.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		}
	}
	return nil
}
