// Package openapi is what the server publishes about its API: OpenAPI v3, one document a group version, and v2, one for all.
//
// The schemas of the types are generated (tools/openapigen) and carried compressed; the paths come from the table of kinds.
// What most clients take of a release, protobuf, is carried whole and compressed (carried.go). Everything else is put together when somebody
// asks for the first time. What is kept of that is compressed, a tenth of its size, in those forms that somebody has asked for.
package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// Docs are the documents of one server. Its methods may be called from several goroutines.
type Docs struct {
	version string // of the server, as in /version
	kinds   []*registry.Kind

	v2 document
	v3 map[string]*document // by path below /openapi/v3: "api/v1"

	building sync.Mutex            // one document at a time
	schemas  weak.Pointer[schemas] // what the last one was made of: they are asked for together
}

// New makes the documents of a server of the given version ("v1.37.2") that serves the kinds.
func New(kinds []*registry.Kind, version string) *Docs {
	d := &Docs{version: version, kinds: kinds, v3: map[string]*document{}}
	d.v2.build = d.making(d.buildV2)
	core := schema.GroupVersion{Version: "v1"}
	add := func(path string, gv schema.GroupVersion, paths func() []path3) {
		d.v3[path] = &document{build: d.making(func(s *schemas) ([]byte, error) { return d.buildV3(s, paths(), core, gv) })}
	}
	for name, build := range roots {
		add(name, core, build)
	}
	for _, gv := range d.groupVersions() {
		if gv.Group != "" {
			add("apis/"+gv.Group, gv, func() []path3 { return groupPaths(gv.Group) })
		}
		add(gvPath(gv), gv, func() []path3 { return d.gvPaths(gv) })
	}
	return d
}

// making makes a document of the schemas.
func (d *Docs) making(build func(*schemas) ([]byte, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		d.building.Lock()
		defer d.building.Unlock()
		return build(d.known())
	}
}

// known are the schemas, as long as somebody needs them; d.building is held.
func (d *Docs) known() *schemas {
	s := d.schemas.Value()
	if s == nil {
		s = newSchemas()
		d.schemas = weak.Make(s)
	}
	return s
}

func (d *Docs) groupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, k := range d.kinds {
		if gv := k.GroupVersion(); !slices.Contains(out, gv) {
			out = append(out, gv)
		}
	}
	return out
}

// gvPath is where a group version is served, without the slash in front.
func gvPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// V3Index lists the documents of version 3, each with a URL that changes with its content.
func (d *Docs) V3Index() (text []byte, hash string, err error) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	d.building.Lock()
	defer runtime.KeepAlive(d.known()) // for all of them
	d.building.Unlock()
	paths := make(map[string]entry, len(d.v3))
	for path, doc := range d.v3 {
		hash, err := doc.hashed()
		if err != nil {
			return nil, "", err
		}
		paths[path] = entry{"/openapi/v3/" + path + "?hash=" + hash}
	}
	text, err = json.Marshal(map[string]any{"paths": paths})
	return text, hashOf(text), err
}

// V3 is the JSON of the document of a path such as "api/v1" or "apis/coordination.k8s.io/v1"; ok is false when there is none.
func (d *Docs) V3(path string) (text []byte, hash string, ok bool, err error) {
	doc, ok := d.v3[path]
	if !ok {
		return nil, "", false, nil
	}
	text, hash, err = doc.get()
	return text, hash, true, err
}

// V2 is the JSON of the document of version 2, of everything that is served.
func (d *Docs) V2() (text []byte, hash string, err error) { return d.v2.get() }

// document is built when it is asked for first, unless it is carried.
type document struct {
	build   func() ([]byte, error)
	carried *carried // nil: all of it is built

	mu    sync.Mutex
	hash  string               // of its JSON
	forms map[*encoding][]byte // compressed; the JSON is there when the hash is
}

// get is the document in JSON.
func (d *document) get() (text []byte, hash string, err error) {
	packed, err := d.in(asJSON)
	if err != nil {
		return nil, "", err
	}
	text, err = unpack(packed)
	return text, hashOf(text), err
}

// in is the document in a form, compressed.
func (d *document) in(e *encoding) ([]byte, error) {
	if d.carried != nil && e == d.carried.form {
		return data.ReadFile(d.carried.file)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forms[e] != nil {
		return d.forms[e], nil
	}
	var text []byte
	var err error
	if json := d.forms[asJSON]; json != nil {
		text, err = unpack(json)
	} else {
		text, err = d.build()
	}
	if err != nil {
		return nil, err
	}
	if d.forms == nil {
		d.hash, d.forms = hashOf(text), map[*encoding][]byte{asJSON: pack(text)}
	}
	if e != asJSON {
		body, err := e.encode(text)
		if err != nil {
			return nil, err
		}
		d.forms[e] = pack(body)
	}
	return d.forms[e], nil
}

// hashed is the hash of the JSON.
func (d *document) hashed() (string, error) {
	if d.carried != nil {
		return d.carried.hash, nil
	}
	if _, err := d.in(asJSON); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hash, nil
}

// A first client has all of them packed twice, once for their hashes and once as it asks for them: speed counts more than a tenth in size.
var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, 2) // there is such a level
	return w
}}

func pack(text []byte) []byte {
	var b bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	w.Write(text) // to memory: cannot fail
	w.Close()
	return bytes.Clone(b.Bytes())
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text := make([]byte, binary.LittleEndian.Uint32(packed[len(packed)-4:])) // how long it is comes last
	_, err = io.ReadFull(r, text)
	return text, err
}

func hashOf(text []byte) string { return fmt.Sprintf("%X", sha512.Sum512(text)) }
