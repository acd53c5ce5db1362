package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// recordBytes is more than the kernel ever gives for one record.
const recordBytes = 16 << 10

// FollowKernel implements host.KernelLog. Each read of the device is one record: "level,number,time,flags;text", and lines of further
// facts, which begin with a blank.
func (Host) FollowKernel(ctx context.Context, ready func(), line func(string)) error {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/kmsg: %w", err)
	}
	f := os.NewFile(uintptr(fd), "/dev/kmsg")
	defer f.Close() //nolint:errcheck // read only
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		return fmt.Errorf("go to the end of /dev/kmsg: %w", err)
	}
	defer context.AfterFunc(ctx, func() { f.Close() })() //nolint:errcheck // read only
	ready()
	buf := make([]byte, recordBytes)
	for {
		n, err := f.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EPIPE): // the ring has gone round: some were missed
			continue
		case err != nil:
			return fmt.Errorf("read /dev/kmsg: %w", err)
		}
		_, text, _ := bytes.Cut(buf[:n], []byte{';'})
		text, _, _ = bytes.Cut(text, []byte{'\n'})
		line(string(text))
	}
}
