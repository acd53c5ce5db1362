// Package payload carries podo's helper programs inside the binary and puts them on disk: containerd and its shim, runc, the CNI
// plug-ins, kubectl and the pause image, built static from pinned sources by `make payload`.
//
// Unpacking is safe against a crash at any point: a file appears under its name only whole, synced and with the right digest; a
// stamp that says so is written last. A directory with the right stamp and sizes costs a few stats. Replacing a program by rename
// leaves processes that run the old one alone.
package payload

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/runtime/payload/manifest"
)

//go:embed data
var embedded embed.FS

// ErrMissing says that this podo was built without its helper programs.
var ErrMissing = errors.New("this podo carries no helper programs (containerd, runc, CNI plug-ins, kubectl): build it with `make build`, " +
	"not with `go build` alone")

// Payload is a set of packed programs.
type Payload struct {
	fsys fs.FS
	m    *manifest.Manifest
}

// Embedded opens the payload inside this binary; ErrMissing when there is none.
func Embedded() (*Payload, error) {
	sub, err := fs.Sub(embedded, "data")
	if err != nil {
		return nil, err
	}
	return Open(sub)
}

// Open opens the payload in fsys: a manifest and the packed files that it lists.
func Open(fsys fs.FS) (*Payload, error) {
	m, err := manifest.Read(fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return &Payload{fsys: fsys, m: m}, nil
}

// Version is the version of a carried program, or "".
func (p *Payload) Version(name string) string {
	e, _ := p.m.Find(name)
	return e.Version
}

// Digest is the SHA-256 of a carried program, or "".
func (p *Payload) Digest(name string) string {
	e, _ := p.m.Find(name)
	return e.SHA256
}

// Unpack puts all programs needed by a node into dir, in parallel, skipping what is there already. Lazy ones are left to Program.
func (p *Payload) Unpack(ctx context.Context, dir string) error {
	var eager []manifest.Entry
	for _, e := range p.m.Entries {
		if !e.Lazy {
			eager = append(eager, e)
		}
	}
	return p.unpack(ctx, dir, ".payload", eager)
}

// Program puts one program into dir, if it is not there already, and returns its path.
func (p *Payload) Program(ctx context.Context, dir, name string) (string, error) {
	e, ok := p.m.Find(name)
	if !ok {
		return "", fmt.Errorf("payload: no program %q in it", name)
	}
	return filepath.Join(dir, name), p.unpack(ctx, dir, ".payload-"+name, []manifest.Entry{e})
}

func (p *Payload) unpack(ctx context.Context, dir, stamp string, entries []manifest.Entry) error {
	stamp = filepath.Join(dir, stamp)
	want := digest(entries)
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want && sizesMatch(dir, entries) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	// The stamp of an older set goes first: it must not vouch for a mixture.
	if err := os.Remove(stamp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("payload: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, e := range entries {
		g.Go(func() error { return p.write(ctx, dir, e) })
	}
	if err := g.Wait(); err != nil {
		return explain(err, dir, entries)
	}
	// The names must be durable before the stamp is: it may survive a crash that they do not.
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	forget()
	return nil
}

// write unpacks one entry to its name in dir, whole or not at all.
func (p *Payload) write(ctx context.Context, dir string, e manifest.Entry) error {
	packed, err := p.fsys.Open(e.Name + manifest.Suffix)
	if err != nil {
		return err
	}
	defer packed.Close()
	dec, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer dec.Close()
	tmp, err := os.CreateTemp(dir, ".unpack-"+e.Name+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename this finds nothing
	defer tmp.Close()
	sum := sha256.New()
	// One byte more than promised is enough to see that it is too long.
	n, err := io.Copy(io.MultiWriter(tmp, sum), io.LimitReader(&cancelled{ctx, dec}, e.Size+1))
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	if n != e.Size || hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
		return fmt.Errorf("%s does not have the digest that the manifest gives: this podo binary is damaged, install it again", e.Name)
	}
	if err := tmp.Chmod(0o755); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	// Closed for writing before anyone can run it: executing a file open for writing is ETXTBSY.
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(dir, e.Name))
}

// explain adds what to do to an error of the file system.
func explain(err error, dir string, entries []manifest.Entry) error {
	var size int64
	for _, e := range entries {
		size += e.Size
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("payload: %w: the helper programs need %d MB in %s, make room or choose another --data-dir", err, size>>20+1, dir)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("payload: %w: %s must be writable, run podo as root or choose another --data-dir", err, dir)
	}
	return fmt.Errorf("payload: %w", err)
}

// digest names a set of entries by content.
func digest(entries []manifest.Entry) string {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintln(h, e.Name, e.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sizesMatch(dir string, entries []manifest.Entry) bool {
	for _, e := range entries {
		fi, err := os.Stat(filepath.Join(dir, e.Name))
		if err != nil || fi.Size() != e.Size || fi.Mode() != 0o755 {
			return false
		}
	}
	return true
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
