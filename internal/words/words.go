// Package words holds texts that many objects have, once: reasons and phases, names of containers and images. Package unique would forget one as
// soon as nobody holds its handle, at the next collection, though the text itself is held: what comes later would have it a second time.
package words

import (
	"strings"
	"sync"
)

// Bounds of what is held: then it begins anew, and longer texts are nobody's words.
const (
	most    = 2000
	longest = 256 // bytes
)

var (
	mu   sync.RWMutex
	held = map[string]string{}
)

// Once is the text as it is held for all who have it.
func Once(s string) string {
	if s == "" || len(s) > longest {
		return s
	}
	mu.RLock()
	word, ok := held[s]
	mu.RUnlock()
	if ok {
		return word
	}
	mu.Lock()
	defer mu.Unlock()
	if word, ok := held[s]; ok {
		return word
	}
	if len(held) >= most {
		held = map[string]string{}
	}
	s = strings.Clone(s) // it may be a part of something larger
	held[s] = s
	return s
}
