// SPDX-License-Identifier: Apache-2.0
/* The filter of a session without namespaces, by the kernel itself: what it says at both sides of
 * each edge. Calls that it lets through are made with arguments that harm nothing. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FAILURES_SHOWN 20

struct edge {
	const char *name;
	long call;
	uintptr_t arg[4];
	int answer; /* 0: allowed, whatever the kernel then answers; else refused */
};
static int pair_room[2];
#define P(x) ((uintptr_t)(x))
#define FD AT_FDCWD
#define MISSING P("/nonexistent/file")

static const struct edge edges[] = {
	{"unix stream", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, EPERM},
	{"unix seqpacket", SYS_socket, {AF_UNIX, SOCK_SEQPACKET, 0}, EPERM},
	{"inet", SYS_socket, {AF_INET, SOCK_STREAM, 0}, EPERM},
	{"inet6", SYS_socket, {AF_INET6, SOCK_DGRAM, 0}, EPERM},
	{"netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, EPERM},
	{"no family", SYS_socket, {UINT32_MAX, SOCK_RAW, 0}, EPERM},
	{"pair of streams",
	 SYS_socketpair,
	 {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, P(pair_room)},
	 0},
	{"pair of packets", SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET, 0, P(pair_room)}, 0},
	{"pair of datagrams", SYS_socketpair, {AF_UNIX, SOCK_DGRAM, 0, P(pair_room)}, EPERM},
	{"pair of raw ones", SYS_socketpair, {AF_UNIX, SOCK_RAW, 0, P(pair_room)}, EPERM},
	{"pair of another family", SYS_socketpair, {AF_INET, SOCK_STREAM, 0, P(pair_room)}, EPERM},
	{"connect", SYS_connect, {-1, 0, 0}, EPERM},
	{"bind", SYS_bind, {-1, 0, 0}, EPERM},
	{"fchmod", SYS_fchmod, {-1, 0}, EPERM},
	{"fchmodat", SYS_fchmodat, {FD, MISSING, 0}, EPERM},
	{"fchmodat2", 452, {FD, MISSING, 0, 0}, EPERM},
	{"utimensat", SYS_utimensat, {FD, MISSING, 0, 0}, EPERM},
	{"fchownat", SYS_fchownat, {FD, MISSING, -1, -1}, EPERM},
	{"fchown", SYS_fchown, {-1, -1, -1}, EPERM},
	{"setxattr", SYS_setxattr, {MISSING, MISSING, 0, 0}, EOPNOTSUPP},
	{"lsetxattr", SYS_lsetxattr, {MISSING, MISSING, 0, 0}, EOPNOTSUPP},
	{"fsetxattr", SYS_fsetxattr, {-1, MISSING, 0, 0}, EOPNOTSUPP},
	{"removexattr", SYS_removexattr, {MISSING, MISSING}, EOPNOTSUPP},
	{"getxattr", SYS_getxattr, {MISSING, MISSING, 0, 0}, EOPNOTSUPP},
	{"lgetxattr", SYS_lgetxattr, {MISSING, MISSING, 0, 0}, EOPNOTSUPP},
	{"getxattrat", 464, {FD, MISSING, 0, MISSING}, EOPNOTSUPP},
	{"listxattr", SYS_listxattr, {MISSING, 0, 0}, EOPNOTSUPP},
	{"llistxattr", SYS_llistxattr, {MISSING, 0, 0}, EOPNOTSUPP},
	{"listxattrat", 465, {FD, MISSING, 0, 0}, EOPNOTSUPP},
	{"an open file's xattr", SYS_fgetxattr, {-1, MISSING, 0, 0}, 0},
	{"an open file's xattrs", SYS_flistxattr, {-1, 0, 0}, 0},
	{"truncate", SYS_truncate, {MISSING, 0}, EPERM},
	{"own flags", SYS_ioctl, {-1, FS_IOC_SETFLAGS, 0}, EPERM},
	{"what flags there are", SYS_ioctl, {-1, FS_IOC_GETFLAGS, 0}, 0},
	{"where a file lies", SYS_ioctl, {-1, FS_IOC_FIEMAP, 0}, 0},
	{"verity", SYS_ioctl, {-1, FS_IOC_ENABLE_VERITY, 0}, EPERM},
	{"a project", SYS_ioctl, {-1, FS_IOC_FSSETXATTR, 0}, EPERM},
	{"what project", SYS_ioctl, {-1, FS_IOC_FSGETXATTR, 0}, 0},
	{"a version", SYS_ioctl, {-1, FS_IOC_SETVERSION, 0}, EPERM},
	{"a subvolume", SYS_ioctl, {-1, BTRFS_IOC_SUBVOL_CREATE, 0}, EPERM},
	{"a clone", SYS_ioctl, {-1, FICLONE, 0}, 0},
	{"a part of a clone", SYS_ioctl, {-1, FICLONERANGE, 0}, 0},
	{"typing", SYS_ioctl, {-1, TIOCSTI, 0}, EPERM},
	{"a line discipline", SYS_ioctl, {-1, TIOCSETD, 0}, EPERM},
	{"the size of a terminal", SYS_ioctl, {-1, TIOCGWINSZ, 0}, 0},
	{"inotify_add_watch", SYS_inotify_add_watch, {-1, MISSING, 0}, EPERM},
	{"fanotify_init", SYS_fanotify_init, {0, 0}, EPERM},
	{"shmget", SYS_shmget, {1, 0, 0}, EPERM},
	{"shmat", SYS_shmat, {-1, 0, 0}, EPERM},
	{"semget", SYS_semget, {1, 0, 0}, EPERM},
	{"msgget", SYS_msgget, {1, 0}, EPERM},
	{"mq_open", SYS_mq_open, {MISSING, 0, 0, 0}, EPERM},
	{"own limits", SYS_prlimit64, {0, RLIMIT_CPU, 0, 0}, 0},
	{"another's limits", SYS_prlimit64, {1, RLIMIT_CPU, 0, 0}, EPERM},
	{"own priority", SYS_setpriority, {PRIO_PROCESS, 0, 19}, 0},
	{"another's priority", SYS_setpriority, {PRIO_PROCESS, 1, 19}, EPERM},
	{"own group's priority", SYS_setpriority, {PRIO_PGRP, 0, 19}, 0},
	{"the user's priority", SYS_setpriority, {PRIO_USER, 0, 19}, EPERM},
	{"own disk priority", SYS_ioprio_set, {IOPRIO_WHO_PROCESS, 0, 0}, 0},
	{"another's disk priority", SYS_ioprio_set, {IOPRIO_WHO_PROCESS, 1, 0}, EPERM},
	{"the user's disk priority", SYS_ioprio_set, {IOPRIO_WHO_USER, 0, 0}, EPERM},
	{"own processors", SYS_sched_setaffinity, {0, 0, 0}, 0},
	{"another's processors", SYS_sched_setaffinity, {1, 0, 0}, EPERM},
	{"own scheduler", SYS_sched_setscheduler, {0, SCHED_OTHER, 0}, 0},
	{"another's scheduler", SYS_sched_setscheduler, {1, SCHED_OTHER, 0}, EPERM},
	{"another's parameters", SYS_sched_setparam, {1, 0}, EPERM},
	{"another's attributes", SYS_sched_setattr, {1, 0, 0}, EPERM},
	/* of the table that every session has */
	{"keyctl", SYS_keyctl, {0, 0}, EPERM},
	{"clone3", SYS_clone3, {0, 0}, ENOSYS},
	{"getpid", SYS_getpid, {0}, 0},
};

