package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/google/gnostic-models/compiler"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// The protobuf forms of both versions are gnostic's. Its own way there is to read the JSON as YAML, which takes a second for all documents;
// here the JSON is turned into the message directly, by tables of those fields that our documents have. A test compares all documents.

// writer turns a value into the field of that number.
type writer func(c *converter, out []byte, num protowire.Number, v *value) []byte

type field struct {
	num protowire.Number
	put writer
}

// message is how an object's members are the fields of a message.
type message struct {
	fields     map[string]field
	extensions protowire.Number // of members that begin with x-
	named      field            // of all other members: a list of names and values; nothing when its number is 0
}

// converter writes one document.
type converter struct {
	yaml map[string][]byte // of JSON: few texts come up again and again
	err  error
}

func convert(m *message, text []byte) ([]byte, error) {
	v, rest, err := parse(text)
	if err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = fmt.Errorf("something follows the document: %.20q", rest)
	}
	if err != nil {
		return nil, err
	}
	c := &converter{yaml: map[string][]byte{}}
	out := c.message(make([]byte, 0, len(text)), m, &v)
	return out, c.err
}

func (c *converter) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *converter) message(out []byte, m *message, v *value) []byte {
	if v.raw[0] != '{' {
		c.fail("%.40s stands where an object should", v.raw)
	}
	for i := range v.members {
		name, in := v.members[i].name, &v.members[i].value
		switch f, ok := m.fields[name]; {
		case ok:
			out = f.put(c, out, f.num, in)
		case m.extensions != 0 && len(name) > 2 && name[:2] == "x-":
			out = c.pair(out, m.extensions, name, in, anyValue)
		case m.named.num != 0:
			out = c.pair(out, m.named.num, name, in, m.named.put)
		default:
			c.fail("a member %q is in none of our documents", name)
		}
	}
	return out
}

// pair is a name and a value.
func (c *converter) pair(out []byte, num protowire.Number, name string, v *value, put writer) []byte {
	return nested(out, num, func(out []byte) []byte {
		out = protowire.AppendString(protowire.AppendTag(out, 1, protowire.BytesType), name)
		return put(c, out, 2, v)
	})
}

// nested writes a field of a length that is known only when it has been written.
func nested(out []byte, num protowire.Number, write func([]byte) []byte) []byte {
	out = protowire.AppendTag(out, num, protowire.BytesType)
	const room = 2 // most are shorter than 16 kB
	at := len(out)
	out = write(append(out, make([]byte, room)...))
	n := len(out) - at - room
	size := protowire.SizeVarint(uint64(n))
	if size != room {
		out = append(out, make([]byte, max(0, size-room))...)
		copy(out[at+size:], out[at+room:at+room+n])
		out = out[:at+size+n]
	}
	protowire.AppendVarint(out[:at:at+size], uint64(n))
	return out
}

// in is a message within a field.
func in(m *message) writer {
	return func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		return nested(out, num, func(out []byte) []byte { return c.message(out, m, v) })
	}
}

// wrapped is a value that is the field with the number in a message of its own.
func wrapped(inner protowire.Number, put writer) writer {
	return func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		return nested(out, num, func(out []byte) []byte { return put(c, out, inner, v) })
	}
}

// list is a repeated field.
func list(put writer) writer {
	return func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		if v.raw[0] != '[' {
			c.fail("%.40s stands where a list should", v.raw)
		}
		for i := range v.items {
			out = put(c, out, num, &v.items[i])
		}
		return out
	}
}

func str(c *converter, out []byte, num protowire.Number, v *value) []byte {
	s := c.text(v)
	if s == "" {
		return out
	}
	return element(c, out, num, v)
}

// element is a text in a list, where an empty one counts too.
func element(c *converter, out []byte, num protowire.Number, v *value) []byte {
	return protowire.AppendString(protowire.AppendTag(out, num, protowire.BytesType), c.text(v))
}

func (c *converter) text(v *value) string {
	s, err := unquote(v.raw)
	if err != nil {
		c.fail("%.40s: %w", v.raw, err)
	}
	return s
}

func boolean(_ *converter, out []byte, num protowire.Number, v *value) []byte {
	if v.raw[0] != 't' {
		return out
	}
	return choice(nil, out, num, v)
}

// choice is a boolean of which it counts that it is there.
func choice(_ *converter, out []byte, num protowire.Number, v *value) []byte {
	return protowire.AppendVarint(protowire.AppendTag(out, num, protowire.VarintType), protowire.EncodeBool(v.raw[0] == 't'))
}

func number(c *converter, out []byte, num protowire.Number, v *value) []byte {
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		c.fail("%w", err)
	}
	return protowire.AppendFixed64(protowire.AppendTag(out, num, protowire.Fixed64Type), math.Float64bits(f))
}

