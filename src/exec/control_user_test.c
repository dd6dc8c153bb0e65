// SPDX-License-Identifier: Apache-2.0
/* The exec thread as a normal user, with the walls that let it skip the exec stop: what is skipped,
 * and what is not.
 *
 * A guest here is this program executed again with the name of what it does, so that its memory
 * began with an exec. Its strings are on its stack and heap. */
#include "exec/exec_testkit.h"
#include <spawn.h>
#include <stdatomic.h>

extern char **environ;

#define SYSTEM "/usr/bin/true" /* neither it nor its directories can be changed by us */

static char self[128]; /* a copy of this program */

enum way { BY_FORK, BY_VFORK, BY_SPAWN };

static int run(enum way way, const char *path)
{
	char name[] = "x", copy[128];
	char *argv[] = {name, NULL};
	pid_t pid = -1;

	snprintf(copy, sizeof(copy), "%s", path);
	if (way == BY_SPAWN) {
		if (posix_spawn(&pid, copy, NULL, NULL, argv, environ) != 0)
			return KIT_NOT_RUN;
	} else {
		pid = way == BY_FORK ? fork() : vfork();
	}
	if (pid == 0) {
		execve(copy, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int do_plain(void)
{
	return run(BY_FORK, SYSTEM) + run(BY_VFORK, SYSTEM) + run(BY_SPAWN, SYSTEM);
}

static int do_changeable(void)
{
	return run(BY_FORK, kit_path("good"));
}

static int do_relative(void)
{
	return chdir("/usr/bin") == 0 ? run(BY_FORK, "./true") : KIT_BROKEN;
}

static void *sleep_on(void *arg)
{
	while (pause() == -1)
		;
	return arg;
}

static int do_threads(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleep_on, NULL) != 0)
		return KIT_BROKEN;
	return run(BY_VFORK, SYSTEM);
}

static void *wait_for_end(void *arg)
{
	char c;

	return read(*(const int *)arg, &c, 1) == 0 ? NULL : arg;
}

/* A caller of vfork gets a thread, and loses it again. */
static int do_passing_thread(void)
{
	int fd[2], r = run(BY_VFORK, SYSTEM);
	pthread_t t;

	if (pipe2(fd, O_CLOEXEC) < 0 || pthread_create(&t, NULL, wait_for_end, &fd[0]) != 0)
		return KIT_BROKEN;
	r += run(BY_VFORK, SYSTEM) + run(BY_SPAWN, SYSTEM);
	close(fd[1]);
	pthread_join(t, NULL);
	return r + run(BY_VFORK, SYSTEM);
}

/* Copies are nobody else's, whatever threads the original has; but who has called vfork might have
 * made the child by that. */
static int do_copies_of_threads(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleep_on, NULL) != 0)
		return KIT_BROKEN;
	return run(BY_FORK, SYSTEM) + run(BY_VFORK, SYSTEM) + run(BY_FORK, SYSTEM);
}

static void *vfork_in_thread(void *arg)
{
	*(int *)arg = run(BY_VFORK, SYSTEM);
	return NULL;
}

/* Its first thread is known as a caller that was alone. */
static int do_vfork_of_second_thread(void)
{
	int first = run(BY_VFORK, SYSTEM), second = KIT_BROKEN;
	pthread_t t;

	if (pthread_create(&t, NULL, vfork_in_thread, &second) != 0)
		return KIT_BROKEN;
	pthread_join(t, NULL);
	return first + second;
}

