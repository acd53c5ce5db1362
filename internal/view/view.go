// Package view is the process's one decoded copy of the cluster's state. It follows the store with one watch over
// /registry/, decodes each change once, and publishes immutable objects, snapshots and changes. Everyone in the process
// reads the same pointers.
//
// Invariants:
//   - A published object is never changed again. Tests run with a mutation check that hashes objects when they are
//     published and fails when a hash differs later.
//   - A Snapshot is all kinds at one store revision; taking one is O(1).
//   - A Watcher sees every change of its resource after its start revision, in order, once, or ends with ErrGone.
//   - One writer: only the feed applies batches. Readers never block it.
package view

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view/codec"
)

// ErrGone says that the changes after the asked-for revision are no longer retained: list again.
var ErrGone = errors.New("too old resource version")

// Key names an object within its resource; cluster-scoped ones have namespace "".
type Key struct{ Namespace, Name string }

// Config is what a View is made of. Store and Kinds are required; the rest has defaults.
type Config struct {
	Store store.Store
	Kinds []*registry.Kind
	// Decode decodes a stored value into the object that empty makes, and sets its TypeMeta and resourceVersion (rev). Default:
	// codec.DecodeIn.
	Decode func(k *registry.Kind, value []byte, rev int64, empty func() runtime.Object) (runtime.Object, error)
	// Append takes timeline records (seen, for pods). Default timeline.Discard.
	Append timeline.Append
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// CheckMutation hashes every object at publication; Mutated (default: panic) is called with one that changed after that. It
	// costs an encoding for each object: for tests.
	CheckMutation bool
	Mutated       func(k *registry.Kind, e *Entry)

	// HistoryChanges (4096), HistoryBytes (8 MiB, of encoded size) and HistoryAge (75 s) bound the changes that are kept for each
	// kind. A client whose watch broke is back within HistoryAge, even from a bookmark that is a minute old. Watches from further
	// back are read from the store.
	HistoryChanges int
	HistoryBytes   int64
	HistoryAge     time.Duration
	// Retained bounds the past snapshots that At can return: that many of the newest (64, of the last HistoryChanges revisions
	// and HistoryAge), and as many kept by Snapshot.Retain.
	Retained int
	// PastAge (5 min) is how long At can read a revision that is no longer the newest.
	PastAge time.Duration
	// EncodingBytes bounds the cache behind Entry.Encoded (48 MiB).
	EncodingBytes int64
	// Now is the clock of timeline records, HistoryAge and PastAge. Default time.Now.
	Now func() time.Time
}

func (c *Config) setDefaults() error {
	if c.Store == nil || len(c.Kinds) == 0 {
		return errors.New("view: Config needs a Store and Kinds")
	}
	def(&c.HistoryChanges, 4096)
	def(&c.HistoryBytes, 8<<20)
	def(&c.HistoryAge, 75*time.Second)
	def(&c.Retained, 64)
	def(&c.PastAge, 5*time.Minute)
	def(&c.EncodingBytes, 48<<20)
	if c.Decode == nil {
		c.Decode = codec.DecodeIn
	}
	if c.Append == nil {
		c.Append = timeline.Discard
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Mutated == nil {
		c.Mutated = func(k *registry.Kind, e *Entry) {
			panic(fmt.Sprintf("a published object was changed: %s %s/%s at revision %d", k.GVK.Kind, e.Key.Namespace, e.Key.Name, e.Rev))
		}
	}
	return nil
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// View is described at the top of the package.
type View struct {
	c          Config
	tables     []*table // by table.pos
	byResource map[schema.GroupResource]*table
	byDir      map[string]*table

	cur       atomic.Pointer[state]
	delivered atomic.Int64 // the revision up to which all histories are complete; never newer than cur
	running   atomic.Bool

	waiters  waiters
	retained retained
	ages     ages
	aging    aging
	encCache *encodingCache
	alike    alike
	broken   broken
}

// table is the working state of one kind. Only the feed touches tree and indexes: they are the next state in the making.
type table struct {
	kind *registry.Kind
	pos  int
	room reflect.Type // of an entry and, behind it, its object
	hist *history

	tree       *tree
	indexNames []string
	indexes    []*index
}

// New makes a View; Run makes it follow the store.
func New(c Config) (*View, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	v := &View{
		c:          c,
		byResource: map[schema.GroupResource]*table{},
		byDir:      map[string]*table{},
		encCache:   &encodingCache{max: c.EncodingBytes},
	}
	v.retained.max, v.retained.span, v.ages.max = c.Retained, int64(c.HistoryChanges), c.PastAge
	first := &state{}
	for _, k := range c.Kinds {
		if k.Unstored || k.Served != nil { // not stored at all, or stored by another row
			continue
		}
		t := newTable(k, len(v.tables))
		t.hist = &history{
			maxChanges: c.HistoryChanges, maxBytes: c.HistoryBytes, maxAge: c.HistoryAge,
			dropped: func(ch Change) {
				v.forget(t, ch.Old)
				if k.NotCached {
					v.forget(t, ch.New)
				}
			},
		}
		if v.byResource[k.GroupResource()] != nil || v.byDir[k.Dir] != nil {
			return nil, fmt.Errorf("view: %s or its folder %q is in the table of kinds twice", k.GroupResource(), k.Dir)
		}
		v.byResource[k.GroupResource()], v.byDir[k.Dir] = t, t
		v.tables = append(v.tables, t)
		first.kinds = append(first.kinds, t.freeze(0))
	}
	v.cur.Store(first)
	return v, nil
}

// Root is the folder that holds everything of Kubernetes.
const Root = "/registry/"

// locate finds the kind and path ("namespace/name", or "name" for cluster scope) of a key in the store; nil when it is none of
// ours: such keys are left alone.
func (v *View) locate(key string) (t *table, path string) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return nil, ""
	}
	// A folder has one segment ("pods") or two ("services/specs", a custom resource's group and plural).
	for at := strings.IndexByte(rest, '/'); at >= 0; {
		if t := v.byDir[rest[:at]]; t != nil {
			path = rest[at+1:]
			namespace, name, slash := strings.Cut(path, "/")
			if slash != t.kind.Namespaced || namespace == "" || slash && (name == "" || strings.Contains(name, "/")) {
				return nil, ""
			}
			return t, path
		}
		next := strings.IndexByte(rest[at+1:], '/')
		if next < 0 || strings.Count(rest[:at], "/") > 0 {
			break
		}
		at += 1 + next
	}
	return nil, ""
}

func keyOf(k *registry.Kind, path string) Key {
	if !k.Namespaced {
		return Key{Name: path}
	}
	namespace, name, _ := strings.Cut(path, "/")
	return Key{namespace, name}
}

func pathOf(k *registry.Kind, key Key) string {
	if !k.Namespaced {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}
