// SPDX-License-Identifier: Apache-2.0
/* Other processes: their memory, descriptors, signals and limits; queues that are shared by key. */
#include "attack.h"
#include <linux/kcmp.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* A child that does nothing until it is killed. */
static pid_t sleeper(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static int end(pid_t pid, int r)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	return r;
}

static int trace(void)
{
	const pid_t pid = sleeper();

	return end(pid, outcome(ptrace(PTRACE_SEIZE, pid, NULL, NULL)));
}

static int be_traced(void)
{
	return outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int copy_memory(bool write)
{
	static char there[16] = "text";
	char here[16] = "new";
	const struct iovec local = {here, sizeof(here)}, remote = {there, sizeof(there)};
	const pid_t pid = sleeper();

	return end(pid, outcome(write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
				      : process_vm_readv(pid, &local, 1, &remote, 1, 0)));
}

static int read_memory(void)
{
	return copy_memory(false);
}

static int write_memory(void)
{
	return copy_memory(true);
}

static int own_memory_file(void)
{
	return try_open("/proc/self/mem", O_RDWR);
}

static int child_memory_file(void)
{
	const pid_t pid = sleeper();
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return end(pid, try_open(path, O_RDWR));
}

static int compare(void)
{
	const pid_t pid = sleeper();
	const long r = syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0);

	return end(pid, outcome(r));
}

static int take_descriptor(void)
{
	const pid_t pid = sleeper();
	const long pidfd = syscall(SYS_pidfd_open, pid, 0);

	if (pidfd == -1)
		return end(pid, BROKEN);
	return end(pid, outcome(syscall(SYS_pidfd_getfd, pidfd, 0, 0)));
}

static int host_pidfd(void)
{
	return outcome(syscall(SYS_pidfd_open, place_number("HOST_PID"), 0));
}

static int signal_host(void)
{
	return outcome(kill((pid_t)place_number("HOST_PID"), SIGURG)); /* ignored by default */
}

static int signal_group(void)
{
	return outcome(kill(-(pid_t)place_number("HOST_PID"), SIGURG));
}

static int limit_host(void)
{
	struct rlimit limit;

	return outcome(prlimit((pid_t)place_number("HOST_PID"), RLIMIT_NOFILE, NULL, &limit));
}

static int schedule_host(void)
{
	return outcome(setpriority(PRIO_PROCESS, (id_t)place_number("HOST_PID"), 19));
}

static int signal_warden(void)
{
	return outcome(kill((pid_t)place_number("WARDEN_PID"), 0));
}

static int message_queue(void)
{
	return outcome(msgget((key_t)place_number("SYSV_KEY"), 0));
}

static int shared_memory(void)
{
	return outcome(shmget((key_t)place_number("SYSV_KEY"), 0, 0));
}

static int semaphores(void)
{
	return outcome(semget((key_t)place_number("SYSV_KEY"), 0, 0));
}

static int posix_queue(void)
{
	return outcome(mq_open(place("POSIX_QUEUE"), O_RDWR | O_NONBLOCK));
}

static int posix_memory(void)
{
	return outcome(shm_open(place("POSIX_MEMORY"), O_RDWR, 0));
}

const struct attack process_attacks[] = {
	{"ptrace", trace},
	{"ptrace_traceme", be_traced},
	{"process_vm_readv", read_memory},
	{"process_vm_writev", write_memory},
	{"proc_self_mem", own_memory_file},
	{"proc_child_mem", child_memory_file},
	{"kcmp", compare},
	{"pidfd_getfd", take_descriptor},
	{"pidfd_open", host_pidfd},
	{"kill_host", signal_host},
	{"kill_host_group", signal_group},
	{"prlimit", limit_host},
	{"setpriority_host", schedule_host},
	{"kill_warden", signal_warden},
	{"msgget", message_queue},
	{"shmget", shared_memory},
	{"semget", semaphores},
	{"mq_open", posix_queue},
	{"shm_open", posix_memory},
	{0},
};
