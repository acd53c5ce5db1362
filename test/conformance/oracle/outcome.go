package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Outcome is what one side made of a request.
type Outcome struct {
	// Object is what would be stored, in the external version; nil when the request was refused.
	Object runtime.Object
	// Causes are the refusals, in order.
	Causes   []Cause
	Warnings []string
}

// Cause is one refusal as a client sees it in status.details.causes.
type Cause struct {
	Type, Field, Message string
}

// refused turns an error into causes.
func refused(err error) []Cause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return []Cause{{Type: string(metav1.StatusReasonUnknown), Message: err.Error()}}
	}
	s := status.Status()
	if s.Reason != metav1.StatusReasonInvalid || s.Details == nil || len(s.Details.Causes) == 0 {
		return []Cause{{Type: string(s.Reason), Message: s.Message}}
	}
	out := make([]Cause, 0, len(s.Details.Causes))
	for _, c := range s.Details.Causes {
		// What follows a line's end is a hint made of the types' fields, which are each side's own.
		message, _, _ := strings.Cut(c.Message, "\n")
		out = append(out, Cause{Type: string(c.Type), Field: c.Field, Message: message})
	}
	return out
}

// guarded runs one side; a panic is a refusal of its own kind, and one that both sides have is no difference.
func guarded(f func() Outcome) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			o = Outcome{Causes: []Cause{{Type: "Panic", Message: text}}}
		}
	}()
	return f()
}

// panicked is what a side that panicked said.
func (o Outcome) panicked() string {
	if len(o.Causes) == 1 && o.Causes[0].Type == "Panic" {
		return o.Causes[0].Message
	}
	return ""
}

// Difference is one thing on which the sides disagree.
type Difference struct {
	Where          string // a field's path, or "warnings", "order"
	Upstream, Podo string // what each side says; empty when it says nothing
}

// compare lists the differences of two outcomes, refusals first. Objects count only where both sides accept.
func compare(upstream, podo Outcome) []Difference {
	if u, p := upstream.panicked(), podo.panicked(); u != "" && p == "" || u == "" && p != "" {
		return []Difference{{Where: "panic", Upstream: u, Podo: p}} // whatever the other one says has no counterpart
	}
	out := compareCauses(upstream.Causes, podo.Causes)
	if upstream.Object == nil || podo.Object == nil {
		return out
	}
	out = append(out, compareJSON("", tree(upstream.Object), tree(podo.Object))...)
	return append(out, compareTexts("warnings", upstream.Warnings, podo.Warnings)...)
}

func compareCauses(upstream, podo []Cause) []Difference {
	count := func(list []Cause) (map[Cause]int, []Cause) {
		n := map[Cause]int{}
		var order []Cause
		for _, c := range list {
			if n[c] == 0 {
				order = append(order, c)
			}
			n[c]++
		}
		return n, order
	}
	nu, ou := count(upstream)
	np, op := count(podo)
	byField := map[string]*Difference{}
	var fields []string
	at := func(f string) *Difference {
		if byField[f] == nil {
			byField[f] = &Difference{Where: f}
			fields = append(fields, f)
		}
		return byField[f]
	}
	add := func(s *string, c Cause, mine, other int) {
		if mine == other {
			return
		}
		if *s != "" {
			*s += " + "
		}
		*s += c.Message
		if other > 0 {
			*s += fmt.Sprintf(" ×%d", mine)
		}
	}
	for _, c := range ou {
		if nu[c] != np[c] {
			add(&at(c.Field).Upstream, c, nu[c], np[c])
		}
	}
	for _, c := range op {
		if nu[c] != np[c] {
			add(&at(c.Field).Podo, c, np[c], nu[c])
		}
	}
	var out []Difference
	for _, f := range fields {
		out = append(out, *byField[f])
	}
	if len(out) > 0 {
		return out
	}
	// Upstream ranges over maps: within one, any order is right.
	fu, fp := firsts(upstream), firsts(podo)
	for i := range fu {
		if fu[i] != fp[i] {
			return []Difference{{Where: "order", Upstream: fu[i], Podo: fp[i]}}
		}
	}
	return nil
}

// firsts are the fields in the order of their first refusal; parts of maps count as their map, and resources as one field.
func firsts(list []Cause) []string {
	var out []string
	for _, c := range list {
		f := oneLimit.ReplaceAllString(underMap.ReplaceAllString(c.Field, "$1"), "$1")
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

var underMap = regexp.MustCompile(`((?:^|\.)(?:resources|overhead|capacity|allocatable|annotations|labels|nodeSelector|data|binaryData|hard|used)\b).*`)

// oneLimit is an element of a LimitRange: upstream looks at its maps by the names of all of them, in no order.
var oneLimit = regexp.MustCompile(`(^spec\.limits\[\d+\])\..*`)

// compareTexts pairs the texts that only one side has; when both have the same ones, their order counts.
func compareTexts(where string, upstream, podo []string) []Difference {
	if u, p := without(upstream, podo), without(podo, upstream); len(u)+len(p) > 0 {
		upstream, podo = u, p
	}
	var out []Difference
	for i := 0; i < max(len(upstream), len(podo)); i++ {
		var u, p string
		if i < len(upstream) {
			u = upstream[i]
		}
		if i < len(podo) {
			p = podo[i]
		}
		if u != p {
			out = append(out, Difference{Where: where, Upstream: u, Podo: p})
		}
	}
	return out
}

// without is what list has more often than other.
func without(list, other []string) []string {
	other = slices.Clone(other)
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		i := slices.Index(other, s)
		if i >= 0 {
			other = slices.Delete(other, i, i+1)
		}
		return i >= 0
	})
}

// tree is a value as JSON sees it.
func tree(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // API objects always encode
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func compareJSON(path string, upstream, podo any) []Difference {
	switch u := upstream.(type) {
	case map[string]any:
		p, ok := podo.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range u {
			keys[k] = true
		}
		for k := range p {
			keys[k] = true
		}
		sorted := make([]string, 0, len(keys))
		for k := range keys {
			sorted = append(sorted, k)
		}
		sort.Strings(sorted)
		var out []Difference
		for _, k := range sorted {
			out = append(out, compareJSON(path+"."+k, u[k], p[k])...)
		}
		return out
	case []any:
		p, ok := podo.([]any)
		if !ok || len(p) != len(u) {
			break
		}
		var out []Difference
		for i := range u {
			out = append(out, compareJSON(fmt.Sprintf("%s[%d]", path, i), u[i], p[i])...)
		}
		return out
	default:
		if u == podo {
			return nil
		}
	}
	if upstream == nil && podo == nil {
		return nil
	}
	return []Difference{{Where: path, Upstream: show(upstream), Podo: show(podo)}}
}

func show(v any) string {
	if v == nil {
		return ""
	}
	b, _ := json.Marshal(v)
	return string(b)
}
