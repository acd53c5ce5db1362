package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settle is how long a folder must be quiet before it is read, so that half-written manifests are not.
const settle = 50 * time.Millisecond

// File is the source of the static pods in a folder (or one file) of this machine, one pod a file. Names that begin with a dot
// are skipped. A file that cannot be read as a pod keeps the pod that it had before: a typing error ends nothing, removing the
// file does.
type File struct {
	Path, Node string
	// Every is how often the folder is read without having heard of a change: it repairs what inotify missed.
	Every time.Duration
	// Problem is told of each file that cannot be used, once for each of its contents.
	Problem func(origin string, err error)
	// Twice is told of each pod that is passed over since one before it has its name, each time that it is. May be nil.
	Twice func(pod *v1.Pod, source string)
	// Unwatched is told of each pod of which changes are noticed only when the folder is read, and why. May be nil.
	Unwatched func(pod *v1.Pod, every time.Duration, err error)
	Log       *slog.Logger

	instance func() (*fsnotify.Watcher, error) // see watch
}

// written is a file as it was last read.
type written struct {
	size int64
	at   time.Time
	pod  *v1.Pod // nil while it never was one
}

// Run tells changes on out until ctx ends.
func (f File) Run(ctx context.Context, out chan<- Change) error {
	s := &set{source: "file", twice: f.Twice, out: out, pods: map[types.UID]*v1.Pod{}}
	files := map[string]*written{}
	w := &watch{f: f, make: f.instance}
	defer w.close()
	every := time.NewTicker(f.Every)
	defer every.Stop()
	for synced := false; ; {
		w.open()
		pods := s.unnamed(f.read(files), f.Log)
		if !s.become(ctx, pods) || !synced && !s.send(ctx, Synced, nil) {
			return nil
		}
		synced = true
		w.tell(pods)
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		case <-w.missed():
		case e := <-w.events():
			gone, ok := f.quiet(ctx, e, w.events())
			if !ok || !s.without(ctx, forget(files, gone)) {
				return nil
			}
		}
	}
}

// quiet returns once nothing has happened for a moment, with the files that were removed or moved away since the event e, even if
// they exist again; false when ctx has ended.
func (f File) quiet(ctx context.Context, e fsnotify.Event, events <-chan fsnotify.Event) (gone []string, ok bool) {
	t := time.NewTimer(settle)
	defer t.Stop()
	for {
		if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
			gone = append(gone, e.Name)
		}
		select {
		case <-ctx.Done():
			return nil, false
		case e, ok = <-events:
			if !ok {
				events = nil
			}
			t.Reset(settle)
		case <-t.C:
			return gone, true
		}
	}
}

// forget drops files that were gone for a moment, and returns their pods: these end, and a file that exists again begins a new
// pod even if it is unchanged. That is how people restart a static pod.
func forget(files map[string]*written, gone []string) []*v1.Pod {
	var pods []*v1.Pod
	for _, path := range gone {
		if w := files[path]; w != nil && w.pod != nil {
			pods = append(pods, w.pod)
		}
		delete(files, path)
	}
	return pods
}

// read is the pods of all files, in the order of their paths. Files that did not change are not read again.
func (f File) read(files map[string]*written) []*v1.Pod {
	paths, err := f.paths()
	if err != nil {
		f.Log.Warn("the folder of static pods cannot be read; its pods go on as they are", "path", f.Path, "err", err)
	}
	var pods []*v1.Pod
	for _, path := range paths {
		w := files[path]
		if w == nil {
			w = &written{size: -1}
			files[path] = w
		}
		if err == nil {
			f.refresh(path, w)
		}
		if w.pod != nil {
			pods = append(pods, w.pod)
		}
	}
	if err == nil {
		for path := range files {
			if !slices.Contains(paths, path) {
				delete(files, path)
			}
		}
		return pods
	}
	for _, w := range files {
		if w.pod != nil {
			pods = append(pods, w.pod)
		}
	}
	return pods
}

// paths are the files that there are. A place that does not exist has none.
func (f File) paths() ([]string, error) {
	fi, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return []string{f.Path}, nil
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		path := filepath.Join(f.Path, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // a link to a file that was removed
		}
		out = append(out, path)
	}
	return out, nil
}

func (f File) refresh(path string, w *written) {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == w.size && fi.ModTime().Equal(w.at) {
		return // gone again: the folder's next event says so
	}
	text, err := os.ReadFile(path)
	if err == nil {
		var pod *v1.Pod
		var ignored []error
		pod, ignored, err = manifest{Source: "file", Node: f.Node, Origin: path, Now: time.Now()}.pod(text)
		if len(ignored) > 0 {
			f.Log.Warn("a static pod has fields that no pod has; they are passed over", "file", path, "fields", errors.Join(ignored...))
		}
		if err == nil {
			w.pod = pod
		}
	}
	w.size, w.at = fi.Size(), fi.ModTime()
	if err != nil {
		text := "no pod is made of it"
		if w.pod != nil {
			text = "the pod that it described before goes on"
		}
		f.Problem(path, fmt.Errorf("%w: %s", err, text))
	}
}