// anyValue is a message with the value as YAML.
func anyValue(c *converter, out []byte, num protowire.Number, v *value) []byte {
	text, ok := c.yaml[string(v.raw)]
	if !ok {
		var node yaml.Node
		if err := yaml.Unmarshal(v.raw, &node); err != nil || len(node.Content) != 1 {
			c.fail("%.40s as YAML: %w", v.raw, err)
			return out
		}
		text = compiler.Marshal(node.Content[0])
		c.yaml[string(v.raw)] = text
	}
	return nested(out, num, func(out []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), text)
	})
}

// pairs is a message that is a list of names and values.
func pairs(put writer) *message { return &message{named: field{1, put}} }

// What follows names the fields of gnostic's openapiv3 and openapiv2.

var document3 = func() *message {
	schema := &message{extensions: 36}
	schemaOrReference := func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		return nested(out, num, func(out []byte) []byte {
			if ref := v.member("$ref"); ref != nil {
				return nested(out, 2, func(out []byte) []byte { return str(c, out, 1, ref) })
			}
			return nested(out, 1, func(out []byte) []byte { return c.message(out, schema, v) })
		})
	}
	additional := func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		if v.raw[0] == '{' {
			return wrapped(1, schemaOrReference)(c, out, num, v)
		}
		return wrapped(2, choice)(c, out, num, v)
	}
	// What is neither text, number nor boolean is left out, and seen to be.
	defaults := func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		return nested(out, num, func(out []byte) []byte {
			switch v.raw[0] {
			case 't', 'f':
				return choice(c, out, 2, v)
			case '"':
				return element(c, out, 3, v)
			case '{', '[', 'n':
				return out
			}
			return number(c, out, 1, v)
		})
	}
	schema.fields = map[string]field{
		"nullable": {1, boolean}, "maximum": {11, number}, "minimum": {13, number}, "pattern": {17, str}, "uniqueItems": {20, boolean},
		"required": {23, list(element)}, "enum": {24, list(anyValue)}, "type": {25, str}, "allOf": {26, list(schemaOrReference)},
		"oneOf": {27, list(schemaOrReference)}, "anyOf": {28, list(schemaOrReference)}, "items": {30, wrapped(1, schemaOrReference)},
		"properties": {31, in(pairs(schemaOrReference))}, "additionalProperties": {32, additional}, "default": {33, defaults},
		"description": {34, str}, "format": {35, str},
	}
	content := in(pairs(in(&message{fields: map[string]field{"schema": {1, schemaOrReference}}})))
	parameter := &message{fields: map[string]field{
		"name": {1, str}, "in": {2, str}, "description": {3, str}, "required": {4, boolean}, "schema": {10, schemaOrReference},
	}}
	response := &message{fields: map[string]field{"description": {1, str}, "content": {3, content}}}
	body := &message{fields: map[string]field{"description": {1, str}, "content": {2, content}, "required": {3, boolean}}}
	parameters := list(wrapped(1, in(parameter)))
	operation := in(&message{extensions: 13, fields: map[string]field{
		"tags": {1, list(element)}, "description": {3, str}, "operationId": {5, str}, "parameters": {6, parameters},
		"requestBody": {7, wrapped(1, in(body))}, "responses": {8, in(&message{named: field{2, wrapped(1, in(response))}})},
	}})
	path := &message{fields: map[string]field{
		"get": {4, operation}, "put": {5, operation}, "post": {6, operation}, "delete": {7, operation}, "options": {8, operation},
		"head": {9, operation}, "patch": {10, operation}, "parameters": {13, parameters},
	}}
	scheme := &message{fields: map[string]field{"type": {1, str}, "description": {2, str}, "name": {3, str}, "in": {4, str}}}
	components := &message{fields: map[string]field{
		"schemas": {1, in(pairs(schemaOrReference))}, "securitySchemes": {7, in(pairs(wrapped(1, in(scheme))))},
	}}
	info := &message{fields: map[string]field{"title": {1, str}, "version": {6, str}}}
	return &message{fields: map[string]field{
		"openapi": {1, str}, "info": {2, in(info)}, "paths": {4, in(pairs(in(path)))}, "components": {5, in(components)},
	}}
}()

