package spec

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/expand"
)

// environment is a set of variables in the order in which they were declared; one that is declared again keeps its place and
// changes its value. Variables of services come after the declared ones.
type environment struct {
	names    []string
	values   map[string]string
	services map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	v, ok := e.values[name]
	if !ok {
		v, ok = e.services[name]
	}
	return v, ok
}

func (e *environment) list() []*runtimev1.KeyValue {
	out := make([]*runtimev1.KeyValue, len(e.names))
	for i, n := range e.names {
		out[i] = &runtimev1.KeyValue{Key: n, Value: []byte(e.values[n])}
	}
	for _, n := range slices.Sorted(maps.Keys(e.services)) {
		if _, declared := e.values[n]; !declared {
			out = append(out, &runtimev1.KeyValue{Key: n, Value: []byte(e.services[n])})
		}
	}
	return out
}

// environment resolves a container's variables: whole objects first, then single ones in order, each of which may refer to
// those before it.
func (b *Builder) environment(pod *v1.Pod, c *v1.Container, podIPs []string) (*environment, error) {
	env := &environment{values: map[string]string{}}
	if b.c.Services != nil {
		links := pod.Spec.EnableServiceLinks
		env.services = serviceVariables(b.c.Services(pod.Namespace), pod.Namespace, links == nil || *links)
	}
	for i := range c.EnvFrom {
		if err := b.wholeObject(env, pod.Namespace, &c.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	facts := b.c.Facts()
	facts.PodIPs = podIPs
	for i := range c.Env {
		v := &c.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			env.set(v.Name, expand.Refs(v.Value, env.lookup))
			continue
		}
		value, ok, err := b.single(pod, c, v.ValueFrom, facts)
		if err != nil {
			return nil, err
		}
		if ok {
			env.set(v.Name, value)
		}
	}
	return env, nil
}

// optionally turns "not found" into nothing where that is allowed.
func optionally(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// wholeObject sets a variable for every key. Any key is a valid name since 1.34, so none is left out.
func (b *Builder) wholeObject(env *environment, namespace string, from *v1.EnvFromSource) error {
	values := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		cm, err := b.c.Objects.ConfigMap(namespace, from.ConfigMapRef.Name)
		if err != nil {
			return optionally(err, from.ConfigMapRef.Optional)
		}
		values = cm.Data
	case from.SecretRef != nil:
		s, err := b.c.Objects.Secret(namespace, from.SecretRef.Name)
		if err != nil {
			return optionally(err, from.SecretRef.Optional)
		}
		for k, v := range s.Data {
			values[k] = string(v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		env.set(from.Prefix+k, values[k])
	}
	return nil
}

// single resolves one variable; ok is false for an optional one that is missing.
func (b *Builder) single(pod *v1.Pod, c *v1.Container, from *v1.EnvVarSource, facts downward.Facts) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = downward.Field(pod, from.FieldRef.FieldPath, facts)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(pod, c, from.ResourceFieldRef, facts)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := b.c.Objects.ConfigMap(pod.Namespace, ref.Name)
		if err != nil {
			return "", false, optionally(err, ref.Optional)
		}
		if value, ok = cm.Data[ref.Key]; !ok {
			err = absentKey("ConfigMap", pod.Namespace, ref.Name, ref.Key, ref.Optional)
		}
		return value, ok, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := b.c.Objects.Secret(pod.Namespace, ref.Name)
		if err != nil {
			return "", false, optionally(err, ref.Optional)
		}
		data, ok := s.Data[ref.Key]
		if !ok {
			err = absentKey("Secret", pod.Namespace, ref.Name, ref.Key, ref.Optional)
		}
		return string(data), ok, err
	case from.FileKeyRef != nil:
		return b.fromFile(pod, from.FileKeyRef)
	}
	return "", true, nil
}

func absentKey(kind, namespace, name, key string, optional *bool) error {
	if optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("couldn't find key %v in %s %v/%v", key, kind, namespace, name)
}
