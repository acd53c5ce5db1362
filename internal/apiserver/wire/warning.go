package wire

import (
	"slices"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Bounds of the warnings in an answer's header, in runes: of all together and, when they are too long, of each.
const (
	warningsRunes = 4 << 10
	warningRunes  = 256
)

// warnings are told once each, in order.
type warnings []string

func (l *warnings) add(text string) {
	if text != "" && !slices.Contains(*l, text) {
		*l = append(*l, text)
	}
}

// headers are the warnings as header lines: in full when they fit, otherwise the beginning of each, as many as fit.
func (l warnings) headers() []string {
	total := 0
	for _, text := range l {
		total += utf8.RuneCountInString(text)
	}
	var out []string
	written := 0
	for _, text := range l {
		if total > warningsRunes {
			if written >= warningsRunes {
				break
			}
			if r := []rune(text); len(r) > warningRunes {
				text = string(r[:warningRunes])
			}
		}
		if h, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			written += utf8.RuneCountInString(text)
			out = append(out, h)
		}
	}
	return out
}
