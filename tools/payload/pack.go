package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"podo.dev/podo/internal/runtime/payload/manifest"
)

// pack compresses file into the embedded folder, unless what is there was packed from the same build.
func pack(out, file string, h helper, key string) (manifest.Entry, error) {
	packed := filepath.Join(out, h.name+manifest.Suffix)
	if m, err := manifest.Read(os.DirFS(out)); err == nil {
		if e, ok := m.Find(h.name); ok && e.Build == key && e.Lazy == h.lazy && exists(packed) {
			return e, nil
		}
	}
	e := manifest.Entry{Name: h.name, Version: h.version, Build: key, Lazy: h.lazy}
	src, err := os.Open(file)
	if err != nil {
		return e, err
	}
	defer src.Close()
	var size, written count
	sum := sha256.New()
	err = writeFile(packed, func(w io.Writer) error {
		enc, err := zstd.NewWriter(io.MultiWriter(w, &written), zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.MultiWriter(enc, sum, &size), src); err != nil {
			return err
		}
		return enc.Close()
	})
	e.Size, e.Packed, e.SHA256 = int64(size), int64(written), hex.EncodeToString(sum.Sum(nil))
	return e, err
}

// finish writes the manifest and removes packed files that it does not list.
func finish(out string, m *manifest.Manifest) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(out, manifest.Name))
	if err != nil || string(old) != string(data) {
		err := writeFile(filepath.Join(out, manifest.Name), func(w io.Writer) error { _, err := w.Write(data); return err })
		if err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(out, "*"+manifest.Suffix))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, ok := m.Find(strings.TrimSuffix(filepath.Base(f), manifest.Suffix)); !ok {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFile replaces file by what write gives, whole or not at all.
func writeFile(file string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := write(tmp); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}
