package runtime

import (
	"encoding/json"
	"path/filepath"
)

// sandboxSyscalls are the system calls that the first process of a sandbox may make: the few of pause, and those of runc, in
// whose process the filter is set, from there to its exec (a Go program: threads, memory, signals, descriptors).
var sandboxSyscalls = []string{
	// memory
	"brk", "madvise", "mincore", "mmap", "mprotect", "mremap", "munmap",
	// threads, time and signals
	"arch_prctl", "clock_getres", "clock_gettime", "clock_nanosleep", "clone", "clone3", "exit", "exit_group", "futex", "futex_waitv",
	"get_robust_list", "getitimer", "gettid", "gettimeofday", "kill", "membarrier", "nanosleep", "pause", "restart_syscall", "rseq",
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "sched_getaffinity",
	"sched_getparam", "sched_getscheduler", "sched_yield", "set_robust_list", "set_tid_address", "setitimer", "sigaltstack", "tgkill",
	"time", "timer_create", "timer_delete", "timer_gettime", "timer_settime", "tkill",
	// processes and their identity
	"capget", "capset", "execve", "execveat", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid",
	"getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getuid", "prctl", "prlimit64", "setgid", "setgroups", "setpgid",
	"setresgid", "setresuid", "setrlimit", "setsid", "setuid", "umask", "uname", "wait4", "waitid",
	// descriptors and files
	"access", "chdir", "close", "close_range", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
	"epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "faccessat", "faccessat2", "fchdir", "fcntl", "fstat", "fstatfs", "getcwd",
	"getdents", "getdents64", "getrandom", "ioctl", "lseek", "lstat", "newfstatat", "open", "openat", "openat2", "pipe", "pipe2", "poll",
	"ppoll", "pread64", "pselect6", "pwrite64", "read", "readlink", "readlinkat", "readv", "recvfrom", "recvmsg", "select", "sendmsg",
	"sendto", "stat", "statfs", "statx", "write", "writev",
}

// sandboxSeccomp is the seccomp profile of the sandboxes' own process, podo's pause: far fewer calls than the runtime's default
// profile, and only the machine's own architecture. It is stricter and faster: compiling the default one, with hundreds of calls
// for three kinds of x86, takes 14 ms of every pod's start.
func sandboxSeccomp() []byte {
	type rule struct {
		Names  []string `json:"names"`
		Action string   `json:"action"`
	}
	text, err := json.Marshal(struct {
		DefaultAction string `json:"defaultAction"`
		Syscalls      []rule `json:"syscalls"`
	}{"SCMP_ACT_ERRNO", []rule{{sandboxSyscalls, "SCMP_ACT_ALLOW"}}})
	if err != nil {
		panic(err) // of constants
	}
	return text
}

// seccompFile is where it is.
func (l Layout) seccompFile() string { return filepath.Join(l.Config, "pause-seccomp.json") }

// SandboxSeccomp is the path of the seccomp profile for sandboxes, there once Run is ready.
func (r *Runtime) SandboxSeccomp() string { return r.layout.seccompFile() }
