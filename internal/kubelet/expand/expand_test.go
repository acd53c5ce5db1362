package expand

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRefs(t *testing.T) {
	vars := map[string]string{"A": "x", "B": "$(A)", "": "empty", "a b": "blank"}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "$(B)": "$(A)", "a$(A)b$(A)": "axbx", "$(Z)": "$(Z)", "$": "$", "$$": "$", "$$$": "$$",
		"$(": "$(", "$(A": "$(A", "$()": "empty", "$(a b)": "blank", "$A": "$A", "$$(A)": "$(A)", "$$$(A)": "$x", "$(A$(A))": "$(A$(A))", ")$(A)": ")x",
	} {
		if got := Refs(in, lookup); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Doubling every $ keeps any text from being expanded.
func TestDoublingEscapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("$()Ax"))).Draw(t, "s")
		got := Refs(strings.ReplaceAll(s, "$", "$$"), func(string) (string, bool) { return "!", true })
		if got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
