// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/runtime_testkit.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static mode_t mode_of(const char *dir, const char *name)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static int take_once(struct runtime *p, struct err *err)
{
	bool other;

	return runtime_take(p, false, 0, &other, err);
}

static void ses_8_the_runtime_directory_is_made_and_closed_to_others(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};

	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(mode_of(h->dir, "a/run"), 0755);
	assert_int_equal(runtime_prepare(&h->config, privileged(), &p, &err), 0);
	assert_int_equal(mode_of(h->dir, "a/run/sessions"), 0700);
	runtime_done(&p);
	assert_int_equal(p.runtime_fd, -1);
}

static void sbx_5_a_user_has_a_runtime_directory_of_his_own(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};

	assert_int_equal(runtime_open(&h->config, false, &p, &err), 0);
	assert_int_equal(mode_of(h->dir, "a/run"), 0700);
	runtime_done(&p);
}

static void ses_8_a_directory_that_others_can_write_is_refused(void **state)
{
	static const mode_t modes[] = {0720, 0702, 0777, 01777};
	const struct here *h = *state;
	cleanup_free char *run = mem_printf("%s/a/run", h->dir);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};

	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	runtime_done(&p);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(run, modes[i]), 0);
		assert_int_equal(runtime_open(&h->config, true, &p, &err), -E_FORBIDDEN);
		assert_string_equal(err.subject, run);
		assert_non_null(strstr(err.message, "chmod go-w"));
		assert_null(p.runtime);
	}
	assert_int_equal(chmod(run, 0755), 0);
	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	runtime_done(&p);
	if (!privileged())
		return;
	assert_int_equal(chown(run, API_UID, 0), 0);
	assert_int_equal(runtime_open(&h->config, true, &p, &err), -E_FORBIDDEN);
}

