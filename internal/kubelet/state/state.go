// Package state keeps what of a pod must survive the kubelet: one small file for each pod, written beside and renamed, with a
// version and a checksum. A damaged file, or one of another version, is set aside under another name and reported: the pod is
// then restored from what the runtime and the API say.
package state

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
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// version of the file's form. Newer fields that older kubelets may ignore do not change it.
const version = 1

type file struct {
	Version int             `json:"version"`
	Sum     string          `json:"sum"` // SHA-256 of Pod's bytes
	Pod     json.RawMessage `json:"pod"`
}

// Store is a folder of such files. Its methods may be called for different pods at once.
type Store struct{ dir string }

// Open makes the folder if need be.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("kubelet state: %w", err)
	}
	return &Store{dir}, nil
}

// Damaged is a file that was set aside.
type Damaged struct {
	Path string // where it is now
	Err  error
}

// Load reads every pod's state. Damaged files are set aside, and do not keep the others from being read.
func (s *Store) Load() (map[types.UID]*podlife.Saved, []Damaged, error) {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("kubelet state: %w", err)
	}
	out := map[types.UID]*podlife.Saved{}
	var bad []Damaged
	for _, n := range names {
		path := filepath.Join(s.dir, n.Name())
		uid, isPod := strings.CutSuffix(n.Name(), ".json")
		if !isPod {
			if strings.HasSuffix(n.Name(), ".new") { // left by an interrupted write
				os.Remove(path) //nolint:errcheck // in the way of nothing
			}
			continue
		}
		saved, err := read(path)
		if err == nil && string(saved.UID) != uid {
			err = fmt.Errorf("it says that it is of pod %q", saved.UID)
		}
		if err != nil {
			aside := fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102T150405.000"))
			if rerr := os.Rename(path, aside); rerr != nil {
				return nil, nil, fmt.Errorf("kubelet state: %s is damaged (%w) and cannot be set aside: %w", path, err, rerr)
			}
			bad = append(bad, Damaged{aside, err})
			continue
		}
		out[types.UID(uid)] = saved
	}
	return out, bad, nil
}

func read(path string) (*podlife.Saved, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Version != version {
		return nil, fmt.Errorf("form %d is not known, only %d", f.Version, version)
	}
	if sum(f.Pod) != f.Sum {
		return nil, errors.New("its checksum does not match")
	}
	out := &podlife.Saved{}
	return out, json.Unmarshal(f.Pod, out)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Save writes a pod's state. It always survives the end of this process; a durable save also survives the machine's, at the cost
// of two fsyncs. Other saves are of no use after the machine went down, since the containers are gone too.
func (s *Store) Save(saved podlife.Saved, durable bool) error {
	pod, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	b, err := json.Marshal(file{Version: version, Sum: sum(pod), Pod: pod})
	if err != nil {
		return err
	}
	path := s.path(saved.UID)
	if err := write(path+".new", b, durable); err != nil {
		os.Remove(path + ".new") //nolint:errcheck // the first error is the one to tell
		return fmt.Errorf("kubelet state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("kubelet state: %w", err)
	}
	if durable {
		return syncDir(s.dir)
	}
	return nil
}

func write(path string, b []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove forgets a pod. One that is not there is no error.
func (s *Store) Remove(uid types.UID) error {
	if err := os.Remove(s.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubelet state: %w", err)
	}
	return nil
}

func (s *Store) path(uid types.UID) string {
	return filepath.Join(s.dir, filepath.Base(string(uid))+".json")
}
