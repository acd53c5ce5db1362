/*
 * pause is the first process of every pod sandbox. It holds the pod's namespaces, collects the children that fall to it when
 * containers share its process namespace, and ends with status 0 on TERM or INT. Freestanding C: no libc, so that it is a few
 * hundred bytes of code and touches almost no memory (one of these runs for each pod).
 *
 * The three signals are blocked and then waited for. That matters twice: as process 1 of its namespace the kernel would discard
 * a signal with the default action, but never a blocked one; and nothing can be lost between two waits.
 */
typedef unsigned long word;

#define SIGINT 2
#define SIGTERM 15
#define SIGCHLD 17
#define SIG_BLOCK 0
#define WNOHANG 1

#if defined(__x86_64__)
enum { SYS_rt_sigprocmask = 14, SYS_rt_sigtimedwait = 128, SYS_wait4 = 61, SYS_exit_group = 231 };

static long call(long n, word a, word b, word c, word d)
{
	long ret;
	register word r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
enum { SYS_rt_sigprocmask = 135, SYS_rt_sigtimedwait = 137, SYS_wait4 = 260, SYS_exit_group = 94 };

static long call(long n, word a, word b, word c, word d)
{
	register long x8 __asm__("x8") = n;
	register word x0 __asm__("x0") = a;
	register word x1 __asm__("x1") = b;
	register word x2 __asm__("x2") = c;
	register word x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return (long)x0;
}
#else
#error "pause: add this architecture's system call numbers"
#endif

#define BIT(sig) (1UL << ((sig) - 1))

__attribute__((noreturn)) void _start(void)
{
	word set = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGCHLD);
	call(SYS_rt_sigprocmask, SIG_BLOCK, (word)&set, 0, sizeof set);
	for (;;) {
		/* First collect, then wait: children may have ended before the first wait. */
		while (call(SYS_wait4, (word)-1, 0, WNOHANG, 0) > 0)
			;
		long sig = call(SYS_rt_sigtimedwait, (word)&set, 0, 0, sizeof set);
		if (sig == SIGINT || sig == SIGTERM)
			for (;;)
				call(SYS_exit_group, 0, 0, 0, 0);
	}
}
