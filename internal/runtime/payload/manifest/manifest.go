// Package manifest is the list of what the payload holds. `make payload` writes it, package payload reads it; it stands alone so
// that the tool which makes the payload does not itself carry one.
package manifest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// Name is the manifest's file name, beside the packed files.
const Name = "manifest.json"

// Suffix is what a packed file's name has after the entry's: the packing is zstd.
const Suffix = ".zst"

// Entry is one carried file.
type Entry struct {
	Name    string `json:"name"`           // plain file name once unpacked
	Version string `json:"version"`        // of the program, as its module calls it
	Size    int64  `json:"size"`           // bytes, unpacked
	SHA256  string `json:"sha256"`         // of the unpacked bytes, hexadecimal
	Packed  int64  `json:"packed"`         // bytes inside podo
	Build   string `json:"build"`          // key of how it was built: source, version, flags, compiler
	Lazy    bool   `json:"lazy,omitempty"` // unpacked when first asked for, not at start
}

// Manifest lists all entries, sorted by name.
type Manifest struct {
	Arch    string  `json:"arch"` // GOARCH that the programs are for
	Entries []Entry `json:"entries"`
}

// Find returns the entry called name.
func (m *Manifest) Find(name string) (Entry, bool) {
	for _, e := range m.Entries {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Read reads and checks the manifest in fsys. The error of a missing one satisfies errors.Is(err, fs.ErrNotExist).
func Read(fsys fs.FS) (*Manifest, error) {
	data, err := fs.ReadFile(fsys, Name)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	for _, e := range m.Entries {
		// Names become paths under the data directory.
		if e.Name == "" || strings.HasPrefix(e.Name, ".") || strings.ContainsAny(e.Name, "/\\\x00") || len(e.SHA256) != 64 || e.Size <= 0 {
			return nil, fmt.Errorf("%s: entry %q is damaged", Name, e.Name)
		}
	}
	return m, nil
}

// Encode gives the manifest's file content; equal manifests give equal bytes.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}
