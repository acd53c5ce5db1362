package source

import (
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/inotify"
)

// watch hears of changes in a File's folder. While there is no folder, or the kernel allows no further watch, it hears nothing;
// opening it is tried again each time that the folder is read.
type watch struct {
	f    File
	make func() (*fsnotify.Watcher, error) // nil: a buffered watcher of the kernel's

	w    *fsnotify.Watcher // nil: nothing is heard
	err  error             // why, once that was said
	told map[types.UID]bool
}

func (w *watch) events() <-chan fsnotify.Event {
	if w.w == nil {
		return nil
	}
	return w.w.Events
}

// missed reports that the kernel dropped events. It has to be read: otherwise the watcher blocks.
func (w *watch) missed() <-chan error {
	if w.w == nil {
		return nil
	}
	return w.w.Errors
}

// open starts watching unless it does already. A watch ends with its folder, even if another folder takes that name.
func (w *watch) open() {
	if w.w != nil && len(w.w.WatchList()) > 0 {
		return
	}
	w.close()
	dir := w.f.Path
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
		dir = filepath.Dir(dir) // editors replace files
	}
	instance := w.make
	if instance == nil {
		instance = func() (*fsnotify.Watcher, error) { return fsnotify.NewBufferedWatcher(64) }
	}
	fresh, err := instance()
	if err == nil {
		if err = fresh.Add(dir); err != nil {
			_ = fresh.Close()
		}
	}
	switch {
	case err == nil:
		w.w, w.err, w.told = fresh, nil, nil
	case w.err == nil || w.err.Error() != inotify.Limited(err).Error():
		w.err = inotify.Limited(err)
		w.f.Log.Warn("the folder of static pods cannot be watched; it is read now and again", "path", w.f.Path, "every", w.f.Every, "err", w.err)
	}
}

func (w *watch) close() {
	if w.w != nil {
		_ = w.w.Close()
		w.w = nil
	}
}

// tell reports, once each, pods whose changes are noticed late.
func (w *watch) tell(pods []*v1.Pod) {
	if w.w != nil || w.f.Unwatched == nil {
		return
	}
	told := map[types.UID]bool{}
	for _, p := range pods {
		if told[p.UID] = true; !w.told[p.UID] {
			w.f.Unwatched(p, w.f.Every, w.err)
		}
	}
	w.told = told
}
