// SPDX-License-Identifier: Apache-2.0
/* Directories of sessions without namespaces, and what such sessions lose. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include "launcher/own_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEEP 300 /* of long names: deeper than any path */
#define TURNS 1000

static struct launcher l;
static char dir[] = "/tmp/agentsh-own-XXXXXX";

static int open_all(void **state)
{
	if (mkdtemp(dir) == NULL)
		return -1;
	launcher_init(&l);
	l.privileged = false; /* even if root runs the test */
	l.settings.config.base_dir = mem_strdup(dir);
	l.programs.fd[process_of(PROCESS_INSIDE)] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return 0;
}

static int close_all(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", dir);

	orphans_stop(&l);
	loop_free(l.loop);
	free(l.settings.config.base_dir);
	close(l.programs.fd[process_of(PROCESS_INSIDE)]);
	return system(command);
}

static char *made(const char *id)
{
	struct err err = {0};
	char *path = NULL;

	if (own_dir_make(&l, id, &path, &err) < 0)
		fail_msg("%s", err.message);
	return path;
}

static size_t left_over(void)
{
	cleanup_free char *command = mem_printf("exit $(ls -A %s/own | wc -l)", dir);

	return (size_t)WEXITSTATUS(system(command));
}

static void turn_until_left(size_t n)
{
	for (int i = 0; i < TURNS && left_over() != n; i++)
		loop_turn(l.loop);
	assert_int_equal(left_over(), n);
}

static mode_t mode_of(const char *path, const char *below)
{
	cleanup_free char *whole = mem_printf("%s/%s", path, below);
	struct stat st;

	assert_int_equal(stat(whole, &st), 0);
	return st.st_mode & 07777;
}

static void ses_2_a_home_and_a_tmp_closed_to_others(void **state)
{
	cleanup_free char *path = made("one");
	cleanup_free char *expected = mem_printf("%s/own/one", dir);
	char *again = NULL;
	struct err err = {0};

	assert_string_equal(path, expected);
	assert_int_equal(mode_of(path, ""), 0700);
	assert_int_equal(mode_of(path, "home"), 0700);
	assert_int_equal(mode_of(path, "tmp"), 0700);
	assert_int_equal(mode_of(dir, "own"), 0700);
	assert_int_equal(own_dir_make(&l, "one", &again, &err), -E_UNAVAILABLE);
	assert_null(again);
	assert_true(own_dir_drop(&l, "one", &(struct meta){0}));
	/* the name is free at once */
	free(path);
	path = made("one");
	assert_true(own_dir_drop(&l, "one", &(struct meta){0}));
	assert_false(own_dir_drop(&l, "one", &(struct meta){0}));
	assert_false(own_dir_drop(&l, "never", &(struct meta){0}));
	turn_until_left(0);
}

