package logs

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"podo.dev/podo/internal/kubelet/inotify"
)

// watches shares one inotify instance among all followers: the kernel allows few per user. A directory is watched while someone
// listens to it; a listener is told that something in it changed, not what.
type watches struct {
	open func() (*fsnotify.Watcher, error) // nil: a buffered watcher of the kernel's

	mu   sync.Mutex
	w    *fsnotify.Watcher // nil while nobody listens
	dirs map[string]map[chan struct{}]struct{}
}

// listen returns a channel that gets a value after each change in dir, never more than one waiting, and a function that ends
// listening. The channel gets a first value at once if events were lost.
func (s *watches) listen(dir string) (<-chan struct{}, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		open := s.open
		if open == nil {
			open = func() (*fsnotify.Watcher, error) { return fsnotify.NewBufferedWatcher(64) }
		}
		w, err := open()
		if err != nil {
			return nil, nil, inotify.Limited(err)
		}
		s.w, s.dirs = w, map[string]map[chan struct{}]struct{}{}
		go s.deliver(w)
	}
	ch := make(chan struct{}, 1)
	if s.dirs[dir] == nil {
		if err := s.w.Add(dir); err != nil {
			s.closeIfUnused()
			return nil, nil, inotify.Limited(err)
		}
		s.dirs[dir] = map[chan struct{}]struct{}{}
	}
	s.dirs[dir][ch] = struct{}{}
	return ch, func() { s.leave(dir, ch) }, nil
}

// lookEvery is how often a directory is looked at that the kernel does not watch, since the user has no inotify instance or watch left.
const lookEvery = time.Second

// look is listen where there are no events: a ticker stands in for them.
func look() (<-chan struct{}, func()) {
	ch, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}()
	return ch, func() { close(done) }
}

func (s *watches) leave(dir string, ch chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs[dir], ch)
	if len(s.dirs[dir]) == 0 {
		delete(s.dirs, dir)
		_ = s.w.Remove(dir) // an error says that the directory has gone, and its watch with it
	}
	s.closeIfUnused()
}

func (s *watches) closeIfUnused() {
	if len(s.dirs) == 0 && s.w != nil {
		_ = s.w.Close()
		s.w = nil
	}
}

func (s *watches) deliver(w *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			s.tell(filepath.Dir(e.Name))
			s.tell(e.Name) // the directory itself has gone
		case _, ok := <-w.Errors: // events were lost
			if !ok {
				return
			}
			s.tell("")
		}
	}
}

// tell wakes the listeners of dir, or all with "".
func (s *watches) tell(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, listeners := range s.dirs {
		if dir != "" && d != dir {
			continue
		}
		for ch := range listeners {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}
