package view

import (
	"hash/fnv"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

// Entry is one published object. Object has its TypeMeta and resourceVersion set, and is read-only.
type Entry struct {
	Key    Key
	Rev    int64 // the revision that wrote it: its resourceVersion
	Object runtime.Object
	Meta   metav1.Object

	path string // Key's, which is made of it
	size int    // bytes in the store
	sum  uint64 // hash at publication, with CheckMutation
	enc  encodings
}

// roomOf is the type of an entry with an object of the kind behind it, so that one allocation holds both. Objects of requests
// have other sizes: the allocator then places them elsewhere, and leaves no holes between objects that are kept.
func roomOf(k *registry.Kind) reflect.Type {
	return reflect.StructOf([]reflect.StructField{
		{Name: "Entry", Type: reflect.TypeFor[Entry]()},
		{Name: "Object", Type: reflect.TypeOf(k.New()).Elem()},
	})
}

// place makes room for an entry and its object.
func (t *table) place() (e *Entry, empty func() runtime.Object) {
	room := reflect.New(t.room).Elem()
	return room.Field(0).Addr().Interface().(*Entry), func() runtime.Object { return room.Field(1).Addr().Interface().(runtime.Object) }
}

// Size is how many bytes the object takes in the store; 0 when that is not known.
func (e *Entry) Size() int { return e.size }

// Change is one write of one object. New nil is a deletion; Old nil is a creation. For a deletion Rev is the deletion's revision.
type Change struct {
	Rev int64
	Old *Entry
	New *Entry
}

// Form names an encoding of an object ("json", "protobuf", "json list item", ...); its users define the names.
type Form string

// encodings are an entry's, one a form.
type encodings struct {
	cache *encodingCache // nil for an entry that no view publishes: its encodings are not kept
	mu    sync.Mutex
	slots []*encoding
}

// encoding is one encoding of one entry.
//
//	absent ──► making (done open) ──► kept (data set, used by each reader) ──► evicted (data nil: absent again)
//	              └─ failed: absent again
type encoding struct {
	form Form
	done chan struct{} // closed when made or failed
	data atomic.Pointer[[]byte]
	used atomic.Bool

	counted bool       // in the cache's sums; guarded by its mu
	err     error      // set before done closes
	of      *encodings // of its entry; nil once evicted, so that its place in the queue does not hold the object
}

// Encoded returns the object in the given form. encode makes it at most once (concurrent callers wait for it), and it is kept in
// a bounded cache, unless the entry is one that no view publishes. The bytes are shared and read-only. Errors are not kept.
func (e *Entry) Encoded(form Form, encode func(runtime.Object) ([]byte, error)) ([]byte, error) {
	if e.enc.cache == nil {
		return encode(e.Object)
	}
	for {
		s, mine := e.enc.slot(form)
		if mine {
			return e.enc.make(s, e.Object, encode)
		}
		d := s.data.Load()
		if d == nil { // not made yet, as a rule
			<-s.done
			if s.err != nil {
				return nil, s.err
			}
			d = s.data.Load()
		}
		if d != nil {
			if !s.used.Load() {
				s.used.Store(true)
			}
			return *d, nil
		}
		// Evicted between finding it and reading it: look for it again.
	}
}

// slot finds the form's slot, or makes one, which the caller then has to fill (mine).
func (c *encodings) slot(form Form) (s *encoding, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.slots {
		if s.form != form {
			continue
		}
		if s.data.Load() != nil || !s.settled() {
			return s, false
		}
		c.slots = append(c.slots[:i:i], c.slots[i+1:]...) // evicted
		break
	}
	s = &encoding{form: form, done: make(chan struct{}), of: c}
	c.slots = append(c.slots, s)
	return s, true
}

// remove drops an evicted slot: thousands of objects are encoded once, for one watch.
func (c *encodings) remove(s *encoding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots = slices.DeleteFunc(c.slots, func(x *encoding) bool { return x == s }); len(c.slots) == 0 {
		c.slots = nil
	}
}

func (s *encoding) settled() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// errEncodePanic is what waiters get when encode panicked under another caller.
type errEncodePanic struct{}

func (errEncodePanic) Error() string { return "encoding the object panicked" }

// make runs encode for the slot and settles it, also when encode panics.
func (c *encodings) make(s *encoding, obj runtime.Object, encode func(runtime.Object) ([]byte, error)) (b []byte, err error) {
	err = errEncodePanic{}
	defer func() {
		s.err = err
		if err == nil {
			s.data.Store(&b)
		}
		close(s.done) // without data it now counts as absent
		if err == nil {
			c.cache.add(s, len(b))
		}
	}()
	return encode(obj)
}

// unkept is an entry that was read from the store for one reader. He encodes it once, and keeping the encoding would hold the
// object for minutes.
func unkept(e *Entry) *Entry {
	if e != nil {
		e.enc.cache = nil
	}
	return e
}

// release drops the encodings of an entry that nobody will read again.
func (c *encodings) release() {
	c.mu.Lock()
	slots := c.slots
	c.slots = nil
	c.mu.Unlock()
	for _, s := range slots {
		if s.data.Load() != nil {
			c.cache.drop(s)
		}
	}
}

// encodingCache bounds the bytes of all encodings. It is a clock over the slots: one that was used since the last round stays for
// another.
type encodingCache struct {
	max int64

	mu    sync.Mutex
	bytes int64
	live  int
	queue []*encoding // in the order of their next look; evicted ones are taken out later
}

// slotCost is what a slot takes besides its bytes.
const slotCost = 128

func cost(n int) int64 { return int64(n) + slotCost }

func (q *encodingCache) add(s *encoding, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.data.Load() == nil {
		return // its entry has been released meanwhile
	}
	s.counted = true
	q.bytes += cost(n)
	q.live++
	q.queue = append(q.queue, s)
	if len(q.queue) > 2*q.live+64 {
		q.queue = slices.DeleteFunc(q.queue, func(s *encoding) bool { return s.data.Load() == nil })
	}
	// Two looks at each slot suffice: the first takes its mark, the second drops it.
	for looks := 2 * len(q.queue); q.bytes > q.max && looks > 0; looks-- {
		s := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if s.data.Load() != nil && s.used.Swap(false) {
			q.queue = append(q.queue, s)
			continue
		}
		q.evict(s)
	}
}

// age evicts encodings that were neither made nor used since its last call.
func (q *encodingCache) age() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.DeleteFunc(q.queue, func(s *encoding) bool {
		if s.data.Load() != nil && s.used.Swap(false) {
			return false
		}
		q.evict(s)
		return true
	})
}

// drop releases a slot at once; its place in the queue goes when its turn comes.
func (q *encodingCache) drop(s *encoding) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.evict(s)
}

// evict frees a slot's bytes, once, and has its entry forget it. q.mu is held: nobody takes q.mu while holding an entry's mutex.
func (q *encodingCache) evict(s *encoding) {
	d := s.data.Swap(nil)
	if d == nil {
		return
	}
	if s.counted {
		s.counted = false
		q.bytes -= cost(len(*d))
		q.live--
	}
	s.of.remove(s)
	s.of = nil
}

// checksum is the object's state as its JSON form shows it.
func checksum(obj runtime.Object) uint64 {
	h := fnv.New64a()
	if err := encodeJSON(h, obj); err != nil {
		return 0
	}
	return h.Sum64() | 1 // never 0, which says "not taken"
}

// EncodingBytes is how much the encodings that are kept take.
func (v *View) EncodingBytes() int64 {
	v.encCache.mu.Lock()
	defer v.encCache.mu.Unlock()
	return v.encCache.bytes
}
