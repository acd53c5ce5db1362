package check

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// What is found good without the library's regular expressions is what they find good.
func FuzzGood(f *testing.F) {
	for _, v := range []string{
		"", "a", "0", "-", ".", "a-b", "-a", "a-", "a.b", ".a", "a.", "a..b", "a-.b", "a.-b", "a--b", "A", "a_b", "é", "a\n", "ab\x00", "kube-root-ca.crt",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a.", 126) + "a",
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if is, want := good(v, validation.DNS1123LabelMaxLength, false), len(validation.IsDNS1123Label(v)) == 0; is != want {
			t.Errorf("label %q: %v, want %v", v, is, want)
		}
		if is, want := good(v, validation.DNS1123SubdomainMaxLength, true), len(validation.IsDNS1123Subdomain(v)) == 0; is != want {
			t.Errorf("subdomain %q: %v, want %v", v, is, want)
		}
	})
}
