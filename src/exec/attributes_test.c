// SPDX-License-Identifier: Apache-2.0
/* A child behind a small filter makes the calls; its memory and descriptors are a copy of ours. A
 * file is changed if it lies in a tree of the session, and no other file is. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/attributes.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <utime.h>

#define SYS_FCHMODAT2 452

static char dir[] = "/tmp/agentsh-attributes-XXXXXX";
static char tree[64], file[80], link_in[80], link_out[80], outside[80], below[80], beside[80];
static char long_name[PATH_MAX + 1];
static const char empty[] = "", relative[] = "file", dots[] = "../outside", gone[] = "gone";
static char by_fd[64], by_odd_fd[64];
static struct timespec times[2] = {{1000, 5}, {2000, 7}};
static struct timeval micro[2] = {{3000, 1}, {4000, 999999}}, micro_bad[2] = {{0, 0}, {0, 1000000}};
static struct utimbuf seconds = {5000, 6000};
static int file_fd, outside_fd, tree_fd, pipe_fd[2];
static struct strv trees;
static struct attributes attributes;
static struct listener_handler handler;
static bool id_is_old; /* the caller has died, and its thread id belongs to another one */
static struct {
	pid_t pid; /* its directory is tree */
	int sock;  /* the calls for it, and their errno */
	struct listener *listener;
} child;

struct call {
	int nr;
	__u64 arg[6];
};

/* ---- the child ---- */

#define IS(nr, yes) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), 0)

static int filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_chmod
		IS(SYS_chmod, 8),
		IS(SYS_utime, 7),
		IS(SYS_utimes, 6),
#endif
		IS(SYS_fchmod, 5),
		IS(SYS_fchmodat, 4),
		IS(SYS_FCHMODAT2, 3),
		IS(SYS_utimensat, 2),
		IS(SYS_getpid, 1), /* not one of these calls */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

static _Noreturn void be_child(int sock)
{
	int fd, result;
	struct call c;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	fd = chdir(tree) == 0 ? filter() : -1;
	if (fd < 0 || fdio_send(sock, "l", 1, &fd, 1) < 0)
		_exit(1);
	while (read(sock, &c, sizeof(c)) == sizeof(c)) {
		const long r = syscall(c.nr, c.arg[0], c.arg[1], c.arg[2], c.arg[3]);

		result = r == -1 ? errno : 0;
		if (write(sock, &result, sizeof(result)) != sizeof(result))
			break;
	}
	_exit(0);
}

static void on_call(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	struct seccomp_notif copy = *n;

	copy.id += id_is_old;
	handler.on(l, &copy, arg);
	if (id_is_old)
		listener_send(l, n->id, EPERM);
}

static void start_child(void)
{
	struct listener_handler h;
	int sock[2], fd = -1;
	size_t nfds = 1;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	child.pid = fork();
	if (child.pid == 0)
		be_child(sock[1]);
	close(sock[1]);
	child.sock = sock[0];
	assert_int_equal(fdio_recv(sock[0], &c, 1, &fd, &nfds, NULL), 1);
	h = handler = attributes_handler(&attributes);
	h.on = on_call;
	assert_int_equal(listener_start(&h, 1, fd, &child.listener, NULL), 0);
}

/* ---- the calls ---- */

#define CALL(nr, ...) make_call(-1, &trees, &(struct call){nr, {__VA_ARGS__}})
#define CALL_IN(trees, nr, ...) make_call(-1, trees, &(struct call){nr, {__VA_ARGS__}})
#define CALL_AT(root, nr, ...) make_call(root, NULL, &(struct call){nr, {__VA_ARGS__}})
#define AT(x) ((__u64)(uintptr_t)(x))

/* 0 or an errno. */
static int make_call(int root, const struct strv *in, const struct call *c)
{
	int result;

	attributes = (struct attributes){root, in};
	assert_int_equal(write(child.sock, c, sizeof(*c)), sizeof(*c));
	assert_int_equal(read(child.sock, &result, sizeof(result)), sizeof(result));
	return result;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static int64_t mtime_ns(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

static int open_all(void **state)
{
	assert_non_null(mkdtemp(dir));
	snprintf(tree, sizeof(tree), "%s/tree", dir);
	snprintf(file, sizeof(file), "%s/file", tree);
	snprintf(link_in, sizeof(link_in), "%s/in", tree);
	snprintf(link_out, sizeof(link_out), "%s/out", tree);
	snprintf(below, sizeof(below), "%s/file/below", tree);
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	snprintf(beside, sizeof(beside), "%s/tree-beside", dir);
	memset(long_name, 'x', sizeof(long_name) - 1);
	assert_int_equal(mkdir(tree, 0700), 0);
	file_fd = open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	outside_fd = open(outside, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	close(open(beside, O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
	tree_fd = open(tree, O_PATH | O_CLOEXEC);
	assert_true(file_fd > 2 && outside_fd > 2 && tree_fd > 2);
	assert_int_equal(symlink(file, link_in), 0);
	assert_int_equal(symlink(outside, link_out), 0);
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", file_fd);
	snprintf(by_odd_fd, sizeof(by_odd_fd), "/proc/self/fd/%dx", file_fd);
	strv_add(&trees, "/nonexistent");
	strv_add(&trees, tree);
	start_child();
	return 0;
}

static int close_all(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", dir);

	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	listener_stop(child.listener);
	strv_done(&trees);
	return system(command);
}

static void sbx_3_a_mode_is_set_by_every_way(void **state)
{
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(file), 0601), 0);
	assert_int_equal(mode_of(file), 0601);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(relative), 0602), 0);
	assert_int_equal(mode_of(file), 0602);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)tree_fd, AT(relative), 0603), 0);
	assert_int_equal(mode_of(file), 0603);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(link_in), 0604), 0);
	assert_int_equal(mode_of(file), 0604);
	assert_int_equal(CALL(SYS_fchmod, (__u64)file_fd, 0605), 0);
	assert_int_equal(mode_of(file), 0605);
	assert_int_equal(CALL(SYS_FCHMODAT2, (__u64)file_fd, AT(empty), 0606, AT_EMPTY_PATH), 0);
	assert_int_equal(mode_of(file), 0606);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(by_fd), 0607), 0);
	assert_int_equal(mode_of(file), 0607);
