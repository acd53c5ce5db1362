package check

import "testing"

func TestTame(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "1e9999": "", `"1e0000009"`: "", "one12345": "", "e12345": "",
		`{"cpu":"1e-99999"}`:       `{"cpu":"1x-99999"}`,
		`1E+123456,2.e99999,3e1`:   `1x+123456,2.x99999,3e1`,
		`"1\u0065\u002d999999"`:    `"1\u0078\u002d999999"`,
		`"\u0031E\u0039\u00399999`: `"\u0031x\u0039\u00399999`,
		`sha256:7e123456789`:       `sha256:7x123456789`,
	} {
		if got := string(Tame([]byte(text))); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
