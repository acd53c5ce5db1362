package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a JSON object; its keys are written in order.
type object = map[string]any

// parameter is one of an operation or of a path.
type parameter struct {
	name, in, description string
	typ                   string
}

// parameters lists those of an operation by name.
func (s *schemas) parameters(op *operation) ([]parameter, error) {
	var out []parameter
	for _, p := range op.placed {
		out = append(out, parameter{p.name, "path", p.description, "string"})
	}
	if op.pretty {
		out = append(out, parameter{"pretty", "query", prettyDoc, "string"})
	}
	for _, m := range op.params {
		fields, err := s.fields(m)
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			same := func(p parameter) bool { return p.name == f.name && p.in == "query" }
			if !slices.Contains(op.drop, f.name) && !slices.ContainsFunc(out, same) {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b parameter) int { return strings.Compare(a.name, b.name) }) // a path's before a query's
	return out, nil
}

// fields are those of a model that fit in a query.
func (s *schemas) fields(model string) ([]parameter, error) {
	if known, ok := s.params[model]; ok {
		return known, nil
	}
	raw, err := s.get(model)
	if err != nil {
		return nil, err
	}
	var def struct {
		Properties map[string]struct {
			Type        string
			Description string
			Items       struct{ Type string }
		}
	}
	if err := json.Unmarshal(raw, &def); err != nil {
		return nil, err
	}
	var out []parameter
	for name, f := range def.Properties {
		typ := f.Type
		if typ == "array" {
			typ = f.Items.Type
		}
		if typ != "" && name != "kind" && name != "apiVersion" {
			out = append(out, parameter{name, "query", f.Description, typ})
		}
	}
	s.params[model] = out
	return out, nil
}

const prettyDoc = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or " +
	"command-line HTTP tool (curl and wget)."

// form is what differs between the versions of OpenAPI.
type form struct {
	refs      string // what references to models begin with
	parameter func(parameter) object
	operation func(f *form, op *operation, params []parameter) object
}

// items writes paths. What all operations of a path have in common stands at the path.
func (f *form) items(s *schemas, paths []path3) (items object, models map[string]bool, err error) {
	items, models = object{}, map[string]bool{}
	for _, p := range paths {
		item := object{}
		all := make([][]parameter, len(p.ops))
		for i := range p.ops {
			if all[i], err = s.parameters(&p.ops[i]); err != nil {
				return nil, nil, err
			}
		}
		common := slices.DeleteFunc(slices.Clone(all[0]), func(p parameter) bool {
			return slices.ContainsFunc(all, func(list []parameter) bool { return !slices.Contains(list, p) })
		})
		for i := range p.ops {
			op := &p.ops[i]
			own := slices.DeleteFunc(all[i], func(p parameter) bool { return slices.Contains(common, p) })
			item[op.method] = f.operation(f, op, own)
			for _, m := range []string{op.body, op.result} {
				if m != "" && m != "string" {
					models[m] = true
				}
			}
		}
		if len(common) > 0 {
			item["parameters"] = f.list(common)
		}
		items[p.path] = item
	}
	return items, models, nil
}

func (f *form) list(params []parameter) []object {
	out := make([]object, len(params))
	for i, p := range params {
		out[i] = f.parameter(p)
	}
	return out
}

// base is what both versions say of an operation.
func (op *operation) base() object {
	out := object{"description": op.description, "operationId": op.id, "tags": []string{op.tag}}
	if op.action != "" {
		out["x-kubernetes-action"] = op.action
		out["x-kubernetes-group-version-kind"] = object{"group": op.gvk.Group, "version": op.gvk.Version, "kind": op.gvk.Kind}
	}
	return out
}

// reference is the schema of a model, or of text.
func (f *form) reference(model string) object {
	if model == "string" {
		return object{"type": "string"}
	}
	return object{"$ref": f.refs + model}
}

var statusText = map[int]string{200: "OK", 201: "Created", 202: "Accepted"}

func (op *operation) responses(one func() object) object {
	out := object{"401": object{"description": "Unauthorized"}}
	for _, code := range op.results {
		r := one()
		r["description"] = statusText[code]
		out[strconv.Itoa(code)] = r
	}
	return out
}

