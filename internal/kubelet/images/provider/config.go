package provider

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletv1 "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The versions that a configuration file may have, and those that plug-ins may speak. All versions of one have the same fields, but for
// tokens, which are v1's alone.
var (
	fileVersions   = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1alpha1", "kubelet.config.k8s.io/v1beta1"}
	pluginVersions = []string{v1.SchemeGroupVersion.String(), "credentialprovider.kubelet.k8s.io/v1alpha1", "credentialprovider.kubelet.k8s.io/v1beta1"}
)

// read reads a CredentialProviderConfig file, or all of a folder in the order of their names, and finds the plug-ins in binDir.
func read(path, binDir string) ([]kubeletv1.CredentialProvider, error) {
	if _, err := os.Stat(binDir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("plugin binary directory %s did not exist", binDir)
	} else if err != nil {
		return nil, fmt.Errorf("error inspecting binary directory %s: %w", binDir, err)
	}
	files, err := files(path)
	if err != nil {
		return nil, err
	}
	var all []kubeletv1.CredentialProvider
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("unable to read file %q: %w", f, err)
		}
		c, err := decode(b)
		if err != nil {
			return nil, fmt.Errorf("error decoding config %q: %w", f, err)
		}
		for _, p := range c.Providers {
			if slices.ContainsFunc(all, func(q kubeletv1.CredentialProvider) bool { return p.Name == q.Name }) {
				return nil, fmt.Errorf("duplicate provider name %q found in configuration file(s)", p.Name)
			}
			all = append(all, p)
		}
	}
	if errs := validate(all); len(errs) > 0 {
		return nil, fmt.Errorf("failed to validate credential provider config: %w", errs.ToAggregate())
	}
	for _, p := range all {
		bin := filepath.Join(binDir, p.Name)
		if _, err := exec.LookPath(bin); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("plugin binary executable %s did not exist", bin)
		} else if err != nil {
			return nil, fmt.Errorf("error inspecting binary executable %s: %w", bin, err)
		}
	}
	return all, nil
}

func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("unable to access path %q: %w", path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, fmt.Errorf("unable to read directory %q: %w", path, err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no configuration files found in directory %q", path)
	}
	return out, nil
}

func decode(text []byte) (*kubeletv1.CredentialProviderConfig, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	c := &kubeletv1.CredentialProviderConfig{}
	strict, err := json.UnmarshalStrict(raw, c)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if c.Kind != "CredentialProviderConfig" || !slices.Contains(fileVersions, c.APIVersion) {
		return nil, fmt.Errorf("it is a %q of %q: write kind CredentialProviderConfig and apiVersion %s", c.Kind, c.APIVersion, fileVersions[0])
	}
	return c, nil
}

func validate(all []kubeletv1.CredentialProvider) (errs field.ErrorList) {
	at := field.NewPath("providers")
	if len(all) == 0 {
		errs = append(errs, field.Required(at, "at least 1 item in plugins is required"))
	}
	for _, p := range all {
		name := at.Child("name")
		switch {
		case strings.Contains(p.Name, "/"):
			errs = append(errs, field.Invalid(name, p.Name, "provider name cannot contain '/'"))
		case strings.Contains(p.Name, " "):
			errs = append(errs, field.Invalid(name, p.Name, "provider name cannot contain spaces"))
		case p.Name == "." || p.Name == "..":
			errs = append(errs, field.Invalid(name, p.Name, fmt.Sprintf("provider name cannot be '%s'", p.Name)))
		case p.Name == "":
			errs = append(errs, field.Required(name, "it is the plug-in's file name"))
		}
		if p.APIVersion == "" {
			errs = append(errs, field.Required(at.Child("apiVersion"), ""))
		} else if !slices.Contains(pluginVersions, p.APIVersion) {
			errs = append(errs, field.NotSupported(at.Child("apiVersion"), p.APIVersion, pluginVersions))
		}
		if len(p.MatchImages) == 0 {
			errs = append(errs, field.Required(at.Child("matchImages"), "at least 1 item in matchImages is required"))
		}
		for _, m := range p.MatchImages {
			if _, err := url.Parse("https://" + m); err != nil {
				errs = append(errs, field.Invalid(at.Child("matchImages"), m, "match image is invalid: "+err.Error()))
			}
		}
		if d := p.DefaultCacheDuration; d == nil {
			errs = append(errs, field.Required(at.Child("defaultCacheDuration"), ""))
		} else if d.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child("defaultCacheDuration"), d, "must be greater than or equal to 0"))
		}
		if p.TokenAttributes != nil {
			errs = append(errs, validateTokens(at.Child("tokenAttributes"), p)...)
		}
	}
	return errs
}

func validateTokens(at *field.Path, p kubeletv1.CredentialProvider) (errs field.ErrorList) {
	t := p.TokenAttributes
	if t.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(at.Child("serviceAccountTokenAudience"), ""))
	}
	if t.RequireServiceAccount == nil {
		errs = append(errs, field.Required(at.Child("requireServiceAccount"), ""))
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		errs = append(errs, field.Forbidden(at.Child("requiredServiceAccountAnnotationKeys"),
			"requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"))
	}
	if p.APIVersion != v1.SchemeGroupVersion.String() {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf("tokenAttributes is only supported for %s API version", v1.SchemeGroupVersion)))
	}
	errs = append(errs, validateKeys(at.Child("requiredServiceAccountAnnotationKeys"), t.RequiredServiceAccountAnnotationKeys)...)
	errs = append(errs, validateKeys(at.Child("optionalServiceAccountAnnotationKeys"), t.OptionalServiceAccountAnnotationKeys)...)
	if both := sets.New(t.RequiredServiceAccountAnnotationKeys...).Intersection(sets.New(t.OptionalServiceAccountAnnotationKeys...)); len(both) > 0 {
		errs = append(errs, field.Invalid(at, sets.List(both), "annotation keys cannot be both required and optional"))
	}
	types := []string{string(kubeletv1.ServiceAccountServiceAccountTokenCacheType), string(kubeletv1.TokenServiceAccountTokenCacheType)}
	switch {
	case t.CacheType == "":
		errs = append(errs, field.Required(at.Child("cacheType"),
			"cacheType is required to be set when tokenAttributes is specified. Supported values are: "+strings.Join(types, ", ")))
	case !slices.Contains(types, string(t.CacheType)):
		errs = append(errs, field.NotSupported(at.Child("cacheType"), string(t.CacheType), types))
	}
	return errs
}

func validateKeys(at *field.Path, keys []string) (errs field.ErrorList) {
	seen := sets.New[string]()
	for _, k := range keys {
		for _, msg := range validation.IsQualifiedName(strings.ToLower(k)) {
			errs = append(errs, field.Invalid(at, k, msg))
		}
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(at, k))
		}
		seen.Insert(k)
	}
	return errs
}