static void cli_1_one_lock_one_server(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE, q = RUNTIME_NONE;
	struct err err = {0};
	char pid[32];

	snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(runtime_open(&h->config, true, &q, &err), 0);
	assert_int_equal(take_once(&p, &err), 0);
	assert_int_equal(fcntl(p.lock_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(take_once(&q, &err), -E_CONFLICT);
	assert_non_null(strstr(err.message, "already running"));
	assert_non_null(strstr(err.message, pid));
	runtime_done(&p);
	assert_int_equal(take_once(&q, &err), 0);
	runtime_done(&q);
}

static void cli_1_a_holder_that_has_not_written_its_pid_is_still_a_holder(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE, q = RUNTIME_NONE;
	struct err err = {0};

	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(runtime_open(&h->config, true, &q, &err), 0);
	assert_int_equal(take_once(&p, &err), 0);
	assert_int_equal(ftruncate(p.lock_fd, 0), 0);
	assert_int_equal(take_once(&q, &err), -E_CONFLICT);
	assert_non_null(strstr(err.message, "(pid ?)"));
	runtime_done(&p);
	runtime_done(&q);
}

static void ses_8_the_state_directory_goes_to_the_api_child(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	struct stat st;

	if (!privileged())
		skip();
	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(runtime_prepare(&h->config, true, &p, &err), 0);
	assert_int_equal(stat(h->base, &st), 0);
	assert_int_equal(st.st_uid, API_UID);
	assert_int_equal(st.st_gid, API_UID);
	assert_int_equal(st.st_mode & 07777, 0711);
	runtime_done(&p);
	/* Again, with something in it. */
	cleanup_free char *file = mem_printf("%s/agentsh.db", h->base);
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(runtime_prepare(&h->config, true, &p, &err), 0);
	runtime_done(&p);
}

static void ses_8_a_full_directory_of_another_user_is_not_given_away(void **state)
{
	const struct here *h = *state;
	struct config c = h->config;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	struct stat st;

	if (!privileged())
		skip();
	c.base_dir = (char *)(uintptr_t)h->dir;
	assert_int_equal(runtime_open(&c, true, &p, &err), 0);
	assert_int_equal(runtime_prepare(&c, true, &p, &err), -E_FORBIDDEN);
	assert_string_equal(err.subject, h->dir);
	assert_non_null(strstr(err.message, "chown"));
	assert_int_equal(stat(h->dir, &st), 0);
	assert_int_equal(st.st_uid, 0);
	runtime_done(&p);
}

static void ses_8_a_state_directory_out_of_reach_is_named(void **state)
{
	const struct here *h = *state;
	cleanup_free char *above = NULL;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};

	if (!privileged())
		skip();
	above = mem_printf("%s/state", h->dir);
	assert_int_equal(mkdir(above, 0700), 0);
	assert_int_equal(runtime_open(&h->config, true, &p, &err), 0);
	assert_int_equal(runtime_prepare(&h->config, true, &p, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "sessions.base_dir"));
	/* The check left us who we were. */
	assert_int_equal(close(open(above, O_RDONLY | O_CLOEXEC)), 0);
	runtime_done(&p);
}

/* ---- waiting for the winner ---- */

/* A forked server that calls fn when it gets a byte. */
struct rival {
	pid_t pid;
	int go[2], up[2];
};

static struct rival rival_start(const struct here *h,
				void (*fn)(struct runtime *p, const struct here *h))
{
	struct rival r;
	char byte = 0;

	assert_int_equal(pipe2(r.go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(r.up, O_CLOEXEC), 0);
	r.pid = fork();
	if (r.pid == 0) {
		struct runtime p = RUNTIME_NONE;
		struct err err = {0};

		close(r.go[1]);
		if (runtime_open(&h->config, privileged(), &p, &err) < 0 || take_once(&p, &err) < 0)
			_exit(1);
		if (write(r.up[1], "x", 1) != 1 || read(r.go[0], &byte, 1) != 1)
			_exit(2);
		fn(&p, h);
		(void)!read(r.go[0], &byte, 1);
		_exit(0);
	}
	assert_int_equal(read(r.up[0], &byte, 1), 1);
	return r;
}

static void rival_end(struct rival *r)
{
	int status;

	close(r->go[0]);
	close(r->go[1]);
	close(r->up[0]);
	close(r->up[1]);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_int_equal(status, 0);
}

static void opens(struct runtime *p, const struct here *h)
{
	struct err err = {0};

	if (runtime_listen(&h->config, privileged(), p, &err) < 0)
		_exit(3);
}

static void leaves(struct runtime *p, const struct here *h)
{
	runtime_done(p);
	_exit(0);
}

static void cli_1_the_loser_waits_until_the_winner_answers(void **state)
{
	const struct here *h = *state;
	struct rival r = rival_start(h, opens);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	bool other = false;

	assert_int_equal(runtime_open(&h->config, privileged(), &p, &err), 0);
	assert_int_equal(runtime_take(&p, true, 0, &other, &err), -E_UNAVAILABLE);
	assert_int_equal(write(r.go[1], "x", 1), 1);
	assert_int_equal(runtime_take(&p, true, 10000, &other, &err), 0);
	assert_true(other);
	runtime_done(&p);
	rival_end(&r);
}

static void cli_1_the_loser_serves_if_the_winner_dies(void **state)
{
	const struct here *h = *state;
	struct rival r = rival_start(h, leaves);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	bool other = true;

	assert_int_equal(runtime_open(&h->config, privileged(), &p, &err), 0);
	assert_int_equal(write(r.go[1], "x", 1), 1);
	assert_int_equal(runtime_take(&p, true, 10000, &other, &err), 0);
	assert_false(other);
	runtime_done(&p);
	rival_end(&r);
}

/* ---- after a server that was killed ---- */

/* A forked server that is dead; its child keeps the lock and waits for go. */
static struct rival orphan_start(const struct here *h)
{
	struct rival r;
	char byte = 0;

	assert_int_equal(pipe2(r.go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(r.up, O_CLOEXEC), 0);
	r.pid = fork();
	if (r.pid == 0) {
		struct runtime p = RUNTIME_NONE;
		struct err err = {0};

		close(r.go[1]);
		if (runtime_open(&h->config, privileged(), &p, &err) < 0 || take_once(&p, &err) < 0)
			_exit(1);
		if (fork() == 0 && (write(r.up[1], "x", 1) != 1 || read(r.go[0], &byte, 1) != 1))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(read(r.up[0], &byte, 1), 1);
	return r;
}

/* As a zombie it is as dead as when it is buried. */
static void wait_dead(pid_t pid)
{
	siginfo_t si;

	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
}

static void ses_8_a_dead_servers_child_does_not_stop_the_next_server(void **state)
{
	const struct here *h = *state;
	struct rival r = orphan_start(h);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	bool other;

	wait_dead(r.pid);
	assert_int_equal(runtime_open(&h->config, privileged(), &p, &err), 0);
	assert_int_equal(runtime_take(&p, false, 0, &other, &err), -E_CONFLICT);
	assert_int_equal(runtime_take(&p, false, 1, &other, &err), -E_CONFLICT);
	assert_int_equal(write(r.go[1], "x", 1), 1);
	assert_int_equal(runtime_take(&p, false, 10000, &other, &err), 0);
	runtime_done(&p);
	rival_end(&r);
}

static void ses_8_a_buried_servers_child_does_not_stop_the_next_server(void **state)
{
	const struct here *h = *state;
	struct rival r = orphan_start(h);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	bool other;

	rival_end(&r); /* its child ends as well, at some moment after this */
	assert_int_equal(runtime_open(&h->config, privileged(), &p, &err), 0);
	assert_int_equal(runtime_take(&p, false, 10000, &other, &err), 0);
	runtime_done(&p);
}

static void ses_8_nothing_is_inherited_from_the_living(void **state)
{
	const struct here *h = *state;
	struct rival r = rival_start(h, leaves);
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	bool other;
	char pid[32];

	snprintf(pid, sizeof(pid), "(pid %d)", (int)r.pid);
	assert_int_equal(runtime_open(&h->config, privileged(), &p, &err), 0);
	/* at once: a wait would last until the test's own end */
	assert_int_equal(runtime_take(&p, false, 3600 * 1000, &other, &err), -E_CONFLICT);
	assert_non_null(strstr(err.message, pid));
	assert_int_equal(write(r.go[1], "x", 1), 1);
	rival_end(&r);
	assert_int_equal(runtime_take(&p, false, 0, &other, &err), 0);
	runtime_done(&p);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, here_setup, here_teardown)
	const struct CMUnitTest tests[] = {
		T(ses_8_the_runtime_directory_is_made_and_closed_to_others),
		T(sbx_5_a_user_has_a_runtime_directory_of_his_own),
		T(ses_8_a_directory_that_others_can_write_is_refused),
		T(cli_1_one_lock_one_server),
		T(cli_1_a_holder_that_has_not_written_its_pid_is_still_a_holder),
		T(ses_8_the_state_directory_goes_to_the_api_child),
		T(ses_8_a_full_directory_of_another_user_is_not_given_away),
		T(ses_8_a_state_directory_out_of_reach_is_named),
		T(cli_1_the_loser_waits_until_the_winner_answers),
		T(cli_1_the_loser_serves_if_the_winner_dies),
		T(ses_8_a_dead_servers_child_does_not_stop_the_next_server),
		T(ses_8_a_buried_servers_child_does_not_stop_the_next_server),
		T(ses_8_nothing_is_inherited_from_the_living),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
