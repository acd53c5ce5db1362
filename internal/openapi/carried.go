package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"podo.dev/podo/internal/registry"
)

// carriedDir has the documents of a release in protobuf and packed, and the hashes of their JSON in index.json. They are written by
// `go generate`; TestCarried tells when they are not what would be built.
const carriedDir = "data/carried/"

// Index is what is said of the documents that are carried.
type Index struct {
	Version string            `json:"version"` // of the server that publishes them
	V2      string            `json:"v2"`      // hash
	V3      map[string]string `json:"v3"`      // hashes by path below /openapi/v3
}

// carried is the one form of a document that needs no building. Nothing of it is kept in memory: the file is a part of the program.
type carried struct {
	form *encoding
	file string
	hash string
}

// CarriedFile is where a document is carried: "v2", or a path below /openapi/v3.
func CarriedFile(path string) string {
	return carriedDir + strings.ReplaceAll(path, "/", "_") + ".pb.gz"
}

// Release are the documents of a server that serves every kind there is. A version that is not the carried one's has all of them built.
func Release(version string) (*Docs, error) {
	d := New(registry.All(), version)
	text, err := data.ReadFile(carriedDir + "index.json")
	if err != nil {
		return nil, err
	}
	var index Index
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("the index of carried documents: %w", err)
	}
	if index.Version != version {
		return d, nil
	}
	d.v2.carried = &carried{asProtobuf2, CarriedFile("v2"), index.V2}
	for path, doc := range d.v3 {
		if hash := index.V3[path]; hash != "" {
			doc.carried = &carried{asProtobuf3, CarriedFile(path), hash}
		}
	}
	return d, nil
}