var form3 = form{
	refs: "#/components/schemas/",
	parameter: func(p parameter) object {
		out := object{"name": p.name, "in": p.in, "description": p.description, "schema": object{"type": p.typ, "uniqueItems": true}}
		if p.in == "path" {
			out["required"] = true
		}
		return out
	},
	operation: func(f *form, op *operation, params []parameter) object {
		content := func(types []string, model string) object {
			out := object{}
			for _, t := range types {
				out[t] = object{"schema": f.reference(model)}
			}
			return out
		}
		out := op.base()
		if len(params) > 0 {
			out["parameters"] = f.list(params)
		}
		if op.body != "" {
			types := anyType
			if op.patch {
				types = patches
			}
			body := object{"content": content(types, op.body)}
			if !op.optionalBody {
				body["required"] = true
			}
			out["requestBody"] = body
		}
		out["responses"] = op.responses(func() object { return object{"content": content(op.produces, op.result)} })
		return out
	},
}

var form2 = form{
	refs: "#/definitions/",
	parameter: func(p parameter) object {
		out := object{"name": p.name, "in": p.in, "description": p.description, "type": p.typ, "uniqueItems": true}
		if p.in == "path" {
			out["required"] = true
		}
		return out
	},
	operation: func(f *form, op *operation, params []parameter) object {
		out := op.base()
		list := f.list(params)
		consumes := anyType
		if op.patch {
			consumes = patches
		}
		if op.body != "" {
			body := object{"name": "body", "in": "body", "schema": f.reference(op.body)}
			if !op.optionalBody {
				body["required"] = true
			}
			list = append([]object{body}, list...)
		}
		if op.action == "" {
			consumes = op.produces
		}
		if len(list) > 0 {
			out["parameters"] = list
		}
		out["consumes"], out["produces"], out["schemes"] = consumes, op.produces, []string{"https"}
		out["responses"] = op.responses(func() object { return object{"schema": f.reference(op.result)} })
		return out
	},
}

var bearer = object{"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}

func (d *Docs) info() object { return object{"title": "Kubernetes", "version": d.version} }

// buildV3 writes a document: the paths, and the models that they use. Models that go over the wire in every group version say so
// of the given ones only.
func (d *Docs) buildV3(s *schemas, paths []path3, gvs ...schema.GroupVersion) ([]byte, error) {
	items, used, err := form3.items(s, paths)
	if err != nil {
		return nil, err
	}
	types, err := s.closure(used, gvs)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{
		"openapi":    "3.0.0",
		"info":       d.info(),
		"paths":      items,
		"components": object{"schemas": types, "securitySchemes": object{"BearerToken": bearer}},
	})
}

func (d *Docs) buildV2(s *schemas) ([]byte, error) {
	paths := slices.Concat(roots["api"](), roots["apis"](), roots["version"]())
	for _, gv := range d.groupVersions() {
		if gv.Group != "" {
			paths = append(paths, groupPaths(gv.Group)...)
		}
		paths = append(paths, d.gvPaths(gv)...)
	}
	items, used, err := form2.items(s, paths)
	if err != nil {
		return nil, err
	}
	types, err := s.closure(used, d.groupVersions())
	if err != nil {
		return nil, err
	}
	definitions := make(map[string]json.RawMessage, len(types))
	for name, raw := range types {
		v, err := parse(raw)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", name, err)
		}
		definitions[name] = older(nil, &v)
	}
	return json.Marshal(object{
		"swagger":             "2.0",
		"info":                d.info(),
		"paths":               items,
		"definitions":         definitions,
		"securityDefinitions": object{"BearerToken": bearer},
		"security":            []object{{"BearerToken": []string{}}},
	})
}

// older writes a schema of version 2 of one of version 3: no defaults, references that are not wrapped, one type.
func older(out []byte, v *value) []byte {
	var members []member
	take := func(from []member) {
		for _, m := range from {
			if m.name != "default" {
				members = append(members, m)
			}
		}
	}
	take(v.members)
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == "allOf" && len(m.value.items) == 1 }); i >= 0 {
		of := members[i].value.items[0].members
		members = slices.Delete(members, i, i+1)
		members = slices.DeleteFunc(members, func(m member) bool {
			return slices.ContainsFunc(of, func(o member) bool { return o.name == m.name })
		})
		take(of)
	}
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == "oneOf" }); i >= 0 {
		members = slices.DeleteFunc(members, func(m member) bool { return m.name == "oneOf" || m.name == "type" })
		members = append(members, member{"type", value{raw: []byte(`"string"`)}})
	}
	return appendObject(out, members, func(out []byte, m *member) []byte {
		switch {
		case m.name == "$ref":
			return append(out, bytes.Replace(m.value.raw, []byte(form3.refs), []byte(form2.refs), 1)...)
		case (m.name == "items" || m.name == "additionalProperties") && m.value.raw[0] == '{':
			return older(out, &m.value)
		case m.name == "properties":
			return appendObject(out, m.value.members, func(out []byte, p *member) []byte { return older(out, &p.value) })
		}
		return append(out, m.value.raw...)
	})
}
