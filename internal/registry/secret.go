package registry

import (
	"crypto/tls"
	"encoding/json"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func secretKind() *Kind {
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Secret"),
		Resource:         "secrets",
		Singular:         "secret",
		Namespaced:       true,
		Dir:              "secrets",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &v1.Secret{} },
		NewList:          func() runtime.Object { return &v1.SecretList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { defaultSecret(obj.(*v1.Secret)) },
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return validateSecret(obj.(*v1.Secret)) },
		Warnings:         func(obj runtime.Object) []string { return secretWarnings(obj.(*v1.Secret)) },
		Updates: map[string]Update{"": {
			Warnings: func(obj, _ runtime.Object) []string { return secretWarnings(obj.(*v1.Secret)) },
			Prepare: func(obj, old runtime.Object) {
				if s := obj.(*v1.Secret); s.Type == "" {
					s.Type = old.(*v1.Secret).Type
				}
			},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return validateSecretUpdate(obj.(*v1.Secret), old.(*v1.Secret))
			},
			AllowUnconditional: true,
		}},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(metaFields(obj), "type", string(obj.(*v1.Secret).Type))
		},
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Type", Type: "string", Description: v1.Secret{}.SwaggerDoc()["type"]},
			{Name: "Data", Type: "string", Description: v1.Secret{}.SwaggerDoc()["data"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			s := obj.(*v1.Secret)
			return []any{s.Name, string(s.Type), int64(len(s.Data)), age(s.CreationTimestamp, now)}
		},
	}
}

// defaultSecret also takes stringData, which is for writing only, over into data.
func defaultSecret(s *v1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for k, text := range s.StringData {
		s.Data[k] = []byte(text)
	}
	s.StringData = nil
	if s.Type == "" {
		s.Type = v1.SecretTypeOpaque
	}
}

func validateSecret(s *v1.Secret) field.ErrorList {
	var e check.Errors
	p := field.NewPath("data")
	size := 0
	for _, k := range check.Sorted(s.Data) {
		e.Each(p.Key(k), k, validation.IsConfigMapKey(k))
		size += len(s.Data[k])
	}
	if size > v1.MaxSecretSize {
		e.TooLong(p, v1.MaxSecretSize)
	}
	secretType(&e, p, s)
	return e.List()
}

// secretType checks the keys that a type promises. Contents never go into a message.
func secretType(e *check.Errors, p *field.Path, s *v1.Secret) {
	need := func(key string) bool {
		_, ok := s.Data[key]
		if !ok {
			e.Required(p.Key(key), "")
		}
		return ok
	}
	jsonObject := func(key string) {
		if !need(key) {
			return
		}
		if err := json.Unmarshal(s.Data[key], &map[string]any{}); err != nil {
			e.Invalid(p.Key(key), "<secret contents redacted>", err.Error())
		}
	}
	switch s.Type {
	case v1.SecretTypeServiceAccountToken:
		if s.Annotations[v1.ServiceAccountNameKey] == "" {
			e.Required(metaPath.Child("annotations").Key(v1.ServiceAccountNameKey), "")
		}
	case v1.SecretTypeDockercfg:
		jsonObject(v1.DockerConfigKey)
	case v1.SecretTypeDockerConfigJson:
		jsonObject(v1.DockerConfigJsonKey)
	case v1.SecretTypeBasicAuth:
		_, user := s.Data[v1.BasicAuthUsernameKey]
		_, password := s.Data[v1.BasicAuthPasswordKey]
		if !user && !password {
			e.Required(p.Key(v1.BasicAuthUsernameKey), "")
			e.Required(p.Key(v1.BasicAuthPasswordKey), "")
		}
	case v1.SecretTypeSSHAuth:
		if len(s.Data[v1.SSHAuthPrivateKey]) == 0 {
			e.Required(p.Key(v1.SSHAuthPrivateKey), "")
		}
	case v1.SecretTypeTLS:
		need(v1.TLSCertKey)
		need(v1.TLSPrivateKeyKey)
	}
}

func validateSecretUpdate(s, old *v1.Secret) field.ErrorList {
	var e check.Errors
	e.Add(apivalidation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type")))
	if old.Immutable != nil && *old.Immutable {
		frozen(&e, "immutable", s.Immutable != nil && *s.Immutable)
		frozen(&e, "data", reflect.DeepEqual(s.Data, old.Data))
	}
	e.Add(validateSecret(s))
	return e.List()
}

// secretWarnings tells that a pair of key and certificate would not work.
func secretWarnings(s *v1.Secret) []string {
	if s.Type != v1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[v1.TLSCertKey], s.Data[v1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
