package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Read is a file's content with the drop-ins of a folder over it, in the order of their names: what they say replaces what was there,
// field by field of objects, whole lists. Files not named *.conf are skipped. Either may be "".
func Read(file, dropIns string) ([]byte, error) {
	text := []byte{}
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("--kubelet-config: %w", err)
		}
	}
	if dropIns == "" {
		return text, nil
	}
	def := Defaults()
	merged := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q}`, def.APIVersion, def.Kind)
	if strings.TrimSpace(string(text)) != "" {
		var err error
		if merged, err = yaml.YAMLToJSONStrict(text); err != nil {
			return nil, fmt.Errorf("--kubelet-config %s: %w", file, err)
		}
	}
	err := filepath.WalkDir(dropIns, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".conf" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if merged, err = over(merged, text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("--kubelet-config-dir: %w", err)
	}
	return merged, nil
}

// over puts one drop-in over what is there. It is checked by itself, so that what is wrong is told with its file's name.
func over(merged, text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	c, def := &v1beta1.KubeletConfiguration{}, Defaults()
	strict, err := json.UnmarshalStrict(raw, c)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, strict[0]
	}
	if c.APIVersion != def.APIVersion || c.Kind != def.Kind {
		return nil, fmt.Errorf("apiVersion %q and kind %q must be %s and %s", c.APIVersion, c.Kind, def.APIVersion, def.Kind)
	}
	return jsonpatch.MergePatch(merged, raw)
}
