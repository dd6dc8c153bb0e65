// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_walls.h"
#include "base/mem.h"
#include "fs/fuse_kernel.h"
#include "model/wall.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

// clang-format off
static const uint32_t allowed[] = {
	/* requests and their answers */
	SYS_read, SYS_writev, SYS_write, SYS_openat2, SYS_openat, SYS_statx, SYS_close,
	SYS_newfstatat, SYS_fstat, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_readv,
	SYS_getdents64, SYS_lseek, SYS_fcntl, SYS_flock, SYS_dup3,
	/* rings that were made before, and do nothing else (fuse_uring.c) */
	SYS_io_uring_enter, SYS_io_uring_register, SYS_sched_setaffinity,
	/* changes in the tree */
	SYS_renameat2, SYS_renameat, SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_mkdirat, SYS_mknodat,
	SYS_readlinkat, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat,
	SYS_faccessat, SYS_faccessat2, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_copy_file_range, SYS_fsync,
	SYS_fdatasync, SYS_syncfs, SYS_fstatfs, SYS_statfs, SYS_getxattr, SYS_setxattr,
	SYS_listxattr, SYS_removexattr, SYS_fgetxattr, SYS_fsetxattr, SYS_flistxattr,
	SYS_fremovexattr, SYS_umask,
	/* marks of the group that was made before (host_changes.c) */
	SYS_fanotify_mark, SYS_name_to_handle_at,
#ifdef SYS_fchmodat2
	SYS_fchmodat2,
#endif
	/* the warden's link, the loop, the clock */
	SYS_sendmsg, SYS_recvmsg, SYS_epoll_pwait, SYS_epoll_ctl, SYS_ppoll, SYS_timer_create,
	SYS_timer_settime, SYS_timer_delete, SYS_clock_gettime, SYS_clock_nanosleep,
	/* memory, threads, signals, who asks */
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_brk, SYS_futex,
	SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_getpid,
	SYS_gettid, SYS_getppid, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_sigaltstack, SYS_restart_syscall, SYS_exit, SYS_exit_group, SYS_getrandom, SYS_prctl,
	SYS_capget, SYS_capset, SYS_pidfd_open,
#ifdef SYS_open /* calls that only older architectures have */
	SYS_open, SYS_chmod, SYS_poll, SYS_epoll_wait,
#endif
};
// clang-format on

#define PIDFD_INFO _IOWR(0xff, 11, char[64]) /* see base/proc.c */
/* Of what CAP_SYS_ADMIN allows, only the two calls for passthrough. */
static const struct seccomp_row tested[] = {
	{.number = SYS_ioctl,
	 .test = {{.arg = 1,
		   .none = 1,
		   .nvalues = 3,
		   .mask = UINT32_MAX,
		   .value = {FS_BACKING_OPEN, FS_BACKING_CLOSE, PIDFD_INFO}}}},
	{.number = SYS_madvise,
	 .test = {{.arg = 2,
		   .nvalues = 2,
		   .mask = UINT32_MAX,
		   .value = {MADV_HWPOISON, MADV_HWPOISON + 1 /* SOFT_OFFLINE */}}}},
};

static int missing(const struct sandbox_plan *plan, enum wall wall, struct err *err)
{
	if (!wall_listed(&plan->unenforced, wall))
		return -(int)err->code;
	*err = (struct err){0};
	return 0;
}

static int enter_landlock(const struct sandbox_plan *plan, const struct sandbox_trees *trees,
			  int trash, struct err *err)
{
	/* /proc has the actors, and the names of open files by which they are opened again. When a
	 * session executes a file that is passed through, the kernel opens it with the rights of
	 * this process, which itself has no call to execute anything. */
	cleanup_free struct landlock_rule *rules = mem_resize(NULL, trees->n + 2, sizeof(*rules));
	struct landlock_ask ask = {.rules = rules};
	cleanup_fd int ruleset = -1;
	struct wall_report walls;

	for (size_t i = 0; i < trees->n; i++)
		rules[ask.nrules++] = (struct landlock_rule){trees->fd[i], NULL, LANDLOCK_TREE,
							     LANDLOCK_ALL, false};
	rules[ask.nrules++] =
		(struct landlock_rule){AT_FDCWD, "/proc", LANDLOCK_TREE, LANDLOCK_READ, true};
	if (trash != -1)
		rules[ask.nrules++] = (struct landlock_rule){
			trash, NULL, LANDLOCK_TREE, LANDLOCK_ALL & ~(unsigned)LANDLOCK_EXEC, false};
	wall_report_init(&walls);
	if (landlock_prepare(&ask, &ruleset, &walls, err) < 0)
		return missing(plan, WALL_landlock, err);
	errno = landlock_enter(ruleset);
	return errno == 0 ? 0
			  : err_errno(err, E_ENFORCEMENT, wall_name(WALL_landlock),
				      "landlock_restrict_self");
}

int fs_walls_raise(const struct sandbox_plan *plan, const struct sandbox_trees *trees, int trash,
		   bool keep_admin, struct err *err)
{
	const struct seccomp_allowed calls = {allowed, ARRAY_LEN(allowed), tested,
					      ARRAY_LEN(tested)};
	struct seccomp_program filter;
	int r = enter_landlock(plan, trees, trash, err);

	if (r == 0)
		r = sandbox_drop_caps(keep_admin ? UINT64_C(1) << CAP_SYS_ADMIN : 0, err);
	if (r < 0)
		return r;
	seccomp_build_allowed(&calls, &filter);
	return seccomp_load(filter.code, filter.n, NULL, err) < 0 ? missing(plan, WALL_seccomp, err)
								  : 0;
}
