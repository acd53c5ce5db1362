package words

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// A word is held once, however much later it comes again; what is held is bounded.
func TestOnce(t *testing.T) {
	at := func(s string) *byte { return unsafe.StringData(Once(strings.Clone(s))) }
	first := at("CrashLoopBackOff")
	for range 3 {
		runtime.GC()
	}
	if at("CrashLoopBackOff") != first {
		t.Error("a word is held twice")
	}
	long := strings.Repeat("x", longest+1)
	if Once("") != "" || Once(long) != long || held[long] != "" {
		t.Error("a text that is no word is held")
	}
	for i := range 2 * most {
		if s := fmt.Sprint(i); Once(s) != s || len(held) > most {
			t.Fatalf("%s became %q, %d are held", s, Once(s), len(held))
		}
	}
}