var document2 = func() *message {
	schema := &message{extensions: 31}
	model := in(schema)
	additional := func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		if v.raw[0] == '{' {
			return wrapped(1, model)(c, out, num, v)
		}
		return wrapped(2, choice)(c, out, num, v)
	}
	schema.fields = map[string]field{
		"$ref": {1, str}, "format": {2, str}, "description": {4, str}, "maximum": {7, number}, "minimum": {9, number}, "pattern": {13, str},
		"uniqueItems": {16, boolean}, "required": {19, list(element)}, "enum": {20, list(anyValue)}, "additionalProperties": {21, additional},
		"type": {22, wrapped(1, element)}, "items": {23, wrapped(1, model)}, "allOf": {24, list(model)}, "properties": {25, in(pairs(model))},
	}
	body := &message{fields: map[string]field{"description": {1, str}, "name": {2, str}, "in": {3, str}, "required": {4, boolean}, "schema": {5, model}}}
	query := &message{fields: map[string]field{
		"required": {1, boolean}, "in": {2, str}, "description": {3, str}, "name": {4, str}, "type": {6, str}, "uniqueItems": {20, boolean},
	}}
	path := &message{fields: map[string]field{
		"required": {1, boolean}, "in": {2, str}, "description": {3, str}, "name": {4, str}, "type": {5, str}, "uniqueItems": {19, boolean},
	}}
	parameters := list(func(c *converter, out []byte, num protowire.Number, v *value) []byte {
		var put writer
		switch where := v.member("in"); {
		case where == nil:
			c.fail("a parameter is nowhere: %.40s", v.raw)
			return out
		case string(where.raw) == `"body"`:
			put = wrapped(1, in(body))
		case string(where.raw) == `"query"`:
			put = wrapped(2, wrapped(3, in(query)))
		default:
			put = wrapped(2, wrapped(4, in(path)))
		}
		return wrapped(1, put)(c, out, num, v)
	})
	response := &message{fields: map[string]field{"description": {1, str}, "schema": {2, wrapped(1, model)}}}
	operation := in(&message{extensions: 13, fields: map[string]field{
		"tags": {1, list(element)}, "description": {3, str}, "operationId": {5, str}, "produces": {6, list(element)}, "consumes": {7, list(element)},
		"parameters": {8, parameters}, "responses": {9, in(pairs(wrapped(1, in(response))))}, "schemes": {10, list(element)},
	}})
	item := &message{fields: map[string]field{
		"get": {2, operation}, "put": {3, operation}, "post": {4, operation}, "delete": {5, operation}, "options": {6, operation},
		"head": {7, operation}, "patch": {8, operation}, "parameters": {9, parameters},
	}}
	scheme := &message{fields: map[string]field{"type": {1, str}, "name": {2, str}, "in": {3, str}, "description": {4, str}}}
	info := &message{fields: map[string]field{"title": {1, str}, "version": {2, str}}}
	return &message{fields: map[string]field{
		"swagger": {1, str}, "info": {2, in(info)}, "paths": {8, in(&message{named: field{2, in(item)}})}, "definitions": {9, in(pairs(model))},
		"security":            {12, list(in(pairs(wrapped(1, list(element)))))},
		"securityDefinitions": {13, in(pairs(wrapped(2, in(scheme))))},
	}}
}()

// value is JSON with what is in it. Its texts are parts of the document's.
type value struct {
	raw     []byte
	members []member // of an object, in the document's order
	items   []value  // of a list
}

type member struct {
	name  string
	value value
}

func (v *value) member(name string) *value {
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value
		}
	}
	return nil
}

// parse reads a document of our own making: what is not JSON is found, but not told apart.
func parse(text []byte) (v value, rest []byte, err error) {
	text = blank(text)
	if len(text) == 0 {
		return v, nil, errNotJSON
	}
	switch all := text; text[0] {
	case '{', '[':
		end := text[0] + 2 // both in ASCII
		for text = blank(text[1:]); len(text) > 0 && text[0] != end; {
			var m member
			if end == '}' {
				var name value
				if name, text, err = parse(text); err != nil {
					return v, nil, err
				}
				if m.name, err = unquote(name.raw); err != nil {
					return v, nil, err
				}
				if text = blank(text); len(text) == 0 || text[0] != ':' {
					return v, nil, errNotJSON
				}
				text = text[1:]
			}
			if m.value, text, err = parse(text); err != nil {
				return v, nil, err
			}
			if end == '}' {
				v.members = append(v.members, m)
			} else {
				v.items = append(v.items, m.value)
			}
			if text = blank(text); len(text) > 0 && text[0] == ',' {
				text = blank(text[1:])
			}
		}
		if len(text) == 0 {
			return v, nil, errNotJSON
		}
		text = text[1:]
		v.raw = all[:len(all)-len(text)]
		return v, text, nil
	case '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return value{raw: text[:i+1]}, text[i+1:], nil
			}
		}
		return v, nil, errNotJSON
	default:
		n := bytes.IndexAny(text, ",]} \n\t\r")
		if n < 0 {
			n = len(text)
		}
		if n == 0 {
			return v, nil, errNotJSON
		}
		return value{raw: text[:n]}, text[n:], nil
	}
}

var errNotJSON = fmt.Errorf("this is not JSON")

func blank(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

func unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", fmt.Errorf("%.40s is no text", raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}