/* In a child behind the filter: how many are not as they should be. */
static int count_wrong(void)
{
	struct seccomp_program program;
	int wrong = 0;

	seccomp_build(SECCOMP_SHARED, &program);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_load(program.code, program.n, NULL, NULL) < 0)
		return FAILURES_SHOWN;
	for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
		const struct edge *e = &edges[i];
		const long r = syscall(e->call, e->arg[0], e->arg[1], e->arg[2], e->arg[3]);
		const bool refused =
			r == -1 && (errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP);

		if (e->answer == 0 ? refused : r != -1 || errno != e->answer) {
			fprintf(stderr, "%s: %ld %s\n", e->name, r, strerror(errno));
			wrong++;
		}
	}
	return wrong < FAILURES_SHOWN ? wrong : FAILURES_SHOWN;
}

static void sbx_2_the_kernel_answers_at_the_edges(void **state)
{
	int status;
	const pid_t pid = fork();

	if (pid == 0)
		_exit(count_wrong());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A call that is in both tables gets no answer of the second: the first must say all. */
static void sbx_2_rows_of_both_tables_agree(void **state)
{
	for (size_t i = 0; i < seccomp_shared_nrows; i++) {
		const struct seccomp_row *row = &seccomp_shared_rows[i];
		bool last = true, known = false;

		for (size_t k = i + 1; k < seccomp_shared_nrows; k++)
			last = last && seccomp_shared_rows[k].number != row->number;
		for (size_t k = 0; k < seccomp_nrows; k++)
			known = known || seccomp_rows[k].number == row->number;
		/* refused whatever comes (a test that nothing fails), or both look alike */
		if (last && known && row->test[0].nvalues > 0 && row->test[0].mask != 0)
			assert_true(strcmp(row->name, "socketpair") == 0 ||
				    strcmp(row->name, "ioctl") == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_2_the_kernel_answers_at_the_edges),
		cmocka_unit_test(sbx_2_rows_of_both_tables_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
