// Package expand is how names of variables are replaced in what containers are given and probes run. It is pure.
package expand

import "strings"

// Refs replaces $(NAME) by what lookup says, and leaves it as it is when lookup knows no such name. $$ is a single $, and
// never begins a reference; a $ before anything else, or a reference without its end, stays as it is (case C21).
func Refs(s string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		s = after
		switch {
		case strings.HasPrefix(s, "$"):
			out.WriteByte('$')
			s = s[1:]
		case strings.HasPrefix(s, "("):
			name, rest, closed := strings.Cut(s[1:], ")")
			if !closed {
				out.WriteString("$(")
				s = s[1:]
				continue
			}
			value, ok := lookup(name)
			if !ok {
				value = "$(" + name + ")"
			}
			out.WriteString(value)
			s = rest
		default:
			out.WriteByte('$')
		}
	}
}