static int do_shared_mapping(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char name[] = "x";
	char *argv[] = {name, NULL};
	pid_t pid;

	strcpy(page, SYSTEM);
	pid = fork();
	if (pid == 0) {
		execve(page, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

/* A private mapping of a file that others may write is as good as shared. */
static int do_file_mapping(void)
{
	int fd = open(kit_path("strings"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char name[] = "x", *page;
	char *argv[] = {name, NULL};
	pid_t pid;

	if (fd < 0 || write(fd, SYSTEM, sizeof(SYSTEM)) != sizeof(SYSTEM))
		return KIT_BROKEN;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	pid = fork();
	if (pid == 0) {
		execve(page, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int sleep_process(void *arg)
{
	sleep_on(arg);
	return 0;
}

/* A process that shares the memory and does nothing. */
static int do_clone_vm(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	const pid_t pid = clone(sleep_process, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	const int r = run(BY_FORK, SYSTEM);

	kill(pid, SIGKILL);
	return kit_status(pid) == 128 + SIGKILL ? r : KIT_BROKEN;
}

static int do_aio(void)
{
	unsigned long context = 0;

	if (syscall(SYS_io_setup, 1, &context) < 0)
		return KIT_BROKEN;
	return run(BY_FORK, SYSTEM);
}

/* A subshell that starts a command by vfork: the command is verified, what comes after is not. */
static int do_nested(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(run(BY_VFORK, SYSTEM));
	return kit_status(pid) + run(BY_FORK, SYSTEM);
}

static char stacks[2][16384] __attribute__((aligned(16)));

static pid_t vfork_on(int i, int (*fn)(void *), void *arg)
{
	return clone(fn, stacks[i] + sizeof(stacks[i]), CLONE_VM | CLONE_VFORK | SIGCHLD, arg);
}

struct family {
	pid_t middle, last;
};

static int kill_and_stay(void *arg)
{
	struct family *f = arg;

	f->last = getpid();
	kill(f->middle, SIGKILL);
	sleep_on(arg);
	return 0;
}

static int vfork_again(void *arg)
{
	((struct family *)arg)->middle = getpid();
	vfork_on(1, kill_and_stay, arg);
	return KIT_BROKEN;
}

/* vfork in a vfork, whose middle dies: the first runs on while the last still has its memory. */
static int do_stray(void)
{
	struct family f;
	const pid_t pid = vfork_on(0, vfork_again, &f);
	int r;

	if (kit_status(pid) != 128 + SIGKILL)
		return KIT_BROKEN;
	r = run(BY_FORK, SYSTEM) + run(BY_FORK, SYSTEM);
	kill(f.last, SIGKILL);
	return r;
}

struct couple {
	pid_t parent;
	atomic_int come; /* children of vfork that are there */
	int i;
};

/* The second waits until it is killed; the first executes once their parent is dead. */
static _Noreturn void be_left(const struct couple *c, int i)
{
	while (c->come < 2)
		sched_yield();
	if (i == 1) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		sleep_on(NULL);
	}
	kill(c->parent, SIGKILL);
	while (getppid() == c->parent)
		sched_yield();
	execl(SYSTEM, "x", NULL);
	_exit(KIT_NOT_RUN);
}

static void *vfork_of_couple(void *arg)
{
	struct couple *c = arg;
	const int i = c->i++;
	const pid_t pid = vfork();

	if (pid == 0) {
		c->come++;
		be_left(c, i);
	}
	return NULL;
}

static int do_couple(void)
{
	static struct couple c;
	pthread_t t;

	c.parent = getpid();
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&t, NULL, vfork_of_couple, &c) != 0)
			return KIT_BROKEN;
		while (c.come == i)
			sched_yield();
	}
	sleep_on(NULL);
	return KIT_BROKEN;
}

/* Two threads of a program call vfork; it is killed and leaves both children in one memory. */
static int do_orphans(void)
{
	char program[128], guest[] = "guest", deed[] = "couple";
	char *argv[] = {program, guest, deed, kit.dir, NULL};
	pid_t pid;
	int status = KIT_BROKEN;

	snprintf(program, sizeof(program), "%s", kit_path("self"));
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	pid = fork();
	if (pid == 0) {
		execve(program, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	if (kit_status(pid) != 128 + SIGKILL)
		return KIT_BROKEN;
	while ((pid = wait(&status)) > 0 && WIFSIGNALED(status))
		;
	return pid > 0 ? WEXITSTATUS(status) : KIT_BROKEN;
}

static int stay(void *arg)
{
	sleep_on(arg);
	return 0;
}

/* In the memory of who sleeps in vfork: makes a thread and ends without it. */
static int leave_thread(void *arg)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;

	if (clone(stay, stacks[1] + sizeof(stacks[1]), flags, arg) == -1)
		return KIT_BROKEN;
	syscall(SYS_exit, 0);
	return 0;
}

/* A child of vfork ends, and a thread of it stays in the memory: one that nobody else counts. */
static int do_left_thread(void)
{
	const pid_t pid = vfork_on(0, leave_thread, NULL);
	const int r = run(BY_VFORK, SYSTEM) + run(BY_FORK, SYSTEM);

	kill(pid, SIGKILL);
	return kit_status(pid) == 128 + SIGKILL ? r : KIT_BROKEN;
}

static int do_hidden(void)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return KIT_BROKEN;
	return run(BY_FORK, SYSTEM);
}

static int do_unreadable(void)
{
	return run(BY_FORK, kit_path("sealed"));
}

static int do_loader(void)
{
	char loader[] = "/lib64/ld-linux-x86-64.so.2", program[] = SYSTEM;
	char *argv[] = {loader, program, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execve(loader, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int do_script(void)
{
	char script[] = "/usr/bin/ldd", version[] = "--version";
	char *argv[] = {script, version, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execve(script, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static const struct {
	const char *name;
	int (*run)(void);
} deeds[] = {
	{"plain", do_plain},
	{"changeable", do_changeable},
	{"relative", do_relative},
	{"threads", do_threads},
	{"shared", do_shared_mapping},
	{"file", do_file_mapping},
	{"clone_vm", do_clone_vm},
	{"aio", do_aio},
	{"nested", do_nested},
	{"stray", do_stray},
	{"hidden", do_hidden},
	{"unreadable", do_unreadable},
	{"loader", do_loader},
	{"script", do_script},
	{"passing", do_passing_thread},
	{"copies", do_copies_of_threads},
	{"second", do_vfork_of_second_thread},
	{"orphans", do_orphans},
	{"couple", do_couple},
	{"left", do_left_thread},
};

static int be_guest(const char *name, const char *dir)
{
	snprintf(kit.dir, sizeof(kit.dir), "%s", dir);
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++)
		if (strcmp(deeds[i].name, name) == 0)
			return deeds[i].run();
	return KIT_BROKEN;
}

static int guest_self(void *arg)
{
	char *argv[] = {self, (char *)"guest", arg, kit.dir, NULL};

	execve(self, argv, environ);
	return KIT_BROKEN;
}

/* Runs a deed; record 0 is this program itself. Outcomes of all that follow are compared. */
static void check(const char *name, bool may_skip, const enum exec_outcome *want, size_t n)
{
	const bool runs = n == 0 || want[0] != EXEC_REFUSED;

	assert_int_equal(kit_run(guest_self, (void *)(uintptr_t)name, may_skip),
			 runs ? 0 : KIT_NOT_RUN);
	assert_int_equal(kit.nrecords, n + 1);
	assert_int_equal(kit.record[0].outcome, EXEC_VERIFIED);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kit.record[i + 1].outcome, want[i]);
}
#define CHECK(name, may_skip, ...)                                      \
	check(name, may_skip, (const enum exec_outcome[]){__VA_ARGS__}, \
	      ARRAY_LEN(((const enum exec_outcome[]){__VA_ARGS__})))

static void pol_4_what_nobody_can_change_is_not_verified(void **state)
{
	CHECK("plain", true, EXEC_SKIPPED, EXEC_SKIPPED, EXEC_SKIPPED);
	assert_int_equal(kit.count[EXEC_SKIPPED], 3);
	assert_int_equal(kit.count[EXEC_VERIFIED], 1);
	CHECK("script", true, EXEC_SKIPPED);
	CHECK("loader", true, EXEC_SKIPPED);
}

static void pol_4_without_the_walls_everything_is_verified(void **state)
{
	CHECK("plain", false, EXEC_VERIFIED, EXEC_VERIFIED, EXEC_VERIFIED);
}

static void pol_4_what_somebody_can_change_is_verified(void **state)
{
	CHECK("changeable", true, EXEC_VERIFIED);
	CHECK("relative", true, EXEC_VERIFIED);
	CHECK("threads", true, EXEC_VERIFIED);
	CHECK("shared", true, EXEC_VERIFIED);
	CHECK("file", true, EXEC_VERIFIED);
	CHECK("clone_vm", true, EXEC_VERIFIED);
	CHECK("aio", true, EXEC_VERIFIED);
}

static void pol_4_threads_of_who_calls_vfork_are_counted_each_time(void **state)
{
	CHECK("passing", true, EXEC_SKIPPED, EXEC_VERIFIED, EXEC_VERIFIED, EXEC_SKIPPED);
	CHECK("second", true, EXEC_SKIPPED, EXEC_VERIFIED);
}

static void pol_4_a_copy_is_nobody_elses(void **state)
{
	CHECK("copies", true, EXEC_SKIPPED, EXEC_VERIFIED, EXEC_VERIFIED);
}

/* In a root that is known, where programs are remembered; those too can be compared. */
static void pol_4_what_is_remembered_is_held_to_the_decision(void **state)
{
	kit.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	kit.root_known = true;
	CHECK("plain", true, EXEC_SKIPPED, EXEC_SKIPPED, EXEC_SKIPPED);
	assert_string_equal(kit.record[3].path, SYSTEM);
	CHECK("plain", false, EXEC_VERIFIED, EXEC_VERIFIED, EXEC_VERIFIED);
	assert_string_equal(kit.record[3].path, SYSTEM);
	CHECK("passing", true, EXEC_SKIPPED, EXEC_VERIFIED, EXEC_VERIFIED, EXEC_SKIPPED);
	CHECK("script", true, EXEC_SKIPPED);
	CHECK("loader", true, EXEC_SKIPPED);
	CHECK("changeable", true, EXEC_VERIFIED);
	CHECK("relative", true, EXEC_VERIFIED);
	kit.root_known = false;
	close(kit.root);
}

static void pol_4_vfork_in_a_copy_is_verified_once(void **state)
{
	CHECK("nested", true, EXEC_VERIFIED, EXEC_SKIPPED);
}

static void pol_4_a_grandchild_that_stays_in_the_memory_is_noticed(void **state)
{
	CHECK("stray", true, EXEC_VERIFIED, EXEC_VERIFIED);
}

static void pol_4_children_that_are_left_in_one_memory_are_verified(void **state)
{
	CHECK("orphans", true, EXEC_VERIFIED, EXEC_VERIFIED);
}

static void pol_4_a_thread_that_is_left_in_the_memory_is_noticed(void **state)
{
	CHECK("left", true, EXEC_VERIFIED, EXEC_VERIFIED);
}

static void pol_4_what_cannot_be_read_is_refused(void **state)
{
	kit_copy("/usr/bin/true", "sealed", 0111);
	CHECK("hidden", true, EXEC_REFUSED);
	CHECK("unreadable", true, EXEC_REFUSED);
	assert_string_equal(kit.record[1].argv, "");
}

static int prepare(void **state)
{
	if (kit_prepare(state) < 0)
		return -1;
	snprintf(self, sizeof(self), "%s", kit_path("self"));
	kit_copy("/proc/self/exe", "self", 0755);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_what_nobody_can_change_is_not_verified),
		cmocka_unit_test(pol_4_without_the_walls_everything_is_verified),
		cmocka_unit_test(pol_4_what_somebody_can_change_is_verified),
		cmocka_unit_test(pol_4_threads_of_who_calls_vfork_are_counted_each_time),
		cmocka_unit_test(pol_4_a_copy_is_nobody_elses),
		cmocka_unit_test(pol_4_what_is_remembered_is_held_to_the_decision),
		cmocka_unit_test(pol_4_vfork_in_a_copy_is_verified_once),
		cmocka_unit_test(pol_4_a_grandchild_that_stays_in_the_memory_is_noticed),
		cmocka_unit_test(pol_4_children_that_are_left_in_one_memory_are_verified),
		cmocka_unit_test(pol_4_a_thread_that_is_left_in_the_memory_is_noticed),
		cmocka_unit_test(pol_4_what_cannot_be_read_is_refused),
	};

	if (argc == 4 && strcmp(argv[1], "guest") == 0)
		return be_guest(argv[2], argv[3]);
	if (kit_become_user() < 0)
		return 1;
	return cmocka_run_group_tests(tests, prepare, kit_clean);
}
