package view

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"podo.dev/podo/internal/store"
)

// Undecodable is a value in the store that is no object of its kind. It is left alone there and not served.
type Undecodable struct {
	Key string // in the store
	Rev int64
	Err error
}

// maxBroken bounds how many undecodable values are remembered by key; more are counted.
const maxBroken = 1000

type broken struct {
	mu    sync.Mutex
	keys  map[string]Undecodable
	total int64 // values ever found undecodable
}

func (b *broken) add(v *View, t *table, kv store.KV, err error) {
	b.mu.Lock()
	known, seen := b.keys[kv.Key]
	if seen && known.Rev == kv.ModRevision {
		b.mu.Unlock()
		return
	}
	b.total++
	if b.keys == nil {
		b.keys = map[string]Undecodable{}
	}
	if seen || len(b.keys) < maxBroken {
		b.keys[kv.Key] = Undecodable{kv.Key, kv.ModRevision, err}
	}
	b.mu.Unlock()
	if !seen {
		v.c.Logger.Error("an object in the store cannot be decoded; it is not served", "kind", t.kind.GVK.Kind, "key", kv.Key,
			"revision", kv.ModRevision, "err", err)
	}
}

func (b *broken) remove(key string) {
	b.mu.Lock()
	delete(b.keys, key)
	b.mu.Unlock()
}

// Overtaken says that the newest value under a key cannot be decoded: snapshots show the version before it, if any.
func (v *View) Overtaken(key string) bool {
	v.broken.mu.Lock()
	defer v.broken.mu.Unlock()
	_, is := v.broken.keys[key]
	return is
}

// Undecodable lists the values that cannot be decoded now (1,000 at most), and how many were ever found.
func (v *View) Undecodable() (now []Undecodable, ever int64) {
	v.broken.mu.Lock()
	ever = v.broken.total
	v.broken.mu.Unlock()
	return v.UndecodableUnder(""), ever
}

// UndecodableUnder lists those of Undecodable whose keys have a prefix, in order.
func (v *View) UndecodableUnder(prefix string) []Undecodable {
	b := &v.broken
	b.mu.Lock()
	defer b.mu.Unlock()
	var now []Undecodable
	for key, u := range b.keys {
		if strings.HasPrefix(key, prefix) {
			now = append(now, u)
		}
	}
	slices.SortFunc(now, func(a, b Undecodable) int { return cmp.Compare(a.Key, b.Key) })
	return now
}

// forget is called when the view drops an entry that others may still hold for a while.
func (v *View) forget(t *table, e *Entry) {
	if e == nil {
		return
	}
	v.check(t, e)
	e.enc.release()
}

// check reports an entry that was changed after publication.
func (v *View) check(t *table, e *Entry) {
	if e.sum != 0 && checksum(e.Object) != e.sum {
		v.c.Mutated(t.kind, e)
	}
}

// CheckAll checks that no object that the view holds, its history included, was changed since publication. It does nothing
// without Config.CheckMutation.
func (v *View) CheckAll() {
	if !v.c.CheckMutation {
		return
	}
	st := v.cur.Load()
	for _, t := range v.tables {
		st.kinds[t.pos].tree.Scan(func(_ string, e *Entry) bool {
			v.check(t, e)
			return true
		})
		for _, ch := range t.hist.all() {
			if ch.Old != nil {
				v.check(t, ch.Old)
			}
			if ch.New != nil && t.kind.NotCached {
				v.check(t, ch.New)
			}
		}
	}
}
