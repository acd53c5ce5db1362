package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// value is JSON with what is in it. Its texts are parts of the document's.
//
// Documents are our own, and megabytes of them are read when the first client comes: this reads them several times as fast as
// encoding/json. What is no JSON is an error; that all of it is JSON is not made sure of.
type value struct {
	raw     []byte
	members []member // of an object, in the document's order
	items   []value  // of a list
}

type member struct {
	name  string
	value value
}

var errNotJSON = errors.New("this is not JSON")

func (v *value) member(name string) *value {
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value
		}
	}
	return nil
}

func parse(text []byte) (value, error) {
	v, rest, err := read(text)
	if err == nil && len(blank(rest)) > 0 {
		err = errNotJSON
	}
	return v, err
}

// read is the value that a text begins with, and what follows it.
func read(text []byte) (v value, rest []byte, err error) {
	text = blank(text)
	if len(text) == 0 {
		return v, nil, errNotJSON
	}
	switch text[0] {
	case '{', '[':
		rest, err = each(text, func(name, text []byte) ([]byte, error) {
			in, rest, err := read(text)
			if err != nil {
				return nil, err
			}
			if name == nil {
				v.items = append(v.items, in)
				return rest, nil
			}
			name, err = unquote(name)
			v.members = append(v.members, member{string(name), in})
			return rest, err
		})
		if err != nil {
			return v, nil, err
		}
	default:
		if rest, err = skip(text); err != nil {
			return v, nil, err
		}
	}
	v.raw = text[:len(text)-len(rest)]
	return v, rest, nil
}

// each calls visit for what an object or a list contains, with the name in its quotes, nil in a list, and the text from the value on;
// visit returns what follows the value.
func each(text []byte, visit func(name, text []byte) ([]byte, error)) (rest []byte, err error) {
	end := text[0] + 2 // both in ASCII
	for text = blank(text[1:]); len(text) > 0 && text[0] != end; {
		var name []byte
		if end == '}' {
			if rest, err = skip(text); err != nil {
				return nil, err
			}
			name = text[:len(text)-len(rest)]
			if text = blank(rest); len(text) == 0 || text[0] != ':' {
				return nil, errNotJSON
			}
			text = text[1:]
		}
		if text, err = visit(name, text); err != nil {
			return nil, err
		}
		if text = blank(text); len(text) > 0 && text[0] == ',' {
			text = blank(text[1:])
		}
	}
	if len(text) == 0 {
		return nil, errNotJSON
	}
	return text[1:], nil
}

// skip is what follows a value.
func skip(text []byte) (rest []byte, err error) {
	text = blank(text)
	if len(text) == 0 {
		return nil, errNotJSON
	}
	switch text[0] {
	case '{', '[':
		return each(text, func(_, text []byte) ([]byte, error) { return skip(text) })
	case '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return text[i+1:], nil
			}
		}
		return nil, errNotJSON
	}
	n := bytes.IndexAny(text, ",]} \n\t\r")
	if n < 0 {
		n = len(text)
	}
	if n == 0 {
		return nil, errNotJSON
	}
	return text[n:], nil
}

func blank(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

// unquote may return a part of raw.
func unquote(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, fmt.Errorf("%.40s is no text", raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err
}

// appendObject writes members in the order of their names; they are sorted in place.
func appendObject(out []byte, members []member, put func([]byte, *member) []byte) []byte {
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	out = append(out, '{')
	for i := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, members[i].name...) // names of fields and types need no escapes
		out = append(out, '"', ':')
		out = put(out, &members[i])
	}
	return append(out, '}')
}
