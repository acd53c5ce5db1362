// Package settings makes the admission rules that can be configured, from upstream's file of --admission-control-config-file: an
// AdmissionConfiguration that holds, or names files with, the configurations of plug-ins.
package settings

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quotainstall "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/install"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/admit/podsecurity"
	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/view"
)

// Rules makes the rules that have a configuration, PodSecurity and ResourceQuota, as the file says; without a file as upstream does. A
// section for a plug-in that is not here is ignored.
func Rules(file string, v *view.View) (admit.Chain, error) {
	sections, err := read(file)
	if err != nil {
		return nil, err
	}
	security, err := podsecurity.New(v, sections["PodSecurity"])
	if err != nil {
		return nil, fmt.Errorf("PodSecurity: %w", err)
	}
	limited, err := limits(sections["ResourceQuota"])
	if err != nil {
		return nil, fmt.Errorf("ResourceQuota: %w", err)
	}
	return admit.Chain{security, &admit.ResourceQuota{View: v, Limited: limited}}, nil
}

// read finds the section of each plug-in.
func read(file string) (map[string]io.Reader, error) {
	out := map[string]io.Reader{}
	if file == "" {
		return out, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(apiserver.AddToScheme(scheme))
	utilruntime.Must(apiserverv1.AddToScheme(scheme))
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), raw)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("unexpected type: %T", obj)
	}
	for _, p := range c.Plugins {
		switch {
		case out[p.Name] != nil: // the first counts
		case p.Configuration != nil:
			out[p.Name] = bytes.NewReader(p.Configuration.Raw)
		case p.Path != "":
			path := p.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			out[p.Name] = bytes.NewReader(content)
		}
	}
	return out, nil
}

// limits is what needs a quota to be used at all.
func limits(section io.Reader) (out []quota.Limited, err error) {
	if section == nil {
		return nil, nil
	}
	raw, err := io.ReadAll(section)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	quotainstall.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme).UniversalDecoder(), raw)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*resourcequota.Configuration)
	if !ok {
		return nil, fmt.Errorf("unexpected config object %T", obj)
	}
	if errs := validation.ValidateConfiguration(c); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for _, l := range c.LimitedResources {
		out = append(out, quota.Limited{
			Resource: schema.GroupResource{Group: l.APIGroup, Resource: l.Resource}, Contains: l.MatchContains, Scopes: l.MatchScopes,
		})
	}
	return out, nil
}
