// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <cmocka.h>

static char dir[] = "/tmp/agentsh-fdio-XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", dir);

	return system(command);
}

static int memory(const char *text, size_t n)
{
	const int fd = memfd_create("test", MFD_CLOEXEC);

	assert_int_equal(fdio_write_all(fd, text, n), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void nothing(int sig)
{
}

/* A child writes more than a pipe holds, in pieces, while a timer interrupts: everything arrives.
 */
static void exe_4_whole_writes_and_reads(void **state)
{
	enum { SIZE = 1 << 20 };
	const struct itimerval tick = {{0, 500}, {0, 500}}, off = {0};
	cleanup_free char *data = mem_alloc(SIZE), *back = mem_alloc(SIZE + 1);
	struct sigaction act = {.sa_handler = nothing}; /* no SA_RESTART: calls fail with EINTR */
	int pipes[2], status;
	pid_t pid;

	for (int i = 0; i < SIZE; i++)
		data[i] = (char)(i * 31);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	sigaction(SIGALRM, &act, NULL);
	pid = fork();
	if (pid == 0) {
		close(pipes[0]);
		setitimer(ITIMER_REAL, &tick, NULL);
		_exit(fdio_write_all(pipes[1], data, SIZE) == 0 ? 0 : 1);
	}
	close(pipes[1]);
	setitimer(ITIMER_REAL, &tick, NULL);
	assert_int_equal(fdio_read_full(pipes[0], back, 10), 10);
	assert_int_equal(fdio_read_full(pipes[0], back + 10, SIZE + 1 - 10), SIZE - 10);
	setitimer(ITIMER_REAL, &off, NULL);
	assert_memory_equal(data, back, SIZE);
	assert_int_equal(fdio_read_full(pipes[0], back, 1), 0);
	assert_int_equal(fdio_read_full(pipes[0], back, 0), 0);
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void exe_4_errors_are_told(void **state)
{
	char c;

	errno = 0;
	assert_int_equal(fdio_write_all(-1, "x", 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fdio_write_all(-1, "x", 0), 0);
	assert_int_equal(fdio_read_full(-1, &c, 1), -1);
	assert_int_equal(fdio_pread_full(-1, &c, 1, 0), -1);
	assert_int_equal(fdio_nonblock(-1), -1);
}

static void exe_3_reading_at_an_offset(void **state)
{
	cleanup_fd int fd = memory("abcdef", 6);
	char got[8] = "";

	assert_int_equal(fdio_pread_full(fd, got, 3, 2), 3);
	assert_string_equal(got, "cde");
	assert_int_equal(fdio_pread_full(fd, got, 8, 4), 2);
	assert_memory_equal(got, "ef", 2);
	assert_int_equal(fdio_pread_full(fd, got, 1, 6), 0);
	assert_int_equal(fdio_pread_full(fd, got, 1, UINT64_MAX), -1);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
}

static int load(size_t size, size_t max, struct buf *out, struct err *err)
{
	cleanup_free char *data = mem_alloc(size);
	int fd, rc;

	memset(data, 'd', size);
	fd = memory(data, size);
	rc = fdio_load(fd, max, out, err);
	close(fd);
	return rc;
}

static void cfg_1_a_file_has_at_most_max_bytes(void **state)
{
	static const size_t sizes[] = {0, 1, 2, 65534, 65535, 65536, 65537, 131072, 131073, 200000};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		cleanup_buf struct buf b = {0};
		struct err err = {0};

		buf_adds(&b, "before");
		assert_int_equal(load(sizes[i], sizes[i], &b, NULL), 0);
		assert_int_equal(b.len, 6 + sizes[i]);
		assert_int_equal(b.data[b.len], 0);
		assert_int_equal(load(sizes[i], SIZE_MAX - 1, &b, NULL), 0);
		assert_int_equal(b.len, 6 + 2 * sizes[i]);
		if (sizes[i] == 0)
			continue;
		assert_int_equal(load(sizes[i], sizes[i] - 1, &b, &err), -E_TOO_LARGE);
		assert_int_equal(b.len, 6 + 2 * sizes[i]);
	}
}

static void cfg_1_loading_names_the_path(void **state)
{
	cleanup_free char *path = mem_printf("%s/none", dir);
	cleanup_buf struct buf b = {0};
	struct err err = {0};

	assert_int_equal(fdio_load_path(path, 10, &b, &err), -E_NOT_FOUND);
	assert_string_equal(err.subject, path);
	assert_non_null(strstr(err.message, path));
	assert_int_equal(fdio_load_path("/dev/null/x", 10, &b, &err), -E_NOT_FOUND);
	assert_int_equal(fdio_load_path(dir, 10, &b, &err), -E_INTERNAL);
	assert_non_null(strstr(err.message, "Is a directory"));
	assert_int_equal(fdio_load_path("/proc/self/comm", 100, &b, &err), 0);
	assert_int_equal(b.data[b.len - 1], '\n');
	assert_int_equal(fdio_load_path("/proc/self/comm", 2, &b, &err), -E_TOO_LARGE);
	assert_string_equal(err.message, "/proc/self/comm has more than 2 bytes");
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? st.st_mode & 07777 : 0;
}

static void ses_1_directories_are_made_with_their_parents(void **state)
{
	cleanup_free char *deep = mem_printf("%s/a//b/c", dir), *mid = mem_printf("%s/a/b", dir);
	cleanup_free char *slash = mem_printf("%s/s//", dir), *file = mem_printf("%s/file", dir);
	cleanup_free char *below = mem_printf("%s/file/x", dir);
	struct err err = {0};
	int fd;

	assert_int_equal(fdio_mkdirs(deep, 0700, NULL), 0);
	assert_int_equal(mode_of(deep), 0700);
	assert_int_equal(mode_of(mid), 0700);
	assert_int_equal(fdio_mkdirs(deep, 0755, NULL), 0);
	assert_int_equal(mode_of(deep), 0700);
	assert_int_equal(fdio_mkdirs(slash, 0700, NULL), 0);
	assert_int_equal(mode_of(slash), 0700);
	assert_int_equal(fdio_mkdirs("/", 0700, NULL), 0);
	assert_int_equal(fdio_mkdirs("", 0700, NULL), -E_INTERNAL);

	fd = open(file, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fdio_mkdirs(file, 0700, &err), -E_INTERNAL);
	assert_non_null(strstr(err.message, "Not a directory"));
	assert_int_equal(fdio_mkdirs(below, 0700, &err), -E_INTERNAL);
	assert_string_equal(err.subject, below);
}

static void ses_1_relative_directories(void **state)
{
	char cwd[4096];

	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(fdio_mkdirs("r/s", 0700, NULL), 0);
	assert_int_equal(mode_of("r/s"), 0700);
	assert_int_equal(fdio_mkdirs("one", 0700, NULL), 0);
	assert_int_equal(mode_of("one"), 0700);
	assert_int_equal(chdir(cwd), 0);
}

static void pol_6_sealed_memory_cannot_change(void **state)
{
	cleanup_fd int fd = fdio_sealed("policy", "abc", 3);
	char got[4] = "";

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(fd, got, 4), 3);
	assert_string_equal(got, "abc");
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 1), -1);
	assert_int_equal(ftruncate(fd, 10), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_ptr_equal(mmap(NULL, 3, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

static void exe_4_nonblock_is_added(void **state)
{
	int pipes[2];
	char c;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(fdio_nonblock(pipes[0]), 0);
	assert_int_equal(fcntl(pipes[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fdio_read_full(pipes[0], &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
	close(pipes[0]);
	close(pipes[1]);
}

/* Which of the descriptors 0..31 are open, as bits, after fdio_close_except in a child. */
static unsigned open_after(int *keep, size_t n)
{
	unsigned *bits = mmap(NULL, sizeof(*bits), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned result;
	int status;
	pid_t pid;

	assert_ptr_not_equal(bits, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		for (int fd = 0; fd < 32; fd++)
			if (fcntl(fd, F_GETFD) < 0)
				dup3(null, fd, O_CLOEXEC);
		fdio_close_except(keep, n);
		for (int fd = 0; fd < 32; fd++)
			if (fcntl(fd, F_GETFD) >= 0)
				*bits |= 1U << fd;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	result = *bits;
	munmap(bits, sizeof(*bits));
	return result;
}

static void sbx_1_only_the_kept_descriptors_stay_open(void **state)
{
	assert_int_equal(open_after(NULL, 0), 7);
	assert_int_equal(open_after((int[]){3}, 1), 7 | 1U << 3);
	assert_int_equal(open_after((int[]){4}, 1), 7 | 1U << 4);
	assert_int_equal(open_after((int[]){20, 4, 9, 9, 3}, 5),
			 7 | 1U << 3 | 1U << 4 | 1U << 9 | 1U << 20);
	assert_int_equal(open_after((int[]){-1, 0, 2, 5}, 4), 7 | 1U << 5);
}

static void pair(int ends[2])
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static size_t count_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void sbx_1_descriptors_travel_close_on_exec(void **state)
{
	int ends[2], fds[FDIO_MAX_FDS], sent[FDIO_MAX_FDS];
	size_t n = FDIO_MAX_FDS;
	struct ucred cred = {.pid = 5};
	char got[8] = "";
	size_t before;

	pair(ends);
	for (int i = 0; i < FDIO_MAX_FDS; i++)
		sent[i] = ends[i % 2];
	before = count_fds();
	assert_int_equal(fdio_send(ends[0], "abc", 3, sent, FDIO_MAX_FDS), 0);
	assert_int_equal(fdio_recv(ends[1], got, sizeof(got), fds, &n, &cred), 3);
	assert_string_equal(got, "abc");
	assert_int_equal(n, FDIO_MAX_FDS);
	assert_int_equal(cred.pid, 0);
	assert_int_equal(count_fds(), before + FDIO_MAX_FDS);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		close(fds[i]);
	}
	/* what errno held before means nothing: one is sent, one received */
	errno = EINTR;
	assert_int_equal(fdio_send(ends[0], "abc", 3, NULL, 0), 0);
	n = FDIO_MAX_FDS;
	errno = EINTR;
	assert_int_equal(fdio_recv(ends[1], got, 3, fds, &n, NULL), 3);
	assert_int_equal(n, 0);
	assert_int_equal(fdio_recv(ends[1], got, 3, fds, &n, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	close(ends[0]);
	assert_int_equal(fdio_recv(ends[1], got, 3, fds, &n, NULL), 0);
	close(ends[1]);
}

static void sbx_1_truncation_is_an_error_and_leaks_nothing(void **state)
{
	int ends[2], fds[2] = {-7, -7}, sent[24];
	char got[4] = "";
	size_t n = 2, before;

	pair(ends);
	for (int i = 0; i < 24; i++)
		sent[i] = ends[0];
	before = count_fds();
	/* too many bytes */
	assert_int_equal(fdio_send(ends[0], "abcde", 5, sent, 2), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), -1);
	assert_int_equal(errno, EBADMSG);
	/* one descriptor too many, one for a receiver that wants none */
	assert_int_equal(fdio_send(ends[0], "abc", 3, sent, 3), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), -1);
	assert_int_equal(fdio_send(ends[0], "abc", 3, sent, 1), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, NULL, NULL, NULL), -1);
	assert_int_equal(errno, EBADMSG);
	assert_int_equal(n, 2);
	assert_int_equal(fds[0], -7);
	assert_int_equal(count_fds(), before);
	/* just enough */
	assert_int_equal(fdio_send(ends[0], "abcd", 4, sent, 2), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), 4);
	assert_int_equal(n, 2);
	close(fds[0]);
	close(fds[1]);
	close(ends[0]);
	close(ends[1]);
}

/* Sends without the limits of fdio_send. */
static void raw_send(int sock, size_t bytes, int fd, size_t nfds)
{
	char control[CMSG_SPACE(sizeof(int) * 64)] __attribute__((aligned(8))) = "";
	char raw[] = "raw";
	struct iovec iov = {raw, bytes};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
	struct cmsghdr *c = (struct cmsghdr *)control;

	msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
	c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	for (size_t i = 0; i < nfds; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(sock, &msg, 0), bytes);
}

/* Our own want of descriptors is not the peer's fault, and the next message is as good as ever. */
static void sbx_6_without_a_descriptor_left_a_message_is_lost_not_broken(void **state)
{
	int ends[2], fds[2];
	char got[4] = "";
	size_t n = 2, before;
	struct rlimit old, none;

	pair(ends);
	before = count_fds();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(fdio_send(ends[0], "abc", 3, ends, 1), 0);
	assert_int_equal(fdio_send(ends[0], "abcde", 5, ends, 1), 0);
	assert_int_equal(fdio_send(ends[0], "def", 3, ends, 1), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), -1);
	assert_int_equal(errno, EMFILE);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), -1);
	assert_int_equal(errno, EBADMSG); /* too long it is all the same */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(count_fds(), before);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, NULL), 3);
	assert_int_equal(n, 1);
	close(fds[0]);
	close(ends[0]);
	close(ends[1]);
}

static void sbx_6_a_peer_cannot_fill_our_descriptor_table(void **state)
{
	int ends[2], fds[64];
	char got[4] = "";
	size_t before;

	pair(ends);
	before = count_fds();
	for (size_t n = FDIO_MAX_FDS + 1; n <= 64; n++) {
		size_t room = FDIO_MAX_FDS;

		raw_send(ends[0], 3, ends[0], n);
		assert_int_equal(fdio_recv(ends[1], got, 4, fds, &room, NULL), -1);
		assert_int_equal(errno, EBADMSG);
		assert_int_equal(count_fds(), before);
	}
	/* descriptors without bytes look like the end, and are not */
	for (size_t n = 1; n <= 2; n++) {
		size_t room = FDIO_MAX_FDS;

		raw_send(ends[0], 0, ends[0], n);
		assert_int_equal(fdio_recv(ends[1], got, 4, fds, &room, NULL), -1);
		assert_int_equal(errno, EBADMSG);
		assert_int_equal(count_fds(), before);
	}
	close(ends[0]);
	close(ends[1]);
}

static void api_3_credentials_come_where_asked_for(void **state)
{
	int ends[2], fds[FDIO_MAX_FDS], sent[FDIO_MAX_FDS];
	struct ucred cred = {0};
	size_t n = FDIO_MAX_FDS;
	char got[4];

	pair(ends);
	assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
	for (int i = 0; i < FDIO_MAX_FDS; i++)
		sent[i] = ends[0];
	assert_int_equal(fdio_send(ends[0], "abc", 3, sent, FDIO_MAX_FDS), 0);
	assert_int_equal(fdio_recv(ends[1], got, 4, fds, &n, &cred), 3);
	assert_int_equal(cred.pid, getpid());
	assert_int_equal(cred.uid, getuid());
	assert_int_equal(n, FDIO_MAX_FDS);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	close(ends[0]);
	close(ends[1]);
}

static void sbx_1_what_cannot_be_sent_is_refused(void **state)
{
	int ends[2], sent[FDIO_MAX_FDS + 1];
	char block[4096] = "", got[4];
	int rc;

	pair(ends);
	for (int i = 0; i <= FDIO_MAX_FDS; i++)
		sent[i] = ends[0];
	assert_int_equal(fdio_send(ends[0], "", 0, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fdio_send(ends[0], "a", 1, sent, FDIO_MAX_FDS + 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fdio_recv(ends[1], got, 4, NULL, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	do
		rc = fdio_send(ends[0], block, sizeof(block), NULL, 0);
	while (rc == 0);
	assert_int_equal(rc, -1);
	assert_int_equal(errno, EAGAIN);
	close(ends[0]);
	close(ends[1]);
	/* and no SIGPIPE */
	pair(ends);
	close(ends[1]);
	assert_int_equal(fdio_send(ends[0], "a", 1, NULL, 0), -1);
	assert_int_equal(errno, EPIPE);
	close(ends[0]);
}

/* POL-4: who renames somewhere else makes no path with ".." fail. */
static void pol_4_renames_elsewhere_do_not_matter(void **state)
{
	cleanup_fd int top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	assert_int_equal(mkdirat(top, "still", 0700), 0);
	assert_int_equal(mkdirat(top, "first", 0700), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (renameat(top, "first", top, "second") == 0 &&
		       renameat(top, "second", top, "first") == 0)
			;
		_exit(1);
	}
	for (int i = 0; i < 3000; i++) {
		const int fd = fdio_openat2(top, "still/../still/..", O_PATH, RESOLVE_IN_ROOT);

		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(fdio_openat2(top, "none", O_PATH, RESOLVE_IN_ROOT), -1);
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_4_whole_writes_and_reads),
		cmocka_unit_test(exe_4_errors_are_told),
		cmocka_unit_test(exe_3_reading_at_an_offset),
		cmocka_unit_test(cfg_1_a_file_has_at_most_max_bytes),
		cmocka_unit_test(cfg_1_loading_names_the_path),
		cmocka_unit_test(ses_1_directories_are_made_with_their_parents),
		cmocka_unit_test(ses_1_relative_directories),
		cmocka_unit_test(pol_6_sealed_memory_cannot_change),
		cmocka_unit_test(pol_4_renames_elsewhere_do_not_matter),
		cmocka_unit_test(exe_4_nonblock_is_added),
		cmocka_unit_test(sbx_1_only_the_kept_descriptors_stay_open),
		cmocka_unit_test(sbx_1_descriptors_travel_close_on_exec),
		cmocka_unit_test(sbx_1_truncation_is_an_error_and_leaks_nothing),
		cmocka_unit_test(sbx_6_without_a_descriptor_left_a_message_is_lost_not_broken),
		cmocka_unit_test(sbx_6_a_peer_cannot_fill_our_descriptor_table),
		cmocka_unit_test(api_3_credentials_come_where_asked_for),
		cmocka_unit_test(sbx_1_what_cannot_be_sent_is_refused),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
