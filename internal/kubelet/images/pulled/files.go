package pulled

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Names and form are upstream's: <kubelet's folder>/image_manager/{pulling,pulled}, one file a record, named by the hash of the
// image's name or reference. Files are written beside and renamed, so that each is whole or absent.
const (
	prefix     = "sha256-"
	unfinished = ".tmp"
)

// folder is one of the two.
type folder string

func (f folder) path(of string) string { return filepath.Join(string(f), fileName(of)) }

func fileName(of string) string {
	sum := sha256.Sum256([]byte(of))
	return prefix + hex.EncodeToString(sum[:])
}

// read calls each for every record's name and content. Writes that were cut short are removed.
func (f folder) read(each func(name string, content []byte, err error)) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(string(f), e.Name())
		switch {
		case !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), prefix):
		case strings.HasSuffix(e.Name(), unfinished):
			_ = os.Remove(path) // in the way of nothing
		default:
			b, err := os.ReadFile(path)
			each(e.Name(), b, err)
		}
	}
	return nil
}

// write puts a record on the disk durably: what a pod must prove should not depend on whether the machine went down meanwhile.
func (f folder) write(of string, record any) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	tmp := f.path(of) + unfinished
	if err := writeSynced(tmp, append(b, '\n')); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, f.path(of)); err != nil {
		return err
	}
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, b []byte) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return errors.Join(err, out.Sync(), out.Close())
}

func (f folder) remove(of string) error {
	err := os.Remove(f.path(of))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: kind}
}

// decode reads a record of this or an older version of upstream's form, which are alike, and checks that it is in its own place.
func decode(content []byte, record any, meta *metav1.TypeMeta, kind string) error {
	if err := json.Unmarshal(content, record); err != nil {
		return err
	}
	group, _, _ := strings.Cut(meta.APIVersion, "/")
	if group != v1beta1.GroupName || meta.Kind != kind {
		return fmt.Errorf("it is a %s of %s, not an %s", meta.Kind, meta.APIVersion, kind)
	}
	return nil
}
