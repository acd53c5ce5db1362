// Package openapi is what the server publishes about its API: OpenAPI v3, one document a group version, and v2, one for all.
//
// The schemas of the types are generated (tools/openapigen) and carried compressed; the paths come from the table of kinds.
// Documents are put together when somebody asks, and are held only as long as somebody reads them; what stays is their hash.
package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// Docs are the documents of one server. Its methods may be called from several goroutines.
type Docs struct {
	version string // of the server, as in /version
	kinds   []*registry.Kind

	v2 document
	v3 map[string]*document // by path below /openapi/v3: "api/v1"
}

// New makes the documents of a server of the given version ("v1.37.2") that serves the kinds.
func New(kinds []*registry.Kind, version string) *Docs {
	d := &Docs{version: version, kinds: kinds, v3: map[string]*document{}}
	d.v2.build = d.buildV2
	core := schema.GroupVersion{Version: "v1"}
	add := func(path string, gv schema.GroupVersion, paths func() []path3) {
		d.v3[path] = &document{build: func() ([]byte, error) { return d.buildV3(paths(), core, gv) }}
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

// V3 is the document of a path such as "api/v1" or "apis/coordination.k8s.io/v1"; ok is false when there is none.
func (d *Docs) V3(path string) (text []byte, hash string, ok bool, err error) {
	doc, ok := d.v3[path]
	if !ok {
		return nil, "", false, nil
	}
	text, hash, err = doc.get()
	return text, hash, true, err
}

// V2 is the document of version 2, of everything that is served.
func (d *Docs) V2() (text []byte, hash string, err error) { return d.v2.get() }

// document is built when asked for, and again when it has been collected meanwhile.
type document struct {
	build func() ([]byte, error)

	mu   sync.Mutex
	hash string
	text weak.Pointer[[]byte]
}

func (d *document) get() ([]byte, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.text.Value(); held != nil {
		return *held, d.hash, nil
	}
	text, err := d.build()
	if err != nil {
		return nil, "", err
	}
	if d.hash == "" { // the same content every time
		d.hash = hashOf(text)
	}
	held := new([]byte)
	*held = text
	d.text = weak.Make(held)
	return *held, d.hash, nil
}

// hashed is the hash alone, for which the document is built at most once.
func (d *document) hashed() (string, error) {
	d.mu.Lock()
	hash := d.hash
	d.mu.Unlock()
	if hash != "" {
		return hash, nil
	}
	_, hash, err := d.get()
	return hash, err
}

func hashOf(text []byte) string { return fmt.Sprintf("%X", sha512.Sum512(text)) }
