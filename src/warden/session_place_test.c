// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/sandbox.h"
#include "warden/core.h"
#include "warden/session_place.h"
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

static struct session_place opened(const char *program)
{
	struct init_ready r = ready_with(program);
	struct session_place p = SESSION_PLACE_NONE;
	struct err err = {0};

	if (place_open(&p, &r, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(p.namespaces);
	msg_done(MSG_init_ready, &r);
	return p;
}

/* With namespaces nothing differs from the defaults, and nothing is ended. */
static void sbx_5_a_session_with_namespaces_has_the_usual_place(void **state)
{
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int listening = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct link_msg m = {.fd = {root, listening}, .nfds = 2};
	struct session_place p = SESSION_PLACE_NONE;
	struct capture_in_setup captures = {0};
	struct execs_setup execs = {0};
	struct init_ready r = {0};

	strv_add(&r.shown, "/workspace");
	strv_add(&r.shown, "/workspace");
	assert_int_equal(place_open(&p, &r, &m, NULL), 0);
	assert_true(p.namespaces);
	assert_string_equal(p.names.shown.v[0], "/workspace");
	place_captures(&p, &m, &captures);
	assert_int_equal(captures.listen_fd, listening);
	assert_false(captures.given);
	place_execs(&p, &execs);
	assert_null(execs.own_trees);
	assert_null(execs.state_socket);
	assert_string_equal(execs.exec.helper, CAPTURE_PROGRAM);
	place_end(&p);
	place_close(&p);
	place_close(&p);
	place_end(&p);
}

static void expect_error(struct init_ready *r)
{
	struct session_place p = SESSION_PLACE_NONE;
	struct err err = {0};

	assert_true(place_open(&p, r, NULL, &err) < 0);
	place_close(&p);
	msg_done(MSG_init_ready, r);
}

static void sbx_5_what_init_does_not_tell_is_an_error(void **state)
{
	struct init_ready r = ready_with("/nonexistent/program");

	expect_error(&r);
	r = ready_with("/bin/sh");
	free(take(r.own_dir));
	expect_error(&r);
	r = ready_with("/bin/sh");
	free(take(r.state_program));
	expect_error(&r);
}

static void sta_1_directories_are_the_machines(void **state)
{
	struct session_place p = opened("/proc/self/exe");
	static const char *const rows[][2] = {
		{"/workspace", "/home/me/work"},
		{"/workspace/a/b", "/home/me/work/a/b"},
		{"/workspaces", "/workspaces"},
		{"/usr", "/usr"},
	};
	char real[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *path = workspace_seen(&p.names, rows[i][0]);

		assert_string_equal(path, rows[i][1]);
	}
	assert_non_null(realpath("/proc/self/exe", real));
	assert_string_equal(p.program, real);
	assert_int_equal(p.writable.n, 1);
	place_close(&p);
}

static void sta_1_home_and_tmp_are_its_own(void **state)
{
	struct session_place p = opened("/bin/sh");
	const struct env_ask ask = {"s", "/home/me/work", NULL};
	struct strv env = {0}, built = {0};
	cleanup_free char *dir = mem_strndup(p.program,
					     (size_t)(strrchr(p.program, '/') - p.program)),
			  *beside = mem_printf("/c:%s/bin", dir);
	struct shell_memory m;

	shell_memory_init(&m, &env, "/home/me/work", 1000);
	place_settle(&p, &m);
	env_build(&m, &ask, &built);
	assert_null(strv_env_get(&built, "PATH")); /* a shell has a default */
	assert_string_equal(strv_env_get(&built, "HOME"), "/home/me/state/own/s/home");
	assert_string_equal(strv_env_get(&built, "TMPDIR"), "/home/me/state/own/s/tmp");
	strv_done(&built);
	shell_memory_done(&m);
	/* unless the session sets them */
	strv_add(&env, "HOME=/a");
	strv_add(&env, "TMPDIR=/b");
	strv_add(&env, "PATH=/c");
	shell_memory_init(&m, &env, "/home/me/work", 1000);
	place_settle(&p, &m);
	env_build(&m, &ask, &built);
	assert_string_equal(strv_env_get(&built, "HOME"), "/a");
	assert_string_equal(strv_env_get(&built, "TMPDIR"), "/b");
	assert_string_equal(strv_env_get(&built, "PATH"), beside);
	strv_done(&built);
	strv_done(&env);
	shell_memory_done(&m);
	place_close(&p);
}

/* A path is one word for a shell, whatever is in it. */
static void sta_3_the_program_is_a_word(void **state)
{
	char dir[] = "/tmp/agentsh it's-XXXXXX";
	cleanup_free char *path = NULL, *script = NULL;
	struct session_place p;

	assert_non_null(mkdtemp(dir));
	path = mem_printf("%s/$x", dir);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(unlink(path), 0);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	p = opened(path);
	script = mem_printf("rm %s", p.capture);
	assert_int_equal(system(script), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(dir), 0);
	place_close(&p);
}

/* Only our own program gets a socket, and the loop the other end with its pid. */
static void sta_3_only_our_program_gets_a_socket(void **state)
{
	struct warden w = {.place = SESSION_PLACE_NONE};
	struct execs_setup execs = {0};
	size_t nfds = 1;
	pid_t said = 0;
	int fd, ours = -1;
	char c = 0;

	w.place = opened("/bin/sh");
	place_execs(&w.place, &execs);
	assert_ptr_equal(execs.own_trees, &w.place.writable);
	assert_int_equal(execs.state_socket(&w, getpid()), -EPERM);
	assert_int_equal(fdio_recv(w.place.taken, &said, sizeof(said), &ours, &nfds, NULL), -1);
	place_close(&w.place);
	w.place = opened("/proc/self/exe");
	assert_int_equal(execs.state_socket(&w, getppid() == 1 ? 2 : 1), -EPERM);
	fd = execs.state_socket(&w, getpid());
	assert_true(fd >= 0);
	nfds = 1;
	assert_int_equal(fdio_recv(w.place.taken, &said, sizeof(said), &ours, &nfds, NULL),
			 (ssize_t)sizeof(said));
	assert_int_equal(nfds, 1);
	assert_int_equal(said, getpid());
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(recv(ours, &c, 1, MSG_DONTWAIT), 1);
	assert_int_equal(c, 'x');
	close(fd);
	close(ours);
	place_close(&w.place);
}

/* SES-8: what an init has left falls to the warden, and ends there. */
static void ses_8_what_init_leaves_is_ended(void **state)
{
	struct session_place p = opened("/bin/sh");
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
	place_end(&p);
	assert_int_equal(proc_descendants(getpid(), &left), 0);
	free(left);
	/* no process has to wait for it */
	assert_int_equal(wait(NULL), -1);
	assert_int_equal(errno, ECHILD);
	place_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_a_session_with_namespaces_has_the_usual_place),
		cmocka_unit_test(sbx_5_what_init_does_not_tell_is_an_error),
		cmocka_unit_test(sta_1_directories_are_the_machines),
		cmocka_unit_test(sta_1_home_and_tmp_are_its_own),
		cmocka_unit_test(sta_3_the_program_is_a_word),
		cmocka_unit_test(sta_3_only_our_program_gets_a_socket),
		cmocka_unit_test(ses_8_what_init_leaves_is_ended),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