#ifdef SYS_chmod
	assert_int_equal(CALL(SYS_chmod, AT(file), 0600), 0);
	assert_int_equal(mode_of(file), 0600);
#endif
	/* bits that are not of the mode are ignored, as the kernel does */
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(file), 0100610), 0);
	assert_int_equal(mode_of(file), 0610);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(tree), 02700), 0);
	assert_int_equal(mode_of(tree), 02700);
}

static void sbx_3_times_are_set_by_every_way(void **state)
{
	assert_int_equal(CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(file), AT(times), 0), 0);
	assert_int_equal(mtime_ns(file), INT64_C(2000000000007));
	assert_int_equal(CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(file), 0, 0), 0);
	assert_true(mtime_ns(file) > INT64_C(1000000000000000000));
	assert_int_equal(CALL(SYS_utimensat, (__u64)file_fd, 0, AT(times), 0), 0);
	assert_int_equal(mtime_ns(file), INT64_C(2000000000007));
	assert_int_equal(
		CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(link_in), AT(times), AT_SYMLINK_NOFOLLOW),
		0);
	assert_int_equal(mtime_ns(link_in), INT64_C(2000000000007));
	/* the link is the session's own, wherever it leads */
	assert_int_equal(
		CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(link_out), AT(times), AT_SYMLINK_NOFOLLOW),
		0);
#ifdef SYS_utime
	assert_int_equal(CALL(SYS_utime, AT(file), AT(&seconds)), 0);
	assert_int_equal(mtime_ns(file), INT64_C(6000000000000));
	assert_int_equal(CALL(SYS_utimes, AT(file), AT(micro)), 0);
	assert_int_equal(mtime_ns(file), INT64_C(4000999999000));
	assert_int_equal(CALL(SYS_utimes, AT(file), AT(micro_bad)), EINVAL);
	micro_bad[1].tv_usec = -1;
#endif
}

static void sbx_3_nothing_outside_is_changed(void **state)
{
	const int64_t before = mtime_ns(outside);
	const struct strv none = {0};

	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(outside), 0644), EPERM);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(link_out), 0644), EPERM);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(dots), 0644), EPERM);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(beside), 0644), EPERM);
	assert_int_equal(CALL(SYS_fchmod, (__u64)outside_fd, 0644), EPERM);
	assert_int_equal(CALL(SYS_fchmod, (__u64)pipe_fd[0], 0644), EPERM);
	assert_int_equal(CALL(SYS_FCHMODAT2, (__u64)outside_fd, AT(empty), 0644, AT_EMPTY_PATH),
			 EPERM);
	assert_int_equal(CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(outside), AT(times), 0), EPERM);
	assert_int_equal(CALL(SYS_utimensat, (__u64)outside_fd, 0, AT(times), 0), EPERM);
	assert_int_equal(CALL_IN(&none, SYS_fchmod, (__u64)file_fd, 0644), EPERM);
	assert_int_equal(CALL_IN(NULL, SYS_fchmod, (__u64)file_fd, 0644), EPERM);
	assert_int_equal(mode_of(outside), 0600);
	assert_int_equal(mode_of(beside), 0600);
	assert_int_equal(mtime_ns(outside), before);
}

static void sbx_3_no_file_gives_its_owners_rights(void **state)
{
	const mode_t before = mode_of(file);

	assert_int_equal(CALL(SYS_fchmod, (__u64)file_fd, 04755), EPERM);
	assert_int_equal(CALL(SYS_fchmod, (__u64)file_fd, 02755), EPERM);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(tree), 04700), EPERM);
	assert_int_equal(mode_of(file), before);
	assert_int_equal(CALL(SYS_fchmod, (__u64)file_fd, 01644), 0);
	assert_int_equal(mode_of(file), 01644);
}

