package podlife

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// C11.
func TestTerminationMessage(t *testing.T) {
	big := []byte(strings.Repeat("a", 6000) + strings.Repeat("b", 4096))
	short := []byte(strings.Repeat("line\n", 200))
	long := []byte(strings.Repeat("0123456789012345678901234567890123456789\n", 200))
	for _, x := range []struct {
		name      string
		policy    v1.TerminationMessagePolicy
		code      int32
		file, log []byte
		want      string
	}{
		{"end of the file", v1.TerminationMessageReadFile, 1, big, nil, strings.Repeat("b", 4096)},
		{"80 lines of the log", v1.TerminationMessageFallbackToLogsOnError, 1, nil, short, strings.Repeat("line\n", 80)},
		{"2048 bytes of the log", v1.TerminationMessageFallbackToLogsOnError, 1, nil, long, string(long[len(long)-2048:])},
		{"no log after success", v1.TerminationMessageFallbackToLogsOnError, 0, nil, short, "runtime"},
		{"no log by default", v1.TerminationMessageReadFile, 1, nil, short, "runtime"},
		{"the file wins", v1.TerminationMessageFallbackToLogsOnError, 1, []byte("mine"), short, "mine"},
	} {
		if got := TerminationMessage(x.policy, x.code, x.file, x.log, "runtime"); got != x.want {
			t.Errorf("%s: %d bytes, want %d", x.name, len(got), len(x.want))
		}
	}
	if got := len(bounded(string(big), 4)); got != 3072 {
		t.Errorf("share of four containers: %d", got)
	}
	for message, want := range map[string]string{
		"": "", "한글\n": "한글\n", "a\xff\xfeb\x00c": "a\uFFFD\uFFFDb\x00c",
		"한"[1:] + "글":                   "\uFFFD\uFFFD글", // as the end of a file begins
		strings.Repeat("a", 3071) + "한": strings.Repeat("a", 3071) + "\uFFFD",
	} {
		if got := bounded(message, 4); got != want {
			t.Errorf("%.20q: %.20q, want %.20q", message, got, want)
		}
	}
}
