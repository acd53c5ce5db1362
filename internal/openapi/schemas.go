package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// data has a file a Go package, the v3 schemas of its types by their published names, and below carried a file a document.
//
//go:generate go run podo.dev/podo/tools/openapigen
//go:generate go test -run TestCarried . -update
//go:embed data/*.json.gz data/carried/*
var data embed.FS

// schemas decompresses those files that are needed, each once. It is for one goroutine at a time.
type schemas struct {
	files  map[string]map[string]json.RawMessage // by package, by type
	params map[string][]parameter                // what a type's fields are in a query, by type
}

func newSchemas() *schemas {
	return &schemas{files: map[string]map[string]json.RawMessage{}, params: map[string][]parameter{}}
}

// get is a type's schema; the name says the file it is in.
func (s *schemas) get(name string) (json.RawMessage, error) {
	pkg := name[:strings.LastIndex(name, ".")]
	if s.files[pkg] == nil {
		f, err := data.Open("data/" + pkg + ".json.gz")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r, err := gzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		types := map[string]json.RawMessage{}
		_, err = each(blank(text), func(name, text []byte) ([]byte, error) {
			name, err := unquote(name)
			if err != nil {
				return nil, err
			}
			text = blank(text)
			rest, err := skip(text)
			types[string(name)] = text[:len(text)-len(rest)]
			return rest, err
		})
		if err != nil {
			return nil, fmt.Errorf("schemas of %s: %w", pkg, err)
		}
		s.files[pkg] = types
	}
	raw, ok := s.files[pkg][name]
	if !ok {
		return nil, fmt.Errorf("no schema of %s", name)
	}
	return raw, nil
}

var refs = regexp.MustCompile(`"#/components/schemas/([^"]+)"`)

// closure are the schemas named and those they refer to, with the kinds of the given group versions.
func (s *schemas) closure(names map[string]bool, gvs []schema.GroupVersion) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	var add func(name string) error
	add = func(name string) error {
		if _, ok := out[name]; ok {
			return nil
		}
		raw, err := s.get(name)
		if err != nil {
			return err
		}
		if out[name], err = keepKinds(raw, gvs); err != nil {
			return err
		}
		for _, m := range refs.FindAllSubmatch(raw, -1) {
			if err := add(string(m[1])); err != nil {
				return err
			}
		}
		return nil
	}
	for name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const kindsField = "x-kubernetes-group-version-kind"

// keepKinds leaves out of a model that is of many kinds (DeleteOptions) those of other group versions.
func keepKinds(raw json.RawMessage, gvs []schema.GroupVersion) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(kindsField)) {
		return raw, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	var kinds []struct {
		Group   string `json:"group"`
		Kind    string `json:"kind"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(fields[kindsField], &kinds); err != nil || len(kinds) < 2 {
		return raw, err
	}
	for i := len(kinds) - 1; i >= 0; i-- {
		if !slices.Contains(gvs, schema.GroupVersion{Group: kinds[i].Group, Version: kinds[i].Version}) {
			kinds = slices.Delete(kinds, i, i+1)
		}
	}
	left, err := json.Marshal(kinds)
	if err != nil {
		return nil, err
	}
	fields[kindsField] = left
	return json.Marshal(fields)
}
