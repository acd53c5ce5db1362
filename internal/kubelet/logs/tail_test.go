package logs

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The last n lines of a log, found the slow way.
func slowTail(entries []string, n int) (offset int) {
	total, seen := 0, 0
	for _, e := range entries {
		total += len(e)
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e[len(e)-1] == '\n' && !isPartial([]byte(e)) {
			if seen++; seen > n {
				break
			}
		}
		total -= len(entries[i])
	}
	return total
}

func TestTailOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []string
		for i := range rapid.IntRange(0, 12).Draw(t, "entries") {
			size := rapid.SampledFrom([]int{0, 1, 10, 16 << 10, block - 40, block + 3}).Draw(t, "size")
			entries = append(entries, fmt.Sprintf("2026-01-02T03:04:05.%09dZ %s %s %s\n", i,
				rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "stream"), rapid.SampledFrom([]string{"P", "F", "F:x"}).Draw(t, "tag"),
				bytes.Repeat([]byte{'x'}, size)))
		}
		if len(entries) > 0 && rapid.Bool().Draw(t, "unfinished") {
			entries = append(entries, "2026-01-02T03:04:05Z stdout F half")
		}
		var file []byte
		for _, e := range entries {
			file = append(file, e...)
		}
		n := rapid.IntRange(1, 14).Draw(t, "n")
		got, err := tailOffset(bytes.NewReader(file), int64(len(file)), int64(n))
		if want := slowTail(entries, n); err != nil || got != int64(want) {
			t.Fatalf("offset %d, want %d (%v)", got, want, err)
		}
	})
}
