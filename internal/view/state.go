package view

import (
	"encoding/json"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// tree maps paths to entries. Copies are O(1); only the feed's own trees are ever written.
type tree = btree.Map[string, *Entry]

// index has the entries by a value, and then in the tree's order. Its keys use the entries' own memory.
type index = btree.BTreeG[indexed]

// indexed is an entry under one of its values; a nil entry sorts before all entries of the value.
type indexed struct {
	value string
	e     *Entry
}

func newIndex() *index {
	return btree.NewBTreeGOptions(func(a, b indexed) bool {
		if a.value != b.value {
			return a.value < b.value
		}
		return b.e != nil && (a.e == nil || a.e.Key.before(b.e.Key))
	}, btree.Options{Degree: degree, NoLocks: true})
}

// before is the order of paths: of the bytes of "namespace/name".
func (k Key) before(o Key) bool {
	if k.Namespace == o.Namespace {
		return k.Name < o.Name
	}
	n := min(len(k.Namespace), len(o.Namespace))
	switch {
	case k.Namespace[:n] != o.Namespace[:n]:
		return k.Namespace < o.Namespace
	case n == len(k.Namespace):
		return '/' < o.Namespace[n]
	default:
		return k.Namespace[n] < '/'
	}
}

// degree bounds the nodes of a tree to 2*degree-1 items: a write copies one node on each level.
const degree = 16

// state is all kinds at one revision; immutable once published.
type state struct {
	rev   int64
	kinds []*objects // by table.pos
}

// objects are those of one kind; immutable.
type objects struct {
	rev     int64 // of the last change of this kind, or of the load
	tree    *tree
	indexes []*index // by table.indexNames
}

func newTable(k *registry.Kind, pos int) *table {
	t := &table{kind: k, pos: pos, room: roomOf(k), tree: btree.NewMap[string, *Entry](degree)}
	t.indexNames = slices.Sorted(maps.Keys(k.Indexes))
	for range t.indexNames {
		t.indexes = append(t.indexes, newIndex())
	}
	return t
}

// freeze makes the table's present content an immutable part of a state.
func (t *table) freeze(rev int64) *objects {
	o := &objects{rev: rev, tree: t.tree.Copy()}
	for _, ix := range t.indexes {
		o.indexes = append(o.indexes, ix.Copy())
	}
	return o
}

// set puts e where old was (nil: nothing was there).
func (t *table) set(old, e *Entry) {
	t.tree.Set(e.path, e)
	for i, name := range t.indexNames {
		values := t.kind.Indexes[name](e.Object)
		t.unindex(i, old, values)
		for _, value := range values {
			t.indexes[i].Set(indexed{value, e})
		}
	}
}

func (t *table) delete(old *Entry) {
	t.tree.Delete(old.path)
	for i := range t.indexNames {
		t.unindex(i, old, nil)
	}
}

// unindex takes old (nil: nothing) out of an index where its values are not among but.
func (t *table) unindex(i int, old *Entry, but []string) {
	if old == nil {
		return
	}
	for _, value := range t.kind.Indexes[t.indexNames[i]](old.Object) {
		if !slices.Contains(but, value) {
			t.indexes[i].Delete(indexed{value, old})
		}
	}
}

// Snapshot is all kinds at one revision. It is a small value, never changes, and is safe for concurrent use. Kinds that are
// not cached (events) are empty in it: read those through At or the store.
type Snapshot struct {
	v  *View
	st *state
}

// Snapshot is the newest published state. It never blocks; before the first load it is empty and at revision 0.
func (v *View) Snapshot() Snapshot { return Snapshot{v, v.cur.Load()} }

// Rev is the store revision that the snapshot reflects.
func (s Snapshot) Rev() int64 { return s.st.rev }

// ResourceRev is the revision of the last change of the resource, or of the load when there was none since.
func (s Snapshot) ResourceRev(r schema.GroupResource) int64 {
	if t := s.v.byResource[r]; t != nil {
		return s.st.kinds[t.pos].rev
	}
	return 0
}

// Get returns an object or nil.
func (s Snapshot) Get(r schema.GroupResource, namespace, name string) *Entry {
	t := s.v.byResource[r]
	if t == nil {
		return nil
	}
	e, _ := s.st.kinds[t.pos].tree.Get(pathOf(t.kind, Key{namespace, name}))
	return e
}

// Len is the number of objects of the resource, in all namespaces.
func (s Snapshot) Len(r schema.GroupResource) int {
	t := s.v.byResource[r]
	if t == nil {
		return 0
	}
	return s.st.kinds[t.pos].tree.Len()
}

// All iterates the resource's objects in the store's order (bytes of "namespace/name"), of one namespace or of all (""),
// behind after (exclusive) unless that is zero.
func (s Snapshot) All(r schema.GroupResource, namespace string, after Key) iter.Seq[*Entry] {
	t := s.v.byResource[r]
	if t == nil {
		return func(func(*Entry) bool) {}
	}
	prefix, behind := "", ""
	if namespace != "" && t.kind.Namespaced {
		prefix = namespace + "/"
	}
	if after != (Key{}) {
		behind = pathOf(t.kind, after)
	}
	return scan(s.st.kinds[t.pos].tree, prefix, behind)
}

// By iterates the objects for which registry.Kind.Indexes[index] gave value, in the order of All. It panics on an index that the
// kind does not have.
func (s Snapshot) By(r schema.GroupResource, index, value string) iter.Seq[*Entry] {
	t := s.v.byResource[r]
	if t == nil {
		return func(func(*Entry) bool) {}
	}
	i, ok := slices.BinarySearch(t.indexNames, index)
	if !ok {
		panic("view: " + r.String() + " has no index " + index)
	}
	ix := s.st.kinds[t.pos].indexes[i]
	return func(yield func(*Entry) bool) {
		ix.Ascend(indexed{value: value}, func(it indexed) bool { return it.value == value && yield(it.e) })
	}
}

// scan iterates the items whose keys begin with prefix, after the key behind. It searches for the first and the last item and
// compares no keys between them: keys of thousands of objects are scattered over memory, and looking at each took as long as the
// rest of a list.
func scan(tr *tree, prefix, behind string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		last, first := lastWith(tr, prefix), true
		tr.Ascend(max(prefix, behind), func(path string, e *Entry) bool {
			if first {
				first = false
				switch {
				case !strings.HasPrefix(path, prefix):
					return false
				case path == behind:
					return e != last
				}
			}
			return yield(e) && e != last
		})
	}
}

// lastWith is the last item whose key begins with prefix; nil when there is none.
func lastWith(tr *tree, prefix string) (last *Entry) {
	if prefix == "" {
		_, last, _ = tr.Max()
		return last
	}
	n := len(prefix) - 1
	end := prefix[:n] + string(prefix[n]+1) // prefixes end in a separator
	tr.Descend(end, func(path string, e *Entry) bool {
		if path >= end {
			return true
		}
		if strings.HasPrefix(path, prefix) {
			last = e
		}
		return false
	})
	return last
}

func encodeJSON(w io.Writer, obj runtime.Object) error { return json.NewEncoder(w).Encode(obj) }