static void sbx_3_a_caller_that_is_gone_changes_nothing(void **state)
{
	const mode_t before = mode_of(file);

	id_is_old = true;
	assert_int_not_equal(CALL(SYS_fchmod, (__u64)file_fd, 0777), 0);
	id_is_old = false;
	assert_int_equal(mode_of(file), before);
}

static void sbx_3_errors_are_the_kernels(void **state)
{
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(gone), 0600), ENOENT);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(empty), 0600), ENOENT);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(below), 0600), ENOTDIR);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(long_name), 0600), ENAMETOOLONG);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, 0, 0600), EFAULT);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)file_fd, 0, 0600), EFAULT);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, 8, 0600), EFAULT);
	assert_int_equal(CALL(SYS_fchmodat, 999, AT(relative), 0600), EBADF);
	assert_int_equal(CALL(SYS_fchmod, 999, 0600), EBADF);
	assert_int_equal(CALL(SYS_fchmod, (__u64)AT_FDCWD, 0600), EBADF);
	assert_int_equal(CALL(SYS_utimensat, (__u64)AT_FDCWD, 0, AT(times), 0), EFAULT);
	assert_int_equal(CALL(SYS_utimensat, (__u64)AT_FDCWD, AT(file), 8, 0), EFAULT);
	assert_int_equal(CALL(SYS_FCHMODAT2, (__u64)AT_FDCWD, AT(file), 0600, 0x4000), EINVAL);
	assert_int_equal(
		CALL(SYS_FCHMODAT2, (__u64)AT_FDCWD, AT(link_in), 0600, AT_SYMLINK_NOFOLLOW),
		EOPNOTSUPP);
	assert_int_equal(CALL(SYS_fchmodat, (__u64)AT_FDCWD, AT(by_odd_fd), 0600), ENOENT);
	assert_int_equal(CALL(SYS_getpid, 0), ENOSYS);
}

/* SBX-2: a session with a root of its own: no name leads out of it, and only a directory gets the
 * set-group-ID bit. */
static void sbx_2_names_are_looked_up_in_the_callers_root(void **state)
{
	static const char in_root[] = "/file", up[] = "/../../outside", magic[] = "/proc/self/root";
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(CALL_AT(tree_fd, SYS_fchmodat, (__u64)AT_FDCWD, AT(in_root), 0611), 0);
	assert_int_equal(mode_of(file), 0611);
	assert_int_equal(CALL_AT(tree_fd, SYS_fchmodat, (__u64)AT_FDCWD, AT(up), 0666), ENOENT);
	assert_int_equal(CALL_AT(tree_fd, SYS_fchmodat, (__u64)AT_FDCWD, AT(link_out), 0666),
			 ENOENT);
	assert_int_equal(CALL_AT(tree_fd, SYS_fchmodat, (__u64)AT_FDCWD, AT(outside), 0666),
			 ENOENT);
	assert_int_equal(mode_of(outside), 0600);
	/* relative ones begin where the caller, or its descriptor, is */
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)AT_FDCWD, AT(relative), 0612), 0);
	assert_int_equal(mode_of(file), 0612);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)tree_fd, AT(relative), 0613), 0);
	assert_int_equal(mode_of(file), 0613);
	assert_int_equal(CALL_AT(tree_fd, SYS_fchmodat, (__u64)AT_FDCWD, AT(relative), 0666),
			 ENOENT);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)pipe_fd[0], AT(relative), 0666),
			 ENOTDIR);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, 999, AT(relative), 0666), EBADF);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)AT_FDCWD, AT(magic), 0666), EPERM);
	assert_int_equal(CALL_AT(root, SYS_FCHMODAT2, (__u64)AT_FDCWD, AT(link_in), 0666,
				 AT_SYMLINK_NOFOLLOW),
			 EOPNOTSUPP);
	/* by a descriptor: no name is asked for */
	assert_int_equal(CALL_AT(root, SYS_fchmod, (__u64)file_fd, 0614), 0);
	assert_int_equal(CALL_AT(root, SYS_fchmod, (__u64)file_fd, 02755), EPERM);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)AT_FDCWD, AT(file), 02755), EPERM);
	assert_int_equal(CALL_AT(root, SYS_fchmod, (__u64)pipe_fd[0], 02600), EPERM);
	assert_int_equal(mode_of(file), 0614);
	assert_int_equal(CALL_AT(root, SYS_fchmodat, (__u64)AT_FDCWD, AT(tree), 02711), 0);
	assert_int_equal(mode_of(tree), 02711);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_3_a_mode_is_set_by_every_way),
		cmocka_unit_test(sbx_3_times_are_set_by_every_way),
		cmocka_unit_test(sbx_3_nothing_outside_is_changed),
		cmocka_unit_test(sbx_3_no_file_gives_its_owners_rights),
		cmocka_unit_test(sbx_3_a_caller_that_is_gone_changes_nothing),
		cmocka_unit_test(sbx_3_errors_are_the_kernels),
		cmocka_unit_test(sbx_2_names_are_looked_up_in_the_callers_root),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
