// Package images makes the images that the suite asks for, offline, under the names that it uses. A userland is Debian's
// busybox-static with its applets as links; programs that busybox lacks come from this machine with the libraries they are
// linked to; upstream's own test programs are built from the pinned module, others from their modules at the versions that
// upstream's images hold.
package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"podo.dev/podo/tools/images/archive"
)

// Registry is where the suite finds its images, all of them.
const Registry = "registry.k8s.io"

// Builder makes the images into a folder.
type Builder struct {
	Out     string // folder of the archives; nothing else may be in it
	Agnhost string // the built program
	Work    string // folder for programs built on the way
	// Served says what the cluster serves. Images that only tests of other resources use are left out; nil: all images are made.
	Served map[string]bool
	Log    func(format string, args ...any)
}

// image is one line of the list.
type image struct {
	ref   string // below Registry
	id    string // the constant that upstream's tests name it by
	needs string // resource without which no conformance test runs it
	make  func(ctx context.Context, base []archive.File) (archive.Image, error)
}

// noConformance stands for the resource of images that the suite has but that no test with the label uses.
const noConformance = "none"

// vital are the images that most tests use.
var vital = []string{"Pause", "Agnhost", "BusyBox"}

func (b Builder) list() []image {
	return []image{
		{"pause:3.10.2", "Pause", "", b.pause},
		{"e2e-test-images/agnhost:2.66.1", "Agnhost", "", b.agnhost},
		{"e2e-test-images/agnhost:2.55", "AgnhostPrev", "", b.agnhost},
		{"e2e-test-images/busybox:1.37.0-2", "BusyBox", "", b.busybox},
		{"e2e-test-images/nonewprivs:1.4", "Nonewprivs", "", b.nonewprivs},
		{"e2e-test-images/nonroot:1.5", "NonRoot", "", b.nonroot},
		{"e2e-test-images/kitten:1.8", "Kitten", "", b.pet("kitten")},
		{"e2e-test-images/nautilus:1.8", "Nautilus", "", b.pet("nautilus")},
		{"e2e-test-images/nginx:1.27.0-2", "Nginx", "", b.nginx},
		{"e2e-test-images/nginx:1.28.0-2", "NginxNew", noConformance, b.nginx},
		{"e2e-test-images/glibc-dns-testing:2.1.1", "GlibcDnsTesting", "services", b.glibc},
		{"e2e-test-images/sample-apiserver:1.29.2", "APIServer", "apiservices.apiregistration.k8s.io", b.sampleAPIServer},
		{"etcd:3.7.0-0", "Etcd", "apiservices.apiregistration.k8s.io", b.etcd},
		{"e2e-test-images/regression-issue-74839:1.5", "RegressionIssue74839", noConformance, b.regression},
		{"e2e-test-images/resource-consumer:1.14", "ResourceConsumer", noConformance, b.resourceConsumer},
	}
}

// Unmade is an image that could not be made.
type Unmade struct {
	Ref    string `json:"ref"`
	ID     string `json:"id"` // upstream's constant
	Reason string `json:"reason"`
}

//go:embed *.go
var sources embed.FS

// generation stands for what the images are made by: with other sources they are made anew.
func generation() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(sources, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := sources.ReadFile(p)
		sum.Write(b)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:4]), err
}

// fresh is the folder of this generation's archives; those of others are removed.
func (b Builder) fresh() (string, error) {
	g, err := generation()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(b.Out, g), 0o755); err != nil {
		return "", err
	}
	all, err := os.ReadDir(b.Out)
	for _, e := range all {
		if e.Name() != g {
			err = errors.Join(err, os.RemoveAll(filepath.Join(b.Out, e.Name())))
		}
	}
	return filepath.Join(b.Out, g), err
}

// Build makes every image that is not there yet. It returns the archives, and what could not be made: a run can do without, and says
// what that costs.
func (b Builder) Build(ctx context.Context) (archives []string, unmade []Unmade, err error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, nil, err
	}
	var base []archive.File
	for _, im := range b.list() {
		if b.Served != nil && im.needs != "" && !b.Served[im.needs] {
			continue
		}
		file := filepath.Join(dir, strings.ReplaceAll(path.Base(im.ref), ":", "-")+".tar")
		if _, err := os.Stat(file); err == nil {
			archives = append(archives, file)
			continue
		}
		if base == nil {
			if base, err = userland(ctx); err != nil {
				return nil, nil, err
			}
		}
		switch err := b.write(ctx, im, file, base); {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil && slices.Contains(vital, im.id):
			return nil, nil, fmt.Errorf("image %s, without which hardly a test runs, cannot be made: %w", im.ref, err)
		case err != nil:
			b.Log("image %s cannot be made: %v", im.ref, err)
			unmade = append(unmade, Unmade{Ref: Registry + "/" + im.ref, ID: im.id, Reason: err.Error()})
		default:
			b.Log("made image %s", im.ref)
			archives = append(archives, file)
		}
	}
	return archives, unmade, nil
}

func (b Builder) write(ctx context.Context, im image, file string, base []archive.File) error {
	img, err := im.make(ctx, slices.Clone(base))
	if err != nil {
		return err
	}
	img.Ref, img.Arch = Registry+"/"+im.ref, runtime.GOARCH
	// Two tags are two images, as upstream's are, even where they hold the same.
	img.Config.Labels = map[string]string{"image": im.ref}
	return archive.Write(file, img)
}

// ports is a set of TCP ports for an image's configuration.
func ports(numbers ...int) map[string]struct{} {
	out := map[string]struct{}{}
	for _, n := range numbers {
		out[fmt.Sprintf("%d/tcp", n)] = struct{}{}
	}
	return out
}

// search is the environment of every image.
var search = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// run is the configuration of an image that starts a program.
func run(entrypoint string, cmd ...string) v1.Config {
	return v1.Config{Env: search, Entrypoint: []string{entrypoint}, Cmd: cmd}
}
