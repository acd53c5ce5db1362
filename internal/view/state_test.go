package view

import (
	"testing"

	"pgregory.net/rapid"
)

// TestKeyOrder: an index has its entries in the order of their paths, which it never makes.
func TestKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a0-]{1,3}`)
		key := rapid.Custom(func(t *rapid.T) Key { return Key{part.Draw(t, "namespace"), part.Draw(t, "name")} })
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if got, want := a.before(b), a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name; got != want {
			t.Fatalf("%v before %v: %v", a, b, got)
		}
	})
}
