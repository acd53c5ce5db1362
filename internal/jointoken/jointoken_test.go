package jointoken

import (
	"strings"
	"testing"
)

// FuzzParse: a text is a token and says the same again, or is refused by an error that does not tell it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"abcdef.0123456789abcdef@sha256:" + strings.Repeat("0", 64), "abcdef.0123456789abcdef", "abcdef.0123456789abcdef@", "abcdef.0123456789abcdef\n", "ABCDEF.0123456789abcdef", "@sha256:", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := Parse(text)
		switch {
		case err != nil && len(text) > 20 && strings.Contains(err.Error(), text):
			t.Errorf("%v tells the token", err)
		case err == nil && token.Text() != text:
			t.Errorf("%q is %q", text, token.Text())
		case err == nil && !strings.HasPrefix(text, token.Bearer()):
			t.Errorf("%q shows %q", text, token.Bearer())
		}
	})
}
