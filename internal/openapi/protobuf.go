package openapi

import (
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
	v, err := parse(text)
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
	if string(v.raw) == `""` {
		return out
	}
	return element(c, out, num, v)
}

// element is a text in a list, where an empty one counts too.
func element(c *converter, out []byte, num protowire.Number, v *value) []byte {
	s, err := unquote(v.raw)
	if err != nil {
		c.fail("%w", err)
	}
	return protowire.AppendBytes(protowire.AppendTag(out, num, protowire.BytesType), s)
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
