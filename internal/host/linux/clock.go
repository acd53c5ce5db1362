package linux

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ClockSet tells each time that the machine's clock was set, or that the machine woke from sleep, until ctx ends. The kernel tells of it:
// a timer of the wall clock, set for a time that never comes, is cancelled. Events that come faster than they are taken are one.
func ClockSet(ctx context.Context) (<-chan struct{}, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	never := &unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 40}}
	arm := func() error {
		return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, never, nil))
	}
	if err := arm(); err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	told := make(chan struct{}, 1)
	stop := context.AfterFunc(ctx, func() { f.Close() })
	go func() {
		defer stop()
		defer f.Close()
		for {
			if _, err := f.Read(make([]byte, 8)); err != nil && !errors.Is(err, unix.ECANCELED) {
				return
			}
			select {
			case told <- struct{}{}:
			default:
			}
			if ctx.Err() != nil || arm() != nil {
				return
			}
		}
	}()
	return told, nil
}

// WhenClockSet calls do each time that ClockSet tells, until ctx ends. Where the kernel does not tell, it says so to lost and waits for
// ctx's end.
func WhenClockSet(ctx context.Context, do func(), lost func(error)) {
	set, err := ClockSet(ctx)
	if err != nil {
		lost(err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-set:
			do()
		}
	}
}