static void dig(int at, const char *name)
{
	cleanup_fd int fd = dup(at);

	for (int i = 0; i < DEEP; i++) {
		int next;

		assert_int_equal(mkdirat(fd, name, 0700), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
}

/* However deep, shut or odd; what a link leads to stays. */
static void ses_2_all_of_it_is_removed(void **state)
{
	char name[201];
	char other[] = "/tmp/agentsh-kept-XXXXXX";
	cleanup_free char *top = made("deep"), *kept = NULL;
	cleanup_fd int fd = -1;

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_non_null(mkdtemp(other));
	kept = mem_printf("%s/file", other);
	close(open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dig(fd, name);
	assert_int_equal(symlinkat(other, fd, "link"), 0);
	assert_int_equal(mkfifoat(fd, "pipe", 0), 0);
	assert_int_equal(mkdirat(fd, "shut", 0700), 0);
	assert_int_equal(mkdirat(fd, "shut/in", 0700), 0);
	assert_int_equal(symlinkat(other, fd, "shut/in/link"), 0);
	close(openat(fd, "shut/in/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0));
	assert_int_equal(mkdirat(fd, ".flat-0", 0700), 0);
	assert_int_equal(mkdirat(fd, ".flat-1", 0), 0);
	assert_int_equal(fchmodat(fd, "shut/in", 0, 0), 0);
	assert_int_equal(fchmodat(fd, "shut", 0, 0), 0);
	assert_true(own_dir_drop(&l, "deep", &(struct meta){0}));
	turn_until_left(0);
	assert_int_equal(access(kept, F_OK), 0);
	unlink(kept);
	assert_int_equal(rmdir(other), 0);
}

static void ses_8_only_the_livings_stay(void **state)
{
	cleanup_free char *a = made("alive"), *b = made("dead"), *c = made("unknown");
	cleanup_free char *old = mem_printf("%s/own/.old.1", dir);
	struct session_entry *alive = entry_new(&l, "alive"), *dead = entry_new(&l, "dead");

	assert_int_equal(mkdir(old, 0700), 0);
	alive->state = ENTRY_ALIVE;
	own_dirs_sweep(&l);
	turn_until_left(1);
	assert_int_equal(access(a, F_OK), 0);
	entry_free(dead);
	entry_free(alive);
	own_dirs_sweep(&l);
	turn_until_left(0);
	assert_int_equal(access(b, F_OK) + access(c, F_OK), -2);
}

/* Nothing of root's is touched: its state directory is another's. */
static void ses_8_a_privileged_launcher_keeps_off(void **state)
{
	cleanup_free char *a = made("s");

	l.privileged = true;
	assert_false(own_dir_drop(&l, "s", &(struct meta){0}));
	own_dirs_sweep(&l);
	l.privileged = false;
	assert_int_equal(access(a, F_OK), 0);
	assert_true(own_dir_drop(&l, "s", &(struct meta){0}));
	turn_until_left(0);
}

/* init has the time to end what it has. */
static void ses_8_the_directories_go_after_init(void **state)
{
	struct meta m = {0};
	const pid_t init = fork();

	if (init == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
	free(made("s"));
	meta_add(&m, process_of(PROCESS_MAIN), 0, 0);
	meta_add(&m, process_of(PROCESS_INSIDE), init, meta_start_time(init));
	orphans_expect(&l, init); /* it is known */
	assert_true(own_dir_drop(&l, "s", &m));
	poll(NULL, 0, 50);
	assert_int_equal(left_over(), 1);
	kill(init, SIGKILL);
	turn_until_left(0);
}

/* ---- orphans ---- */

/* A child that leaves a process behind, which comes to us; it is stopped, or not. */
static pid_t lose_one(bool execute)
{
	int said[2];
	pid_t child, unclaimed = 0;

	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		unclaimed = fork();
		if (unclaimed == 0) {
			setsid();
			prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
			if (execute)
				execl("/bin/sleep", "sleep", "1000", (char *)NULL);
			for (;;)
				pause();
		}
		if (write(said[1], &unclaimed, sizeof(unclaimed)) != (ssize_t)sizeof(unclaimed))
			_exit(1);
		_exit(0);
	}
	close(said[1]);
	assert_int_equal(read(said[0], &unclaimed, sizeof(unclaimed)), (ssize_t)sizeof(unclaimed));
	close(said[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return unclaimed;
}

static bool is_ours(pid_t pid)
{
	return proc_ppid(pid) == getpid();
}

static void ses_8_orphans_are_killed(void **state)
{
	pid_t unclaimed;

	orphans_start(&l);
	unclaimed = lose_one(true);
	assert_true(is_ours(unclaimed));
	/* until it has executed it is one of our own programs, which gets its time */
	orphans_look(&l);
	for (int i = 0; i < TURNS && meta_start_time(unclaimed) != 0; i++)
		loop_turn(l.loop);
	assert_int_equal(meta_start_time(unclaimed), 0);
	/* and it looks no longer than there is something */
	for (int i = 0; i < TURNS && l.orphans.looks > 0; i++)
		loop_turn(l.loop);
	assert_int_equal(l.orphans.looks, 0);
}

static void ses_8_the_known_are_left_alone(void **state)
{
	const pid_t api = lose_one(true), warden = lose_one(true), helper = lose_one(true);
	struct session_entry *w = entry_new(&l, "s");

	l.api.child.pid = api;
	w->warden.pid = warden;
	w->warden.pidfd = proc_pidfd(warden);
	l.alive++;
	w->meta.process[0].pid = (uint64_t)warden;
	orphans_expect(&l, helper);
	orphans_look(&l);
	for (int i = 0; i < TURNS && l.orphans.looks > 0; i++)
		loop_turn(l.loop);
	assert_true(is_ours(api) && is_ours(warden) && is_ours(helper));
	assert_int_equal(kill(api, 0) + kill(warden, 0) + kill(helper, 0), 0);
	l.api.child.pid = 0;
	entry_free(w);
	kill(helper, SIGKILL);
	orphans_look(&l);
	for (int i = 0; i < TURNS && (l.orphans.looks > 0 || l.orphans.n > 0); i++)
		loop_turn(l.loop);
	assert_int_equal(meta_start_time(api) + meta_start_time(warden) + meta_start_time(helper),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_2_a_home_and_a_tmp_closed_to_others),
		cmocka_unit_test(ses_2_all_of_it_is_removed),
		cmocka_unit_test(ses_8_only_the_livings_stay),
		cmocka_unit_test(ses_8_a_privileged_launcher_keeps_off),
		cmocka_unit_test(ses_8_the_directories_go_after_init),
		cmocka_unit_test(ses_8_orphans_are_killed),
		cmocka_unit_test(ses_8_the_known_are_left_alone),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
