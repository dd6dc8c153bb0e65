// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LONG_MS 60000

struct world {
	char path[64];
	int fd;
	int go[2]; /* the holder ends when it is closed */
	pid_t holder;
};

static int setup(void **state)
{
	struct world *w = mem_new(struct world);

	snprintf(w->path, sizeof(w->path), "/tmp/claim_test.XXXXXX");
	w->fd = mkostemp(w->path, O_CLOEXEC);
	assert_true(w->fd >= 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	close(w->fd);
	unlink(w->path);
	free(w);
	return 0;
}

/* Another process that has claimed the file. */
static void hold(struct world *w)
{
	int ready[2];
	pid_t nobody = 0;
	char c;

	assert_int_equal(pipe2(w->go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	w->holder = fork();
	assert_true(w->holder >= 0);
	if (w->holder == 0) {
		close(w->go[1]);
		if (file_lock_take(open(w->path, O_RDWR | O_CLOEXEC), 0, &nobody) < 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(read(w->go[0], &c, 1) == 0 ? 0 : 1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(w->go[0]);
}

static void bury(struct world *w)
{
	int status = -1;

	assert_int_equal(waitpid(w->holder, &status, 0), w->holder);
	assert_int_equal(status, 0);
}

static void ses_8_a_free_file_is_claimed_and_again_by_its_owner(void **state)
{
	struct world *w = *state;
	pid_t holder = 77;

	assert_int_equal(file_lock_take(w->fd, 0, &holder), 0);
	assert_int_equal(file_lock_take(w->fd, 0, &holder), 0);
	assert_int_equal(holder, 77);
}

static void ses_8_a_living_holder_is_named(void **state)
{
	struct world *w = *state;
	pid_t holder = 0;

	hold(w);
	assert_int_equal(file_lock_take(w->fd, 0, &holder), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(holder, w->holder);
	close(w->go[1]);
	bury(w);
	assert_int_equal(file_lock_take(w->fd, 0, &holder), 0);
}

static void ses_8_a_dying_holder_is_waited_for(void **state)
{
	struct world *w = *state;
	pid_t holder = 0;

	hold(w);
	close(w->go[1]); /* it ends now, or while it is waited for */
	assert_int_equal(file_lock_take(w->fd, LONG_MS, &holder), 0);
	assert_int_equal(holder, 0);
	bury(w);
}

/* Nothing of a claim passes to a child, which may outlive us. */
static void ses_8_a_forked_child_does_not_hold_it(void **state)
{
	struct world *w = *state;
	pid_t nobody = 0, child;
	int status = -1, go[2];
	char c;

	assert_int_equal(file_lock_take(w->fd, 0, &nobody), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) { /* has the descriptor and tries what a next owner would */
		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 && file_lock_take(w->fd, 0, &nobody) == 0 ? 0 : 1);
	}
	close(go[0]);
	close(w->fd);
	w->fd = open(w->path, O_RDWR | O_CLOEXEC);
	close(go[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void ses_8_what_cannot_be_claimed_is_an_error(void **state)
{
	const struct world *w = *state;
	cleanup_fd int fd = open(w->path, O_RDONLY | O_CLOEXEC);
	pid_t holder = 77;

	assert_int_equal(file_lock_take(fd, 0, &holder), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(holder, 77);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(ses_8_a_free_file_is_claimed_and_again_by_its_owner),
		T(ses_8_a_living_holder_is_named),
		T(ses_8_a_dying_holder_is_waited_for),
		T(ses_8_a_forked_child_does_not_hold_it),
		T(ses_8_what_cannot_be_claimed_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
