package check

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent checks for a number that is not negative, or a percentage.
func (e *Errors) IntOrPercent(p *field.Path, v intstr.IntOrString) {
	if v.Type == intstr.String {
		e.Each(p, v, validation.IsValidPercent(v.StrVal))
		return
	}
	e.NonNegative(p, int64(v.IntValue()))
}

// AtMostAll checks that a percentage is not above 100; what is none passes.
func (e *Errors) AtMostAll(p *field.Path, v intstr.IntOrString) {
	if n, is := Percent(v); is && n > 100 {
		e.Invalid(p, v, "must not be greater than 100%")
	}
}

// Percent is the number of a percentage, and whether it is one.
func Percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return n, true
}

// IsZero says of a number or a percentage that it is none of whatever there is.
func IsZero(v intstr.IntOrString) bool {
	if n, is := Percent(v); is {
		return n == 0
	}
	return v.IntValue() == 0
}
