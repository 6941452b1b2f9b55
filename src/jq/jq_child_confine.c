/* jq_child_confine.c - what the process that runs jq gives up before it does: rights, descriptors, memory, system calls. */
#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jq/jq_child_int.h"

const char *child_drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];
	memset(none, 0, sizeof none);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return "PR_SET_NO_NEW_PRIVS";
	if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return "PR_SET_DUMPABLE";
	if (close_range(3, ~0u, 0)) {
		/* Kernels before 5.9; the parent opens everything close-on-exec anyway. */
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	}
	return syscall(SYS_capset, &head, none) ? "capset" : NULL;
}

rlim_t child_address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;
	if (!f)
		return 0;
	if (fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static bool limit_to(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit r = {soft, hard};
	struct rlimit now;
	/* A limit that is lower already stays. */
	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max != RLIM_INFINITY && now.rlim_max < r.rlim_max)
		r = (struct rlimit){soft < now.rlim_max ? soft : now.rlim_max, now.rlim_max};
	return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

const char *child_set_limits(rlim_t base, const struct jq_hello *hello)
{
	rlim_t cpu = (rlim_t)hello->cpu_s;
	if (!limit_to(RLIMIT_CPU, cpu, cpu + 2))
		return "the limit on CPU time";
	if (!limit_to(RLIMIT_FSIZE, 0, 0) || !limit_to(RLIMIT_CORE, 0, 0))
		return "the limits on files";
	if (SANITIZED)
		return NULL;
	if (!limit_to(RLIMIT_NOFILE, 0, 0) || !limit_to(RLIMIT_NPROC, 0, 0))
		return "the limits on descriptors and processes";
	if (base == 0)
		return "the size of its address space (/proc/self/statm)";
	rlim_t space = base + (rlim_t)hello->memory_bytes;
	return limit_to(RLIMIT_AS, space, space) ? NULL : "the limit on memory";
}

static bool add_rules(scmp_filter_ctx ctx)
{
	static const int allowed[] = {
	    SCMP_SYS(brk),           SCMP_SYS(munmap),        SCMP_SYS(mremap),       SCMP_SYS(madvise),       SCMP_SYS(futex),
	    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),  SCMP_SYS(time),         SCMP_SYS(rt_sigaction),  SCMP_SYS(rt_sigprocmask),
	    SCMP_SYS(rt_sigreturn),  SCMP_SYS(sigaltstack),   SCMP_SYS(setitimer),    SCMP_SYS(getpid),        SCMP_SYS(getppid),
	    SCMP_SYS(gettid),        SCMP_SYS(getrandom),     SCMP_SYS(exit),         SCMP_SYS(exit_group),    SCMP_SYS(restart_syscall),
	    SCMP_SYS(sched_yield),   SCMP_SYS(getrusage),
	};
	static const int deadly[] = {
	    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork),    SCMP_SYS(vfork),  SCMP_SYS(clone),  SCMP_SYS(clone3),
	    SCMP_SYS(socket), SCMP_SYS(connect),  SCMP_SYS(ptrace),  SCMP_SYS(kill),   SCMP_SYS(tkill),  SCMP_SYS(process_vm_readv),
	    SCMP_SYS(mount),  SCMP_SYS(bpf),      SCMP_SYS(process_vm_writev),         SCMP_SYS(io_uring_setup),
	};
	bool good = true;
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		good = good && seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
	for (size_t i = 0; i < ARRAY_LEN(deadly); i++)
		good = good && seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, deadly[i], 0) == 0;
	/* The two descriptors, memory that is not code, and abort() for itself. */
	return good && seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(read), 1, SCMP_A0(SCMP_CMP_EQ, STDIN_FILENO)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(write), 1, SCMP_A0(SCMP_CMP_LE, STDERR_FILENO)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())) == 0;
}

const char *child_set_filter(void)
{
	if (SANITIZED || (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0 && errno == EINVAL)) /* a kernel without it */
		return NULL;
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	bool good = ctx && seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0) == 0 && add_rules(ctx) && seccomp_load(ctx) == 0;
	seccomp_release(ctx);
	return good ? NULL : "the seccomp filter (does the container forbid it?)";
}
