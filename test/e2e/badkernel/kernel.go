//go:build linux

// Package badkernel runs a program whose kernel is slow, or refuses: chosen system calls of it and of all that it starts are put before a
// Judge first.
//
//	test ── Start ──► launcher (the test's own binary once more) ── exec ──► program ──► its children
//	  ▲                  │ filter (seccomp), listener                          │ system call, chosen
//	  └──────────────────┘                                                     ▼
//	  Judge(Call) ──────── wait, go on, or an error ─────────────────────► the kernel
//
// All other calls cost a few instructions more, so that few should be chosen, and rare ones. A call whose Judge has gone fails with ENOSYS:
// the Kernel is closed after the programs have ended.
package badkernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is one system call, held before it is made.
type Call struct {
	Number int
	Args   [6]uint64
	// PID is the calling thread's.
	PID int
}

// A Judge says what becomes of a call: zero lets the kernel do it, anything else is its error. It takes the time that the call shall take.
// Judges run at once, a goroutine a call.
type Judge func(Call) syscall.Errno

// Path is the file of a descriptor that the call names, "" when there is none.
func (c Call) Path(arg int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.PID, int32(c.Args[arg])))
	return path
}

// Text is a string that the call points to, such as a path.
func (c Call) Text(arg int) string {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.PID))
	if err != nil {
		return ""
	}
	defer file.Close()
	buf := make([]byte, unix.PathMax)
	// A page at a time: the string may end just before memory that is not there.
	n := 0
	for at := c.Args[arg]; n < len(buf); {
		page := int(4096 - (at+uint64(n))%4096)
		got, err := file.ReadAt(buf[n:min(n+page, len(buf))], int64(at)+int64(n))
		n += got
		if i := strings.IndexByte(string(buf[:n]), 0); i >= 0 {
			return string(buf[:i])
		}
		if err != nil || got == 0 {
			return ""
		}
	}
	return ""
}

// Kernel is what a program that was started under it, and its children, see.
type Kernel struct {
	judge    atomic.Pointer[Judge]
	listener int
	stop     int // an eventfd
	done     sync.WaitGroup
}

const launch = "PODO_TEST_BADKERNEL"

// Run runs cmd to its end under a kernel that asks judge about the calls, by number. Children of cmd may live on: they stay under it, until
// it is closed. The binary must call Launch first thing in its TestMain.
func Run(cmd *exec.Cmd, judge Judge, calls ...int) (*Kernel, []byte, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "launcher")
	self, err := os.Executable()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	numbers := make([]string, len(calls))
	for i, n := range calls {
		numbers[i] = strconv.Itoa(n)
	}
	cmd.Args = append([]string{cmd.Path}, cmd.Args...)
	cmd.Path = self
	cmd.Env = append(cmd.Environ(), launch+"="+strings.Join(numbers, ","))
	cmd.ExtraFiles = []*os.File{theirs}
	k := &Kernel{}
	k.Judge(judge)
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result, 1)
	started := make(chan struct{})
	go func() {
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Start()
		theirs.Close()
		close(started)
		if err == nil {
			err = cmd.Wait()
		}
		ended <- result{[]byte(out.String()), err}
	}()
	<-started
	if k.listener, err = receive(pair[0]); err != nil {
		r := <-ended
		return nil, r.out, errors.Join(fmt.Errorf("no filter: %w", err), r.err)
	}
	if k.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, nil, err
	}
	k.done.Go(k.serve)
	r := <-ended
	return k, r.out, r.err
}

// Judge replaces the judge; calls that are held by the one before stay with it.
func (k *Kernel) Judge(judge Judge) { k.judge.Store(&judge) }

// Close ends the judging. Whoever is still under the kernel finds the chosen calls missing.
func (k *Kernel) Close() {
	unix.Write(k.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	k.done.Wait()
	unix.Close(k.listener)
	unix.Close(k.stop)
}

// As the kernel has them (linux/seccomp.h).
type (
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		data  struct {
			number int32
			arch   uint32
			ip     uint64
			args   [6]uint64
		}
	}
	verdict struct {
		id    uint64
		value int64
		err   int32
		flags uint32
	}
)

func (k *Kernel) serve() {
	for {
		fds := []unix.PollFd{{Fd: int32(k.listener), Events: unix.POLLIN}, {Fd: int32(k.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[1].Revents != 0 || fds[0].Revents&unix.POLLHUP != 0 {
			return // closed, or nobody is left
		}
		if fds[0].Revents == 0 {
			continue
		}
		var n notification
		if _, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(k.listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); err != 0 {
			continue // who called has died
		}
		judge := *k.judge.Load()
		go func() {
			errno := judge(Call{Number: int(n.data.number), Args: n.data.args, PID: int(n.pid)})
			v := verdict{id: n.id}
			if errno == 0 {
				v.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
			} else {
				v.err = -int32(errno)
			}
			// Fails when the caller has died meanwhile, or the kernel was closed.
			unix.Syscall(unix.SYS_IOCTL, uintptr(k.listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&v)))
		}()
	}
}

// Launch is the launcher: it puts the filter on, hands the listener over and becomes the program. It returns at once where the process
// is none.
func Launch() {
	numbers, ok := os.LookupEnv(launch)
	if !ok {
		return
	}
	os.Unsetenv(launch)
	err := become(numbers)
	fmt.Fprintln(os.Stderr, "badkernel:", err)
	os.Exit(1)
}

func become(numbers string) error {
	runtime.LockOSThread() // the filter is this thread's, and the program's
	const socket = 3
	unix.CloseOnExec(socket)
	var calls []uint32
	for n := range strings.SplitSeq(numbers, ",") {
		call, err := strconv.ParseUint(n, 10, 32)
		if err != nil {
			return err
		}
		calls = append(calls, uint32(call))
	}
	program := filter(calls)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// Without no_new_privs, so that the children may start what they like: that takes CAP_SYS_ADMIN. A call that a judge has seen is ended by
	// nothing but a kill, since a signal would have it made and judged once more.
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return err
	}
	unix.CloseOnExec(int(listener))
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// filter holds the calls and lets all others pass. Numbers of other architectures are not looked at: nothing here is foreign.
func filter(calls []uint32) []unix.SockFilter {
	f := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number
	for i, n := range calls {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jt: uint8(len(calls) - i)})
	}
	return append(f,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}

func receive(socket int) (int, error) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return -1, errors.Join(errors.New("the launcher has ended"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("no listener"), err)
	}
	return fds[0], nil
}
