package logs

import (
	"bytes"
	"io"
)

// block is how much of a file is read at once when looking for its last lines.
const block = 64 << 10

// tailOffset returns where the last n whole lines of a log of the given size begin. Pieces of one long line count as one; a last
// entry without its newline is still being written and is not counted. It reads from the end, no more than is needed.
func tailOffset(r io.ReaderAt, size int64, n int64) (int64, error) {
	if n <= 0 {
		return size, nil
	}
	var (
		buf  []byte // the file from at to the end of the oldest line that is not yet looked at
		at   = size
		seen int64
		last = true // nothing has been looked at yet: what follows the last newline is no complete line
	)
	for {
		for {
			i := bytes.LastIndexByte(buf, '\n')
			if i < 0 {
				break
			}
			if entry := buf[i+1:]; !last && !isPartial(entry) {
				if seen++; seen > n {
					// entry is the end of the line before the wanted ones: they begin right after it.
					return at + int64(len(buf)) + 1, nil
				}
			}
			last = false
			buf = buf[:i]
			// From now on the end of buf is the end of an entry whose newline is at at+len(buf).
		}
		if at == 0 {
			break
		}
		k := min(int64(block), at)
		at -= k
		grown := make([]byte, k+int64(len(buf)))
		if _, err := r.ReadAt(grown[:k], at); err != nil && err != io.EOF {
			return 0, err
		}
		copy(grown[k:], buf)
		buf = grown
	}
	if !last && len(buf) > 0 && !isPartial(buf) {
		if seen++; seen > n {
			return int64(len(buf)) + 1, nil
		}
	}
	return 0, nil
}

func isPartial(entry []byte) bool {
	l, ok := parse(entry)
	return ok && l.partial
}
