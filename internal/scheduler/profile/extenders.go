package profile

import (
	"fmt"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

func (r *reader) extenders(path *field.Path, list []configv1.Extender) []configv1.Extender {
	binders, managed := 0, map[string]bool{}
	for i := range list {
		e, p := &list[i], path.Index(i)
		if u, err := url.Parse(e.URLPrefix); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			r.invalid(p.Child("urlPrefix"), e.URLPrefix, "must be an address like http://host:port/path")
		}
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			r.invalid(p.Child("weight"), e.Weight, "must have a positive weight applied to it")
		}
		if e.HTTPTimeout.Duration < 0 {
			r.invalid(p.Child("httpTimeout"), e.HTTPTimeout.Duration.String(), "must not be negative")
		}
		if e.BindVerb != "" {
			binders++
		}
		for j, m := range e.ManagedResources {
			at := p.Child("managedResources").Index(j).Child("name")
			if why := validation.IsQualifiedName(m.Name); len(why) > 0 {
				r.invalid(at, m.Name, strings.Join(why, "; "))
			} else if !extended(m.Name) {
				r.invalid(at, m.Name, "is an invalid extended resource name")
			}
			if managed[m.Name] {
				r.invalid(at, m.Name, "duplicate extender managed resource name")
			}
			managed[m.Name] = true
		}
	}
	if binders > 1 {
		r.invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind")
	}
	return list
}

// extended tells whether a name is that of an extended resource.
func extended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) && len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) == 0
}

// ignored are the resources that extenders manage, so that the scheduler does not check them.
func ignored(list []configv1.Extender) (out []string) {
	for i := range list {
		for _, m := range list[i].ManagedResources {
			if m.IgnoredByScheduler {
				out = append(out, m.Name)
			}
		}
	}
	return out
}
