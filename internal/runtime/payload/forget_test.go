package payload

import "testing"

func TestOnlyOwnReadOnlyMappingsAreForgotten(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-0a000000 r--p 00000000 fe:00 123                        /usr/bin/podo": true,
		"00400000-0a000000 r-xp 00000000 fe:00 123                        /usr/bin/podo": false,
		"00400000-0a000000 rw-p 00000000 fe:00 123                        /usr/bin/podo": false,
		"00400000-0a000000 r--s 00000000 fe:00 123                        /usr/bin/podo": false,
		"00400000-0a000000 r--p 00000000 fe:00 123                        /usr/lib/x.so": false,
		"7f0000000000-7f0000001000 r--p 00000000 00:00 0 ":                               false,
		"": false,
	} {
		from, to, ok := readOnly(line, "/usr/bin/podo")
		if ok != want {
			t.Errorf("%q: %v", line, ok)
		}
		if ok && (from != 0x400000 || to != 0xa000000) {
			t.Errorf("%q: %x-%x", line, from, to)
		}
	}
	forget() // and it harms nobody
	if _, err := Embedded(); err != nil && err != ErrMissing {
		t.Error(err)
	}
}
