package oracle

import (
	"embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

//go:embed corpus/*.yaml
var corpusFiles embed.FS

// corpus reads the valid manifests of a kind, from corpus/<name>.yaml.
func (k Kind) corpus() ([]runtime.Object, error) {
	b, err := corpusFiles.ReadFile("corpus/" + k.name() + ".yaml")
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for i, doc := range strings.Split(string(b), "\n---\n") {
		obj := k.Podo.NewServed()
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			return nil, fmt.Errorf("corpus/%s.yaml, manifest %d: %w", k.name(), i, err)
		}
		k.complete(obj)
		out = append(out, obj)
	}
	return out, nil
}
