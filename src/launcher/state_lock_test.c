// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "launcher/testkit/runtime_testkit.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

static int claim(const struct here *h, struct runtime *p, char **other, struct err *err)
{
	int r = runtime_open(&h->config, privileged(), p, err);

	if (r == 0)
		r = runtime_prepare(&h->config, privileged(), p, err);
	return r == 0 ? runtime_claim(&h->config, privileged(), p, other, err) : r;
}

/* Another process with another socket tries to claim it; its result as one line. */
static void claimed_elsewhere(const struct here *h, char *out, size_t n)
{
	int fd[2], status = -1;
	pid_t pid;

	memset(out, 0, n);
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct here there = *h;
		struct runtime p = RUNTIME_NONE;
		struct err err = {0};
		char *other = NULL;
		int r;

		snprintf(there.socket, sizeof(there.socket), "%s/run2/agentsh.sock", h->dir);
		there.config.unix_socket = there.socket;
		r = claim(&there, &p, &other, &err);
		dprintf(fd[1], "%d %s %s", r, other != NULL ? other : "-", err.message);
		_exit(0);
	}
	close(fd[1]);
	assert_true(fdio_read_full(fd[0], out, n - 1) > 0);
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void ses_8_one_server_for_a_state_directory(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	char *other = NULL;
	char got[1024], want[256];

	assert_int_equal(claim(h, &p, &other, &err), 0);
	assert_null(other);
	claimed_elsewhere(h, got, sizeof(got));
	snprintf(want, sizeof(want), "%d %s ", -E_CONFLICT, h->socket);
	assert_memory_equal(got, want, strlen(want));
	snprintf(want, sizeof(want), "%s is in use by another server (pid %d on %s)", h->base,
		 (int)getpid(), h->socket);
	assert_non_null(strstr(got, want));
	runtime_done(&p);
	claimed_elsewhere(h, got, sizeof(got));
	assert_memory_equal(got, "0 - ", 4);
}

/* A lock file without a path: the client cannot be sent to the server that has the lock. */
static void ses_8_a_socket_that_is_not_told_is_not_guessed(void **state)
{
	static const char *const texts[] = {"", "/no/end", "relative\n"};
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	char *other = NULL;
	char got[1024], want[64];

	assert_int_equal(claim(h, &p, &other, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(ftruncate(p.claim_fd, 0), 0);
		assert_int_equal(pwrite(p.claim_fd, texts[i], strlen(texts[i]), 0),
				 (ssize_t)strlen(texts[i]));
		claimed_elsewhere(h, got, sizeof(got));
		snprintf(want, sizeof(want), "%d - ", -E_CONFLICT);
		assert_memory_equal(got, want, strlen(want));
		snprintf(want, sizeof(want), "(pid %d): use", (int)getpid());
		assert_non_null(strstr(got, want));
	}
	runtime_done(&p);
}

static void ses_8_the_lock_belongs_to_the_directorys_owner(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	char *other = NULL;
	struct stat st;

	assert_int_equal(claim(h, &p, &other, &err), 0);
	assert_int_equal(stat(h->lock, &st), 0);
	assert_int_equal(st.st_uid, privileged() ? API_UID : geteuid());
	assert_int_equal(st.st_mode & 07777, 0600);
	runtime_done(&p);
}

static void ses_8_what_is_no_lock_file_is_named(void **state)
{
	const struct here *h = *state;
	struct runtime p = RUNTIME_NONE;
	struct err err = {0};
	char *other = NULL;

	assert_int_equal(claim(h, &p, &other, &err), 0);
	runtime_done(&p);
	assert_int_equal(unlink(h->lock), 0);
	assert_int_equal(symlink("/etc/passwd", h->lock), 0);
	assert_int_equal(claim(h, &p, &other, &err), -E_UNAVAILABLE);
	assert_string_equal(err.subject, h->lock);
	runtime_done(&p);
	assert_int_equal(unlink(h->lock), 0);
	assert_int_equal(mkfifo(h->lock, 0666), 0);
	assert_int_equal(chmod(h->lock, 0666), 0);
	assert_int_equal(claim(h, &p, &other, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "not a regular file: remove it"));
	assert_null(other);
	runtime_done(&p);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, here_setup, here_teardown)
	const struct CMUnitTest tests[] = {
		T(ses_8_one_server_for_a_state_directory),
		T(ses_8_a_socket_that_is_not_told_is_not_guessed),
		T(ses_8_the_lock_belongs_to_the_directorys_owner),
		T(ses_8_what_is_no_lock_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
