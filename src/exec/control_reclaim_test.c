// SPDX-License-Identifier: Apache-2.0
/* Callers that lose pages under the decision: the kernel may replace a page that was given back by
 * zeros whenever memory is short, and no other process has to write there. The end of
 * "/usr/bin/sha256sum" lies in such a page, so that the path becomes "/usr/bin/sh". */
#include "exec/testkit/exec_testkit.h"

extern char **environ;

#define TRIES 100
#define ALLOWED "/usr/bin/sha256sum"
#define KEPT "/usr/bin/sh" /* what is left of it */
#define SHELL_RAN 7
#define PAGE 4096
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08 /* Linux 6.11 */
#endif

/* A group of cgroup v1 or v2 with a file that reclaims its memory. */
static const struct runtime {
	const char *above, *file, *text;
} places[] = {
	{"/sys/fs/cgroup/memory", "memory.force_empty", "0"},
	{"/sys/fs/cgroup", "memory.reclaim", "1G"},
};
static struct {
	char dir[128];
	const char *text; /* NULL: no such group can be made here */
	int procs, reclaim;
} group;

static int open_in_group(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", group.dir, name);
	return open(path, O_WRONLY | O_CLOEXEC);
}

static void make_group(void)
{
	for (size_t i = 0; i < ARRAY_LEN(places) && group.text == NULL; i++) {
		snprintf(group.dir, sizeof(group.dir), "%s/agentsh-reclaim-%d", places[i].above,
			 (int)getpid());
		if (mkdir(group.dir, 0755) < 0)
			continue;
		group.procs = open_in_group("cgroup.procs");
		group.reclaim = open_in_group(places[i].file);
		if (group.procs >= 0 && group.reclaim >= 0)
			group.text = places[i].text;
		else
			rmdir(group.dir);
	}
}

/* It fails with EAGAIN if it finds less than was asked for. */
static void reclaim(void)
{
	if (write(group.reclaim, group.text, strlen(group.text)) < 0)
		assert_int_equal(errno, EAGAIN);
}

static const char rules[] = "  - {name: ask, commands: [sha256sum], decision: approve}\n"
			    "  - {name: rest, commands: [\"*\"], decision: deny}\n";

/* Every decision comes when the strings were read and the kernel has not yet read them. */
static void *answer_all(void *arg)
{
	for (uint64_t id = 1; id <= TRIES; id++) {
		kit_wait_u64(&kit.parked, id);
		gate_answer(kit.gate, id, true);
	}
	return NULL;
}

enum giving { BY_MADVISE, BY_MAPPING };

/* Executes ALLOWED from a path of which the kernel may take the second page. */
static _Noreturn void execute(enum giving how)
{
	char name[] = "x", option[] = "-c", script[] = "exit 7";
	char *argv[] = {name, option, script, NULL};
	char *page =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *path = page + PAGE - strlen(KEPT);

	if (page == MAP_FAILED)
		_exit(KIT_BROKEN);
	if (how == BY_MAPPING &&
	    mmap(page + PAGE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_DROPPABLE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(KIT_BROKEN);
	strcpy(path, ALLOWED);
	if (how == BY_MADVISE && madvise(page + PAGE, PAGE, MADV_FREE) < 0)
		_exit(KIT_BROKEN);
	execve(path, argv, environ);
	_exit(KIT_NOT_RUN);
}

/* In the guest: its result is how many were killed, or that one ran. */
static int guest(void *arg)
{
	int killed = 0;

	if (write(group.procs, "0", 1) != 1)
		return KIT_BROKEN;
	for (int i = 0; i < TRIES; i++) {
		const pid_t pid = fork();
		int status;

		if (pid == 0)
			execute(*(const enum giving *)arg);
		status = kit_status(pid);
		if (status == SHELL_RAN)
			return 200;
		killed += status == 128 + SIGKILL;
	}
	return killed;
}

static void check(enum giving how)
{
	pthread_t answering;

	if (group.text == NULL)
		skip();
	kit.rules = rules;
	kit.on_ask = reclaim;
	kit_start(guest, &how);
	assert_int_equal(pthread_create(&answering, NULL, answer_all, NULL), 0);
	kit_go();
	assert_int_equal(kit_wait(), TRIES);
	pthread_join(answering, NULL);
	kit_stop();
	assert_int_equal(kit.count[GATE_MISMATCHED], TRIES);
	for (size_t i = 0; i < kit.nrecords; i++)
		assert_string_equal(kit.record[i].path, ALLOWED);
}

static void pol_4_a_page_that_was_given_back_changes_nothing(void **state)
{
	check(BY_MADVISE);
}

static void pol_4_a_page_that_may_be_dropped_changes_nothing(void **state)
{
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		print_message("# skipped: MAP_DROPPABLE needs Linux 6.11\n");
		skip();
	}
	munmap(page, PAGE);
	check(BY_MAPPING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_BOTH(pol_4_a_page_that_was_given_back_changes_nothing),
		KIT_BOTH(pol_4_a_page_that_may_be_dropped_changes_nothing),
	};
	pid_t pid;
	int status;

	make_group();
	if (group.text == NULL)
		print_message("# skipped: no cgroup whose memory can be reclaimed\n");
	pid = fork(); /* the group is removed by root */
	if (pid == 0)
		_exit(kit_become_user() < 0
			      ? 1
			      : cmocka_run_group_tests(tests, kit_prepare, kit_clean));
	status = kit_status(pid);
	if (group.text != NULL && rmdir(group.dir) < 0)
		perror(group.dir);
	return status;
}
