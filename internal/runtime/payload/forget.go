package payload

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// forget gives back the memory of this program's read-only pages. Unpacking has touched every page of the packed programs, 25 MB that
// would count as this process's for as long as nobody else wants memory. The pages are clean and come back from the file when they are
// touched, so the only cost is some faults. Best effort: without it everything works.
func forget() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		from, to, ok := readOnly(s.Text(), self)
		if ok {
			unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) //nolint:errcheck // best effort
		}
	}
}

// readOnly reads a line of /proc/PID/maps: a private, read-only mapping of file, which no one can have written to.
func readOnly(line, file string) (from, to uintptr, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 || fields[1] != "r--p" || strings.TrimSpace(fields[5]) != file {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to)
	return from, to, err == nil && from < to
}
