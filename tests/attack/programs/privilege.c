// SPDX-License-Identifier: Apache-2.0
/* More than the session's user may: other ids, capabilities, priorities, dumps of memory. */
#include "attack.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int other_user(void)
{
	return outcome(setresuid(12345, 12345, 12345));
}

static int other_group(void)
{
	return outcome(setresgid(12345, 12345, 12345));
}

static int more_groups(void)
{
	const gid_t disk = 6;

	return outcome(setgroups(1, &disk));
}

static int raise_capability(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {0};

	data[0].effective = data[0].permitted = 1U << CAP_SYS_ADMIN;
	return outcome(syscall(SYS_capset, &head, data));
}

static int ambient_capability(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {0};

	syscall(SYS_capget, &head, data);
	data[0].inheritable = data[0].permitted;
	syscall(SYS_capset, &head, data);
	return outcome(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0));
}

static int secure_bits(void)
{
	return outcome(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS, 0, 0, 0));
}

static int real_time(void)
{
	const struct sched_param p = {.sched_priority = 1};

	return outcome(sched_setscheduler(0, SCHED_FIFO, &p));
}

static int priority(void)
{
	return outcome(setpriority(PRIO_PROCESS, 0, -20));
}

static int io_priority(void)
{
	return outcome(syscall(SYS_ioprio_set, 1, 0, 1 << 13)); /* this process, real time */
}

/* Programs that carry privilege; they exit with 0 if they got it. */
static int privileged_program(const char *key)
{
	const char *path = place(key);
	const pid_t pid = fork();

	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(errno);
	}
	return status_of(pid);
}

static int setuid_program(void)
{
	return privileged_program("SETUID_PROGRAM");
}

static int setgid_program(void)
{
	return privileged_program("SETGID_PROGRAM");
}

static int capable_program(void)
{
	return privileged_program("CAPABLE_PROGRAM");
}

/* A dump would be written to the host by the kernel, or piped to a program of the host. */
static int core_dump(void)
{
	struct rlimit limit;
	int status;
	pid_t pid;

	getrlimit(RLIMIT_CORE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_CORE, &limit);
	pid = fork();
	if (pid == 0)
		abort();
	waitpid(pid, &status, 0);
	unlink("core");
	return WCOREDUMP(status) ? 0 : EFBIG;
}

const struct attack privilege_attacks[] = {
	{"setresuid", other_user},
	{"setresgid", other_group},
	{"setgroups", more_groups},
	{"capset", raise_capability},
	{"ambient", ambient_capability},
	{"securebits", secure_bits},
	{"sched_fifo", real_time},
	{"nice", priority},
	{"ioprio", io_priority},
	{"setuid_program", setuid_program},
	{"setgid_program", setgid_program},
	{"capable_program", capable_program},
	{"core_dump", core_dump},
	{0},
};
