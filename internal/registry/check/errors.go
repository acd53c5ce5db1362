// Package check holds the elementary checks of API values: names, quantities, addresses, paths. Their message texts are
// upstream's, because clients show them to people.
package check

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors collects findings. The zero value is empty and ready.
type Errors struct{ list field.ErrorList }

// List is what was found, in the order of finding.
func (e *Errors) List() field.ErrorList { return e.list }

// Add takes over findings of a library's check.
func (e *Errors) Add(list field.ErrorList) { e.list = append(e.list, list...) }

// Put takes one finding; nil is none.
func (e *Errors) Put(err *field.Error) {
	if err != nil {
		e.list = append(e.list, err)
	}
}

// Required says that the field must be given.
func (e *Errors) Required(p *field.Path, detail string) {
	e.list = append(e.list, field.Required(p, detail))
}

// Invalid says that the field's value is wrong.
func (e *Errors) Invalid(p *field.Path, value any, detail string) {
	e.list = append(e.list, field.Invalid(p, Shown(value), detail))
}

// Forbidden says that the field may not be given here.
func (e *Errors) Forbidden(p *field.Path, detail string) {
	e.list = append(e.list, field.Forbidden(p, detail))
}

// Duplicate says that the value was there before.
func (e *Errors) Duplicate(p *field.Path, value any) {
	e.list = append(e.list, field.Duplicate(p, Shown(value)))
}

// NotFound says that what the value names does not exist.
func (e *Errors) NotFound(p *field.Path, value any) {
	e.list = append(e.list, field.NotFound(p, value))
}

// TooLong says that the value has more than limit bytes.
func (e *Errors) TooLong(p *field.Path, limit int) {
	e.list = append(e.list, field.TooLong(p, "", limit))
}

// Each makes one Invalid of every message.
func (e *Errors) Each(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		e.Invalid(p, value, m)
	}
}

// OneOf checks an enumeration; the supported values are listed in the given order.
func OneOf[T ~string](e *Errors, p *field.Path, value T, supported ...T) {
	if !slices.Contains(supported, value) {
		e.list = append(e.list, field.NotSupported(p, value, supported))
	}
}

// RequiredOneOf is OneOf for a field that must not be empty.
func RequiredOneOf[T ~string](e *Errors, p *field.Path, value T, supported ...T) {
	if value == "" {
		e.Required(p, "")
		return
	}
	OneOf(e, p, value, supported...)
}

// Sorted are a map's keys in order, so that findings come in the same order every time.
func Sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
