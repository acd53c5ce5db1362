package registry

import (
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func configMapKind() *Kind {
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("ConfigMap"),
		Resource:         "configmaps",
		Singular:         "configmap",
		ShortNames:       []string{"cm"},
		Namespaced:       true,
		Dir:              "configmaps",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &v1.ConfigMap{} },
		NewList:          func() runtime.Object { return &v1.ConfigMapList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { defaultConfigMap(obj.(*v1.ConfigMap)) },
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return validateConfigMap(obj.(*v1.ConfigMap)) },
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return validateConfigMapUpdate(obj.(*v1.ConfigMap), old.(*v1.ConfigMap))
			},
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Data", Type: "string", Description: v1.ConfigMap{}.SwaggerDoc()["data"]}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			c := obj.(*v1.ConfigMap)
			return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), age(c.CreationTimestamp, now)}
		},
	}
}

func defaultConfigMap(c *v1.ConfigMap) {
	if c.Data == nil {
		c.Data = map[string]string{}
	}
}

func validateConfigMap(c *v1.ConfigMap) field.ErrorList {
	var e check.Errors
	size := 0
	for _, k := range check.Sorted(c.Data) {
		p := field.NewPath("data").Key(k)
		e.Each(p, k, validation.IsConfigMapKey(k))
		if _, ok := c.BinaryData[k]; ok {
			e.Invalid(p, k, "duplicate of key present in binaryData")
		}
		size += len(c.Data[k])
	}
	for _, k := range check.Sorted(c.BinaryData) {
		e.Each(field.NewPath("binaryData").Key(k), k, validation.IsConfigMapKey(k))
		size += len(c.BinaryData[k])
	}
	if size > v1.MaxSecretSize {
		e.TooLong(field.NewPath(""), v1.MaxSecretSize)
	}
	return e.List()
}

func validateConfigMapUpdate(c, old *v1.ConfigMap) field.ErrorList {
	var e check.Errors
	if old.Immutable != nil && *old.Immutable {
		frozen(&e, "immutable", c.Immutable != nil && *c.Immutable)
		frozen(&e, "data", reflect.DeepEqual(c.Data, old.Data))
		frozen(&e, "binaryData", reflect.DeepEqual(c.BinaryData, old.BinaryData))
	}
	e.Add(validateConfigMap(c))
	return e.List()
}

// frozen refuses a change of what `immutable: true` froze.
func frozen(e *check.Errors, name string, same bool) {
	if !same {
		e.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set")
	}
}
