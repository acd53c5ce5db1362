package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func (v *validator) keysToPaths(p *field.Path, items []v1.KeyToPath) {
	for i, k := range items {
		v.keyToPath(item(p, i), k)
	}
}

func (v *validator) keyToPath(p *field.Path, k v1.KeyToPath) {
	if k.Key == "" {
		v.Required(child(p, "key"), "")
	}
	if k.Path == "" {
		v.Required(child(p, "path"), "")
	}
	v.ProjectedPath(child(p, "path"), k.Path)
	v.Mode(child(p, "mode"), k.Mode)
	v.userID(child(p, "user"), k.User)
}

// downwardFile checks a file made of the pod's fields; p is the list's owner, without the index, as upstream has it.
func (v *validator) downwardFile(p *field.Path, f v1.DownwardAPIVolumeFile) {
	if f.Path == "" {
		v.Required(child(p, "path"), "")
	}
	v.ProjectedPath(child(p, "path"), f.Path)
	switch {
	case f.FieldRef != nil:
		v.fieldRef(child(p, "fieldRef"), f.FieldRef, volumeFields)
		if f.ResourceFieldRef != nil {
			v.Invalid(p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case f.ResourceFieldRef != nil:
		v.resourceFieldRef(child(p, "resourceFieldRef"), f.ResourceFieldRef, true)
	default:
		v.Required(p, "one of fieldRef and resourceFieldRef is required")
	}
	v.Mode(child(p, "mode"), f.Mode)
	v.userID(child(p, "user"), f.User)
}

// projected checks a volume of several sources, whose files must not collide.
func (v *validator) projected(p *field.Path, s *v1.ProjectedVolumeSource) {
	v.Mode(child(p, "defaultMode"), s.DefaultMode)
	v.userID(child(p, "defaultUser"), s.DefaultUser)
	taken := sets.New[string]()
	for i := range s.Sources {
		v.projection(p, item(child(p, "sources"), i), &s.Sources[i], taken)
	}
}

// projection checks one source at at; findings about colliding paths stand at the volume's path p.
func (v *validator) projection(p, at *field.Path, s *v1.VolumeProjection, taken sets.Set[string]) {
	n := 0
	take := func(path string, value any) {
		if taken.Has(path) {
			v.Invalid(p, value, "conflicting duplicate paths")
		}
		taken.Insert(path)
	}
	object := func(p *field.Path, name string, items []v1.KeyToPath) {
		n++
		if name == "" {
			v.Required(child(p, "name"), "")
		}
		for i, k := range items {
			v.keyToPath(item(child(p, "items"), i), k)
			if k.Path != "" {
				take(k.Path, name)
			}
		}
	}
	if s.Secret != nil {
		object(child(at, "secret"), s.Secret.Name, s.Secret.Items)
	}
	if s.ConfigMap != nil {
		object(child(at, "configMap"), s.ConfigMap.Name, s.ConfigMap.Items)
	}
	if s.DownwardAPI != nil {
		n++
		for _, f := range s.DownwardAPI.Items {
			v.downwardFile(child(at, "downwardAPI"), f)
			if f.Path != "" {
				take(f.Path, f.Path)
			}
		}
	}
	if t := s.ServiceAccountToken; t != nil {
		n++
		v.token(p, child(at, "serviceAccountToken"), t)
	}
	if b := s.ClusterTrustBundle; b != nil {
		n++
		v.trustBundle(child(at, "clusterTrustBundle"), b)
		take(b.Path, b.Path)
	}
	if c := s.PodCertificate; c != nil {
		n++
		v.podCertificate(child(at, "podCertificate"), c, func(path string) { take(path, path) })
	}
	if n > 1 {
		v.Forbidden(at, "may not specify more than 1 volume type per source")
	}
}

func (v *validator) token(p, at *field.Path, t *v1.ServiceAccountTokenProjection) {
	switch exp := t.ExpirationSeconds; {
	case exp == nil:
		v.Required(child(at, "expirationSeconds"), "")
	case *exp < 10*60:
		v.Invalid(child(at, "expirationSeconds"), *exp, "may not specify a duration less than 10 minutes")
	case *exp > 1<<32:
		v.Invalid(child(at, "expirationSeconds"), *exp, "may not specify a duration larger than 2^32 seconds")
	}
	if t.Path == "" {
		v.Required(child(p, "path"), "")
	} else if !v.o.NonLocalTokenPath {
		v.ProjectedPath(child(p, "path"), t.Path)
	}
	v.userID(child(at, "user"), t.User)
}

func (v *validator) trustBundle(p *field.Path, b *v1.ClusterTrustBundleProjection) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		v.Invalid(p, b, "only one of name and signerName may be used")
	case b.Name != nil:
		if *b.Name == "" {
			v.Required(child(p, "name"), "must be a valid object name")
		}
		for _, msg := range trustBundleName(*b.Name) {
			v.Invalid(child(p, "name"), *b.Name, fmt.Sprintf("not a valid clustertrustbundlename: %v", msg))
		}
		if b.LabelSelector != nil {
			v.Invalid(child(p, "labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			v.Required(child(p, "signerName"), "must be a valid signer name")
		}
		v.SignerName(child(p, "signerName"), *b.SignerName)
		v.labelSelector(child(p, "labelSelector"), b.LabelSelector)
	default:
		v.Required(p, "either name or signerName must be specified")
	}
	if b.Path == "" {
		v.Required(child(p, "path"), "")
	}
	v.ProjectedPath(child(p, "path"), b.Path)
	v.userID(child(p, "user"), b.User)
}

// trustBundleName: a signer's bundle is called "<signer with : for />:<name>", any other has a plain name.
func trustBundleName(name string) []string {
	return apivalidation.NameIsDNSSubdomain(name[strings.LastIndex(name, ":")+1:], false)
}

// keyTypes are the kinds of keys that a pod certificate may be for.
var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

func (v *validator) podCertificate(p *field.Path, c *v1.PodCertificateProjection, take func(string)) {
	v.SignerName(child(p, "signerName"), c.SignerName)
	for _, k := range check.Sorted(c.UserAnnotations) {
		v.Add(validation.IsDomainPrefixedKey(child(p, "userAnnotations"), strings.ToLower(k)))
	}
	if apivalidation.ValidateAnnotationsSize(c.UserAnnotations) != nil {
		v.TooLong(child(p, "userAnnotations"), apivalidation.TotalAnnotationSizeLimitB)
	}
	check.OneOf(&v.Errors, child(p, "keyType"), c.KeyType, keyTypes...)
	if s := c.MaxExpirationSeconds; s != nil {
		longest := int32(91 * 86400)
		if check.KubernetesSigner(c.SignerName) {
			longest = 86400
		}
		if *s < 3600 {
			v.Invalid(child(p, "maxExpirationSeconds"), *s, "if provided, maxExpirationSeconds must be >= 3600")
		}
		if *s > longest {
			v.Invalid(child(p, "maxExpirationSeconds"), *s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest))
		}
	}
	paths := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	} {
		if f.path != "" {
			paths++
			v.ProjectedPath(child(p, f.name), f.path)
			take(f.path)
		}
	}
	if paths == 0 {
		v.Required(p, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
	v.userID(child(p, "user"), c.User)
}
