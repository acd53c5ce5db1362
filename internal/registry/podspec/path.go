package podspec

import "k8s.io/apimachinery/pkg/util/validation/field"

// Paths are for telling what is wrong, and making them costs as much as looking: Validate looks without any first. From no path, these
// lead to none.

func child(p *field.Path, name string) *field.Path {
	if p == nil {
		return nil
	}
	return p.Child(name)
}

func item(p *field.Path, i int) *field.Path {
	if p == nil {
		return nil
	}
	return p.Index(i)
}

func keyed(p *field.Path, key string) *field.Path {
	if p == nil {
		return nil
	}
	return p.Key(key)
}
