// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "warden/bare_session.h"
#include "warden/core.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct init_ready ready_with(const char *program)
{
	struct init_ready r = {.workspace = mem_strdup("/home/me/work"),
			       .own_dir = mem_strdup("/home/me/state/own/s"),
			       .state_program = mem_strdup(program)};

	strv_add(&r.writable, "/home/me/work");
	return r;
}

static struct bare *opened(const char *program, int program_fd)
{
	struct init_ready r = ready_with(program);
	struct err err = {0};
	struct bare *b;

	if (bare_open(&r, program_fd, &b, &err) < 0)
		fail_msg("%s", err.message);
	assert_non_null(b);
	msg_done(MSG_init_ready, &r);
	return b;
}

static void sbx_5_only_a_session_without_namespaces_is_bare(void **state)
{
	struct init_ready r = {0};
	struct bare *b = (struct bare *)1;

	assert_int_equal(bare_open(&r, -1, &b, NULL), 0);
	assert_null(b);
	bare_close(NULL);
	bare_end(NULL);
}

static void sbx_5_what_init_does_not_tell_is_an_error(void **state)
{
	cleanup_fd int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct init_ready r = ready_with("/nonexistent/program");
	struct err err = {0};
	struct bare *b;

	assert_true(bare_open(&r, fd, &b, &err) < 0);
	assert_null(b);
	msg_done(MSG_init_ready, &r);
	r = ready_with("/bin/sh");
	free(take(r.own_dir));
	assert_true(bare_open(&r, fd, &b, &err) < 0);
	msg_done(MSG_init_ready, &r);
	r = ready_with("/bin/sh");
	assert_true(bare_open(&r, -1, &b, &err) < 0);
	msg_done(MSG_init_ready, &r);
}

static void sta_1_directories_are_the_machines(void **state)
{
	cleanup_fd int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct bare *b = opened("/proc/self/exe", fd);
	static const char *const rows[][2] = {
		{"/workspace", "/home/me/work"},
		{"/workspace/a/b", "/home/me/work/a/b"},
		{"/workspaces", "/workspaces"},
		{"/usr", "/usr"},
	};
	char real[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *path = bare_directory(b, rows[i][0]);

		assert_string_equal(path, rows[i][1]);
	}
	assert_non_null(realpath("/proc/self/exe", real));
	assert_string_equal(b->program, real);
	assert_int_equal(b->writable.n, 1);
	bare_close(b);
}

static void sta_1_home_and_tmp_are_its_own(void **state)
{
	cleanup_fd int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct bare *b = opened("/bin/sh", fd);
	const struct env_ask ask = {"s", "/home/me/work", NULL};
	struct strv env = {0}, built = {0};
	struct shell_memory m;

	shell_memory_init(&m, &env, "/home/me/work", 1000);
	bare_settle(b, &m);
	env_build(&m, &ask, &built);
	assert_string_equal(strv_env_get(&built, "HOME"), "/home/me/state/own/s/home");
	assert_string_equal(strv_env_get(&built, "TMPDIR"), "/home/me/state/own/s/tmp");
	strv_done(&built);
	shell_memory_done(&m);
	/* unless the session was told otherwise */
	strv_add(&env, "HOME=/a");
	strv_add(&env, "TMPDIR=/b");
	shell_memory_init(&m, &env, "/home/me/work", 1000);
	bare_settle(b, &m);
	env_build(&m, &ask, &built);
	assert_string_equal(strv_env_get(&built, "HOME"), "/a");
	assert_string_equal(strv_env_get(&built, "TMPDIR"), "/b");
	strv_done(&built);
	strv_done(&env);
	shell_memory_done(&m);
	bare_close(b);
}

/* A path is one word for a shell, whatever is in it. */
static void sta_3_the_program_is_a_word(void **state)
{
	char dir[] = "/tmp/agentsh it's-XXXXXX";
	cleanup_fd int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	cleanup_free char *path = NULL, *script = NULL;
	struct bare *b;

	assert_non_null(mkdtemp(dir));
	path = mem_printf("%s/$x", dir);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(unlink(path), 0);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	b = opened(path, fd);
	script = mem_printf("rm %s", b->capture);
	assert_int_equal(system(script), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(dir), 0);
	bare_close(b);
}

/* Only our own program gets a socket, and the loop the other end with its pid. */
static void sta_3_only_our_program_gets_a_socket(void **state)
{
	cleanup_fd int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	cleanup_fd int other = open("/bin/sh", O_PATH | O_CLOEXEC);
	struct warden w = {.bare = NULL};
	size_t nfds = 1;
	pid_t said = 0;
	int fd, ours = -1;
	char c = 0;

	assert_int_equal(bare_state_socket(&w, getpid()), -EPERM);
	w.bare = opened("/bin/sh", other);
	assert_int_equal(bare_state_socket(&w, getpid()), -EPERM);
	assert_int_equal(fdio_recv(w.bare->taken, &said, sizeof(said), &ours, &nfds, NULL), -1);
	bare_close(w.bare);
	w.bare = opened("/bin/sh", self);
	assert_int_equal(bare_state_socket(&w, getppid() == 1 ? 2 : 1), -EPERM);
	fd = bare_state_socket(&w, getpid());
	assert_true(fd >= 0);
	nfds = 1;
	assert_int_equal(fdio_recv(w.bare->taken, &said, sizeof(said), &ours, &nfds, NULL),
			 (ssize_t)sizeof(said));
	assert_int_equal(nfds, 1);
	assert_int_equal(said, getpid());
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(recv(ours, &c, 1, MSG_DONTWAIT), 1);
	assert_int_equal(c, 'x');
	close(fd);
	close(ours);
	bare_close(w.bare);
}

/* SES-8: what an init has left falls to the warden, and ends there. */
static void ses_8_what_init_leaves_is_ended(void **state)
{
	cleanup_fd int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct bare *b = opened("/bin/sh", fd);
	pid_t *left;
	pid_t init;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	init = fork();
	if (init == 0) {
		if (fork() == 0) {
			setsid();
			for (;;)
				pause();
		}
		_exit(0);
	}
	assert_int_equal(waitpid(init, NULL, 0), init);
	assert_int_equal(proc_descendants(getpid(), &left), 1);
	free(left);
	bare_end(b);
	assert_int_equal(proc_descendants(getpid(), &left), 0);
	free(left);
	/* nobody has to wait for it */
	assert_int_equal(wait(NULL), -1);
	assert_int_equal(errno, ECHILD);
	bare_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_only_a_session_without_namespaces_is_bare),
		cmocka_unit_test(sbx_5_what_init_does_not_tell_is_an_error),
		cmocka_unit_test(sta_1_directories_are_the_machines),
		cmocka_unit_test(sta_1_home_and_tmp_are_its_own),
		cmocka_unit_test(sta_3_the_program_is_a_word),
		cmocka_unit_test(sta_3_only_our_program_gets_a_socket),
		cmocka_unit_test(ses_8_what_init_leaves_is_ended),
	};

	return cmocka_run_group_tests_name("bare", tests, NULL, NULL);
}
