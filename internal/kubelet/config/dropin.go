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

// Read is a file's content merged with the drop-ins of a folder in the order of their names. A drop-in replaces what was there
// before, objects field by field and lists as a whole. Files not named *.conf are skipped. Either argument may be "".
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

// over merges one drop-in into the text so far. It is checked by itself first, so that an error names the right file.
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
