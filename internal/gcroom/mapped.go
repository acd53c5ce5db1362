package gcroom

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mapping is a part of the address space.
type mapping struct{ from, to uintptr }

// still is held while pages are given back, and by all who unmap files.
var still sync.RWMutex

// Unmapping is called with what unmaps files that were only read, as a database does when it is closed: meanwhile nothing is given back. What
// comes to where they were may be memory, which would be lost.
func Unmapping(f func() error) error {
	still.RLock()
	defer still.RUnlock()
	return f()
}

// unmapFiles takes the pages of files from this process that it cannot write to. Whatever it reads of them again comes back from the page
// cache, at the price of a fault; nothing is lost.
func unmapFiles() {
	still.Lock()
	defer still.Unlock()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range readOnlyFiles(f) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // one that is gone by now is none of ours
	}
}

// readOnlyFiles finds in a /proc/PID/smaps the mappings of files that are in memory, cannot be written to and have no page of their own: one
// that was written to before it was protected would lose that. It knows whose they are: the program's, private and there until the end, and
// the store's database, which is unmapped by Unmapping only. Whatever else there may be could go, and something else come to its place, between
// this look and what is done about it.
func readOnlyFiles(smaps io.Reader) (found []mapping) {
	var now mapping
	var file bool
	resident, own := 0, 0
	done := func() {
		if file && resident > 0 && own == 0 {
			found = append(found, now)
		}
	}
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		words := bytes.Fields(lines.Bytes())
		if len(words) < 2 {
			continue
		}
		switch first := string(words[0]); {
		case first == "Rss:":
			resident, _ = strconv.Atoi(string(words[1]))
		case first == "Anonymous:":
			own, _ = strconv.Atoi(string(words[1]))
		case !strings.HasSuffix(first, ":"): // "00400000-0245b000 r-xp 00000000 fe:00 10011486   /usr/bin/podo"
			done()
			from, to, _ := strings.Cut(first, "-")
			a, err := strconv.ParseUint(from, 16, 64)
			b, err2 := strconv.ParseUint(to, 16, 64)
			now, resident, own = mapping{uintptr(a), uintptr(b)}, 0, 0
			file = err == nil && err2 == nil && a < b && len(words) > 5 && words[5][0] == '/' && known(string(words[1]), lines.Text())
		}
	}
	done()
	return found
}

func known(access, line string) bool {
	switch access {
	case "r-xp", "r--p":
		return true
	case "r--s":
		return strings.HasSuffix(line, store)
	}
	return false
}

// store is how the path of etcd's database ends.
const store = "/member/snap/db"
