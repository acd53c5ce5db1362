package recorder

import (
	"encoding/binary"
	"time"

	"podo.dev/podo/internal/timeline"
)

// packed are records of one pod in a row of bytes: there are some thirty of them for each pod, which are seldom read.
type packed struct {
	bytes []byte // each record after its length
	n     int
}

// packedStep is by how many bytes a row grows, a long one by an eighth: most pods' stories end where they began.
const packedStep = 256

func (p *packed) add(w *words, r timeline.Record) {
	var room [256]byte
	b := w.pack(room[:0], r)
	need := len(p.bytes) + len(b) + binary.MaxVarintLen32
	if need > cap(p.bytes) {
		more := make([]byte, len(p.bytes), (need+need/8+packedStep-1)/packedStep*packedStep)
		copy(more, p.bytes)
		p.bytes = more
	}
	p.bytes = append(binary.AppendUvarint(p.bytes, uint64(len(b))), b...)
	p.n++
}

// dropFirst forgets the oldest.
func (p *packed) dropFirst() {
	length, n := binary.Uvarint(p.bytes)
	p.bytes = p.bytes[n+int(length):]
	p.n--
}

func (p *packed) each(w *words, pod timeline.PodRef, visit func(timeline.Record)) {
	for rest := reader(p.bytes); len(rest) > 0; {
		one := reader(rest.take(rest.number()))
		visit(w.unpack(&one, pod))
	}
}

// words are those that many records have, kept once: stages, names of containers and conditions, their states. A text is packed as the number
// of its word, or as 0, its length and itself.
type words struct {
	list    []string
	numbers map[string]uint64 // one more than the place in list
}

// Bounds of what is a word: names may be anything.
const (
	maxWords   = 1000
	maxWordLen = 40
)

func newWords() *words { return &words{list: []string{""}, numbers: map[string]uint64{"": 1}} }

func (w *words) pack(b []byte, r timeline.Record) []byte {
	named := uint64(0) // whether its pod had a UID
	if r.Pod.UID != "" {
		named = 1
	}
	b = binary.AppendUvarint(b, uint64(len(r.Fields))<<1|named)
	b = binary.AppendVarint(b, r.At.Unix())
	b = binary.AppendUvarint(b, uint64(r.At.Nanosecond())) //nolint:gosec // never negative
	b = binary.AppendUvarint(b, r.Seq)
	for _, word := range []string{string(r.Stage), r.Subject, r.From, r.To, r.Cause} {
		b = w.word(b, word)
	}
	for _, f := range r.Fields {
		b = text(w.word(b, f.Key), f.Value)
	}
	return b
}

func (w *words) word(b []byte, s string) []byte {
	n := w.numbers[s]
	if n == 0 && len(s) <= maxWordLen && len(w.list) < maxWords {
		w.list = append(w.list, s)
		n = uint64(len(w.list))
		w.numbers[s] = n
	}
	if n > 0 {
		return binary.AppendUvarint(b, n)
	}
	return text(append(b, 0), s)
}

func text(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

func (w *words) unpack(b *reader, pod timeline.PodRef) timeline.Record {
	head := b.number()
	seconds, n := binary.Varint(*b)
	b.take(uint64(n))                                                               //nolint:gosec // what was written is read
	r := timeline.Record{At: time.Unix(seconds, int64(b.number())).UTC(), Pod: pod} //nolint:gosec // nanoseconds
	r.Seq = b.number()
	if head&1 == 0 {
		r.Pod.UID = ""
	}
	r.Stage = timeline.Stage(w.read(b))
	for _, s := range []*string{&r.Subject, &r.From, &r.To, &r.Cause} {
		*s = w.read(b)
	}
	for range head >> 1 {
		key := w.read(b)
		r.Fields = append(r.Fields, timeline.Field{Key: key, Value: string(b.take(b.number()))})
	}
	return r
}

func (w *words) read(b *reader) string {
	if n := b.number(); n > 0 {
		return w.list[n-1]
	}
	return string(b.take(b.number()))
}

// reader is what has not been read yet of what was packed here.
type reader []byte

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	out := (*r)[:n]
	*r = (*r)[n:]
	return out
}
