// SPDX-License-Identifier: Apache-2.0
/* The actor table with real processes: trees below leaders, readers in the warden and elsewhere. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "gate/actor.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#define TIMEOUT_S 100
#define TREES 2
#define EVER (INT64_MAX / 2)  /* a question from after everything */
#define UNUSED_PID 0x3fffffff /* above what a kernel gives */

/* A leader with a child and a grandchild, which has a second thread. Everything ends when the test
 * closes its end of `life`. */
struct pids {
	pid_t leader, child, grandchild, thread;
};

static struct fixture {
	struct actor_table *table;
	struct actor_reader *warden, *other; /* of the table; of its descriptor */
	int life[2];
	struct pids tree[TREES];
} f;

static void live(void)
{
	char c;

	close(f.life[1]);
	if (read(f.life[0], &c, 1) >= 0)
		_exit(0);
	_exit(1);
}

static void *live_in_thread(void *arg)
{
	struct pids *p = arg;
	const int to = p->thread;

	p->thread = gettid();
	if (write(to, p, sizeof(*p)) != sizeof(*p))
		_exit(1);
	live();
	return NULL;
}

/* In the leader: its children need no wait. */
static void grow(int to)
{
	struct pids p = {.leader = getpid(), .thread = to};
	pthread_t thread;

	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	p.child = fork();
	if (p.child != 0)
		live();
	p.child = getpid();
	p.grandchild = fork();
	if (p.grandchild != 0)
		live();
	p.grandchild = getpid();
	if (pthread_create(&thread, NULL, live_in_thread, &p) != 0)
		_exit(1);
	live();
}

static struct pids plant(void)
{
	struct pids p;
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		grow(ends[1]);
	close(ends[1]);
	assert_int_equal(fdio_read_full(ends[0], &p, sizeof(p)), sizeof(p));
	close(ends[0]);
	return p;
}

static int begin(void **state)
{
	struct err err = {0};

	alarm(TIMEOUT_S);
	f = (struct fixture){0};
	assert_int_equal(pipe2(f.life, O_CLOEXEC), 0);
	assert_int_equal(actor_table_open(&f.table, &err), 0);
	f.warden = actor_reader_new(f.table);
	assert_int_equal(actor_reader_open(actor_table_fd(f.table), &f.other, &err), 0);
	for (size_t i = 0; i < TREES; i++)
		f.tree[i] = plant();
	return 0;
}

static int end(void **state)
{
	close(f.life[1]);
	close(f.life[0]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	actor_reader_free(f.warden);
	actor_reader_free(f.other);
	actor_table_close(f.table);
	return 0;
}

static struct actor_leader leader_of(const struct pids *p)
{
	struct proc_origin origin;

	assert_int_equal(proc_origin(p->leader, &origin), 0);
	return (struct actor_leader){p->leader, origin.start};
}

/* Tree i leads cmd-N with spawn N. */
static void expect(size_t i, uint32_t n)
{
	const struct actor_leader leader = leader_of(&f.tree[i]);
	char id[16];

	snprintf(id, sizeof(id), "cmd-%u", n);
	actor_table_expect(f.table, n, &leader, id);
}

/* A time that no change of the table shares. */
static int64_t now(void)
{
	const int64_t before = clock_mono_us(&clock_system);
	int64_t t;

	while ((t = clock_mono_us(&clock_system)) <= before)
		;
	return t;
}

/* NULL: belongs to no command, or its command cannot be found. */
static void check(const struct actor_query *q, const char *command_id)
{
	const char *id = command_id != NULL ? command_id : "";
	struct actor a, b;

	assert_int_equal(actor_find(f.warden, q, &a), command_id != NULL);
	assert_string_equal(a.command_id, id);
	assert_int_equal(actor_find(f.other, q, &b), command_id != NULL);
	assert_string_equal(b.command_id, id);
	assert_int_equal(a.spawn, b.spawn);
	assert_int_equal(a.leader, b.leader);
}

/* Twice: by a walk, and as one that is known. */
static void check_pid(pid_t id, pid_t ppid, const char *command_id)
{
	const struct actor_query q = {.id = id, .ppid = ppid, .asked_us = now()};

	check(&q, command_id);
	check(&q, command_id);
}

static void check_tree(size_t i, const char *command_id)
{
	const struct pids *p = &f.tree[i];

	check_pid(p->child, 0, command_id);
	check_pid(p->child, p->leader, command_id);
	check_pid(p->grandchild, 0, command_id);
	check_pid(p->grandchild, p->child, command_id);
	check_pid(p->thread, 0, command_id);
}

/* Kills it, and returns when its pid is free. */
static void remove_process(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (waitpid(pid, NULL, 0) > 0 || kill(pid, 0) == 0)
		sched_yield();
}

/* EVT-1: one command alone has every operation that was asked for while it was alone. */
static void evt_1_one_command_alone_is_not_looked_up(void **state)
{
	int64_t t;

	check_pid(UNUSED_PID, 0, NULL);
	t = now();
	expect(0, 1);
	check(&(struct actor_query){.id = UNUSED_PID, .asked_us = t}, NULL);
	check_pid(UNUSED_PID, 0, "cmd-1");
	expect(1, 2);
	check_pid(UNUSED_PID, 0, NULL);
	t = now();
	actor_table_over(f.table, 2, false);
	check_pid(UNUSED_PID, 0, "cmd-1");
	/* A process of cmd-2 may have asked then, and is dead now. */
	check(&(struct actor_query){.id = UNUSED_PID, .asked_us = t}, NULL);
	check(&(struct actor_query){.id = f.tree[0].child, .asked_us = t}, "cmd-1");
}

/* EVT-1: and this costs no system call, in the warden and elsewhere: the kernel kills for one. */
static void evt_1_one_command_alone_costs_no_system_call(void **state)
{
	struct actor_reader *const readers[] = {f.warden, f.other};

	expect(0, 1);
	expect(1, 2);
	for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
		struct actor_query q = {.id = 77, .asked_us = now()};
		struct actor a;
		int status;
		pid_t pid;

		actor_find(readers[i], &q, &a);
		if (i == 0)
			actor_table_over(f.table, 2, false);
		else
			actor_table_over(f.table, 1, false), expect(1, 3);
		q.asked_us = now();
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
			syscall(SYS_exit, (long)actor_find(readers[i], &q, &a));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), true);
	}
}

/* EVT-1: of two commands each has its own processes, also those that its ended ones left. */
static void evt_1_processes_belong_to_the_command_of_their_leader(void **state)
{
	struct actor_query q = {.id = f.tree[1].thread, .asked_us = EVER, .process = true};
	struct actor a;

	expect(0, 1);
	expect(1, 2);
	check_tree(0, "cmd-1");
	check_tree(1, "cmd-2");
	assert_true(actor_find(f.other, &q, &a));
	assert_int_equal(a.pid, f.tree[1].grandchild);
	assert_int_equal(a.ppid, f.tree[1].child);
	assert_int_equal(a.leader, f.tree[1].leader);
	assert_int_equal(a.spawn, 2);
	check_pid(getpid(), 0, NULL);

	remove_process(f.tree[0].child);
	check_pid(f.tree[0].grandchild, 0, "cmd-1");
	check_pid(f.tree[0].thread, 0, "cmd-1");
	check_pid(f.tree[0].grandchild, f.tree[0].leader, "cmd-1");
	check_pid(f.tree[0].child, 0, NULL);
	check_tree(1, "cmd-2");
}

/* EVT-1: a leader takes the next command; what was asked before is not the next command's. */
static void evt_1_a_leader_that_is_used_again_has_another_command(void **state)
{
	int64_t t;

	expect(0, 1);
	expect(1, 2);
	check_tree(0, "cmd-1");
	t = now();
	actor_table_over(f.table, 1, false);
	expect(0, 3);
	check_tree(0, "cmd-3");
	check_tree(1, "cmd-2");
	check(&(struct actor_query){.id = f.tree[0].child, .asked_us = t}, NULL);
	check(&(struct actor_query){.id = f.tree[1].child, .asked_us = t}, "cmd-2");
}

/* EVT-1: while processes of a command that is over may live, being alone proves nothing. */
static void evt_1_orphans_belong_to_no_other_command(void **state)
{
	expect(0, 1);
	expect(1, 2);
	actor_table_over(f.table, 1, true);
	check_tree(0, NULL);
	check_tree(1, "cmd-2");
}

/* EVT-1: the initial process shows who its leader is, before the leader has sent a message. */
static void evt_1_the_initial_process_shows_its_leader(void **state)
{
	struct actor_leader leader = {0}, known = leader_of(&f.tree[0]);

	expect(1, 2);
	actor_table_expect(f.table, 1, &leader, "cmd-1");
	check_tree(0, NULL);
	assert_int_equal(actor_table_initial(f.table, 7, f.tree[0].child), f.tree[0].leader);
	check_tree(0, NULL);
	assert_int_equal(actor_table_initial(f.table, 1, f.tree[0].child), f.tree[0].leader);
	check_tree(0, "cmd-1");
	leader.pid = f.tree[0].leader;
	actor_table_started(f.table, 1, &leader);
	assert_int_equal(leader.start, known.start);
	check_tree(0, "cmd-1");
}

/* EVT-1: a leader that is gone is not mistaken for a process with its pid. */
static void evt_1_a_leader_with_another_start_time_is_another_process(void **state)
{
	struct actor_leader leader = leader_of(&f.tree[0]);

	expect(1, 2);
	leader.start--;
	actor_table_expect(f.table, 1, &leader, "cmd-1");
	check_tree(0, NULL);
	leader.start++;
	actor_table_started(f.table, 1, &leader);
	check_tree(0, "cmd-1");
}

/* Forks a process with this pid, which has a child; returns the child, or -1/errno. */
static pid_t fork_with_child(pid_t reuse)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&reuse, .set_tid_size = 1};
	int ends[2];
	pid_t pid = -1, parent;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	do /* the kernel frees a pid a little later than its process is gone */
		parent = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	while (parent < 0 && errno == EEXIST);
	if (parent == 0) {
		pid = fork();
		if (pid == 0)
			live();
		if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		live();
	}
	close(ends[1]);
	if (parent > 0)
		assert_int_equal(fdio_read_full(ends[0], &pid, sizeof(pid)), sizeof(pid));
	close(ends[0]);
	return pid;
}

/* EVT-1: a pid that another command's process gets next is that command's, also where the reader
 * has found the pid before, and a question from before finds nothing. Only root may choose a pid.
 */
static void evt_1_a_reused_pid_is_not_mistaken(void **state)
{
	const struct pids *p = &f.tree[0];
	const pid_t reused[] = {p->child, p->leader};
	struct proc_origin origin;

	/* The test itself is the leader of cmd-2. */
	assert_int_equal(proc_origin(getpid(), &origin), 0);
	actor_table_expect(f.table, 2, &(struct actor_leader){getpid(), origin.start}, "cmd-2");
	expect(0, 1);
	check_tree(0, "cmd-1");
	for (size_t i = 0; i < ARRAY_LEN(reused); i++) {
		const int64_t t = now();
		const int64_t tick = clock_boot_us(&clock_system) / 10000;
		pid_t child;

		remove_process(reused[i]);
		while (clock_boot_us(&clock_system) / 10000 == tick)
			sched_yield();
		child = fork_with_child(reused[i]);
		if (child < 0 && errno == EPERM)
			skip();
		assert_true(child > 0);
		check_pid(reused[i], 0, "cmd-2");
		check_pid(child, 0, "cmd-2");
		check_pid(child, reused[i], "cmd-2");
		check(&(struct actor_query){.id = reused[i], .asked_us = t}, NULL);
	}
}

/* EVT-1: processes of a command that is not in a full table belong to no other command. */
static void evt_1_a_full_table_is_not_guessed_from(void **state)
{
	const struct actor_query q = {.id = f.tree[1].grandchild, .asked_us = EVER};
	struct actor a;

	expect(0, 1);
	for (uint32_t n = 2; n <= ACTOR_ENTRIES; n++)
		actor_table_expect(f.table, n, &(struct actor_leader){0}, "cmd");
	expect(1, ACTOR_ENTRIES + 1);
	check_tree(0, "cmd-1");
	assert_false(actor_find(f.warden, &q, &a));
	assert_false(actor_find(f.other, &q, &a));
	assert_string_equal(a.command_id, "");
	actor_table_over(f.table, 5, false);
	expect(1, ACTOR_ENTRIES + 2);
	check_tree(0, "cmd-1");
	check_tree(1, "cmd-16386");
	/* one entry is left, but its command is not alone */
	for (uint32_t n = 2; n <= ACTOR_ENTRIES + 2; n++)
		if (n != ACTOR_ENTRIES + 1)
			actor_table_over(f.table, n, false);
	check_tree(0, "cmd-1");
	assert_false(actor_find(f.warden, &q, &a));
	assert_false(actor_find(f.other, &q, &a));
}

/* Command n alone: everything in its entry shows n. */
static void write_whole(uint32_t n)
{
	char id[ID_MAX + 1] = {0};

	memset(id, 'a' + (int)(n % 26), ID_MAX);
	actor_table_expect(f.table, n, &(struct actor_leader){(pid_t)n, n}, id);
	actor_table_over(f.table, n - 1, false);
}

static bool is_whole(const struct actor *a)
{
	for (size_t i = 0; i < ID_MAX; i++)
		if (a->command_id[i] != 'a' + (int)(a->spawn % 26))
			return false;
	return a->leader == (pid_t)a->spawn && a->command_id[ID_MAX] == '\0';
}

/* In a process of its own, until it is killed. With many readers there is always one that has to
 * copy what was changed. */
static _Noreturn void read_always(unsigned *found)
{
	const struct actor_query q = {.id = UNUSED_PID, .asked_us = EVER};
	struct actor_reader *readers[256];
	struct actor a;

	for (size_t i = 0; i < ARRAY_LEN(readers); i++)
		if (actor_reader_open(actor_table_fd(f.table), &readers[i], NULL) < 0)
			_exit(2);
	for (size_t i = 0;; i++) {
		if (!actor_find(readers[i % ARRAY_LEN(readers)], &q, &a))
			continue;
		if (!is_whole(&a))
			_exit(1);
		__atomic_add_fetch(found, 1, __ATOMIC_RELAXED);
	}
}

/* EVT-1: a reader sees whole entries only, also if the table changes while it is in a copy. */
static void evt_1_a_reader_sees_whole_entries(void **state)
{
	unsigned *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned before = 0;
	uint32_t n = 1;
	pid_t reader;

	assert_ptr_not_equal(found, MAP_FAILED);
	write_whole(n);
	reader = fork();
	if (reader == 0)
		read_always(found);
	while (n < 2000) {
		int status;

		while (__atomic_load_n(found, __ATOMIC_RELAXED) == before &&
		       waitpid(reader, &status, WNOHANG) == 0)
			sched_yield();
		kill(reader, SIGSTOP);
		assert_int_equal(waitpid(reader, &status, WUNTRACED), reader);
		assert_true(WIFSTOPPED(status));
		before = *found;
		write_whole(++n);
		kill(reader, SIGCONT);
	}
	remove_process(reader);
	munmap(found, sizeof(*found));
}

/* EVT-1: a table whose writer stopped in the middle sends the reader to the warden. */
static void evt_1_a_torn_table_is_not_guessed_from(void **state)
{
	const struct actor_query q = {.id = f.tree[0].child, .asked_us = EVER};
	bool found = true;
	struct actor a;
	pid_t writer;

	expect(0, 1);
	writer = fork();
	if (writer == 0)
		for (pid_t n = 1;; n++)
			actor_table_started(f.table, 1, &(struct actor_leader){n, 1});
	while (found) { /* one command, so that only a torn table keeps it */
		int status;

		kill(writer, SIGSTOP);
		assert_int_equal(waitpid(writer, &status, WUNTRACED), writer);
		assert_true(WIFSTOPPED(status));
		found = actor_find(f.other, &q, &a);
		kill(writer, SIGCONT);
	}
	assert_int_equal(a.spawn, 0);
	remove_process(writer);
}

/* EVT-1: other processes cannot write to the table, or change its size. */
static void evt_1_others_cannot_write(void **state)
{
	const int fd = actor_table_fd(f.table);
	char path[64];
	int again;
	void *p;

	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, EPERM);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
	munmap(p, 4096);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0);
	assert_int_equal(pwrite(again, "x", 1, 0), -1);
	close(again);
}

/* EVT-1: a descriptor that is something else is refused, and so is a reader whose pids are of
 * another namespace. */
static void evt_1_a_reader_must_fit_the_table(void **state)
{
	struct actor_reader *r = NULL;
	struct err err = {0};
	int fd = fdio_sealed("short", "x", 1), status;
	pid_t pid;

	assert_int_equal(actor_reader_open(fd, &r, &err), -E_BAD_REQUEST);
	close(fd);
	fd = memfd_create("unsealed", MFD_CLOEXEC);
	assert_int_equal(actor_reader_open(fd, &r, &err), -E_BAD_REQUEST);
	close(fd);
	assert_int_equal(actor_reader_open(-1, &r, &err), -E_BAD_REQUEST);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
			_exit(2);
		pid = fork();
		if (pid == 0)
			_exit(actor_reader_open(actor_table_fd(f.table), &r, &err) !=
				      -E_BAD_REQUEST ||
			      strstr(err.message, "PID namespace") == NULL);
		waitpid(pid, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(status, 0);
	assert_null(r);
}

/* EVT-1: every reader knows the threads of agentsh's own, and forgets one that has ended. */
static void evt_1_own_threads_are_known(void **state)
{
	assert_false(actor_reader_is_own(f.other, gettid()));
	assert_false(actor_reader_is_own(f.other, 0));
	actor_table_own(f.table, gettid());
	for (pid_t i = 1; i < ACTOR_OWN_MAX; i++)
		actor_table_own(f.table, UNUSED_PID + i);
	assert_true(actor_reader_is_own(f.other, gettid()));
	assert_true(actor_reader_is_own(f.warden, UNUSED_PID + ACTOR_OWN_MAX - 1));
	assert_false(actor_reader_is_own(f.other, UNUSED_PID));
	actor_table_disown(f.table, UNUSED_PID + 3);
	assert_false(actor_reader_is_own(f.other, UNUSED_PID + 3));
	assert_true(actor_reader_is_own(f.other, UNUSED_PID + 4));
	actor_table_own(f.table, UNUSED_PID); /* in the free place */
	assert_true(actor_reader_is_own(f.other, UNUSED_PID));
}

static struct file_grant grant_of(unsigned ops, const char *path, const char *to)
{
	struct file_grant g = {.ops = ops, .approval_id = "approval-1"};

	file_grant_name(&g, path, to);
	return g;
}

static bool is_granted(pid_t tid, unsigned ops, const char *path, const char *to)
{
	struct file_grant need = grant_of(ops, path, to);

	return actor_reader_granted(f.other, tid, &need);
}

/* FIL-3: a grant is good for its thread, operations and paths, until the thread gets the next one.
 */
static void fil_3_a_grant_is_for_one_thread_and_call(void **state)
{
	const struct file_grant g = grant_of(6, "/workspace/a", "/workspace/b"),
				next = grant_of(1, "/workspace/c", NULL);
	struct file_grant need;
	uint64_t serial;

	assert_false(is_granted(7, 6, "/workspace/a", "/workspace/b"));
	actor_table_grant(f.table, 7, &g);
	assert_true(is_granted(7, 6, "/workspace/a", "/workspace/b"));
	assert_true(is_granted(7, 2, "/workspace/a", "/workspace/b"));
	need = g;
	assert_true(actor_reader_granted(f.other, 7, &need));
	assert_string_equal(need.approval_id, "approval-1");
	serial = need.serial;
	assert_int_not_equal(serial, 0);
	actor_table_grant(f.table, 7, &g);
	assert_true(actor_reader_granted(f.other, 7, &need));
	assert_int_not_equal(need.serial, serial);
	assert_false(is_granted(8, 6, "/workspace/a", "/workspace/b"));
	assert_false(is_granted(7, 7, "/workspace/a", "/workspace/b"));
	assert_false(is_granted(7, 6, "/workspace/a", "/workspace/c"));
	assert_false(is_granted(7, 6, "/workspace/c", "/workspace/b"));
	assert_false(is_granted(7, 6, "/workspace/a", NULL));
	assert_false(is_granted(7, 6, "/workspace/a/", "workspace/b"));
	actor_table_grant(f.table, 7, &next);
	assert_true(is_granted(7, 1, "/workspace/c", NULL));
	assert_false(is_granted(7, 6, "/workspace/a", "/workspace/b"));
	actor_table_revoke(f.table, 7);
	assert_false(is_granted(7, 1, "/workspace/c", NULL));
}

static void fil_3_the_oldest_grant_goes(void **state)
{
	const struct file_grant g = grant_of(1, "/workspace/a", NULL);

	for (pid_t tid = 1; tid <= ACTOR_GRANTS; tid++)
		actor_table_grant(f.table, tid, &g);
	assert_true(is_granted(1, 1, "/workspace/a", NULL));
	actor_table_grant(f.table, ACTOR_GRANTS + 1, &g);
	assert_false(is_granted(1, 1, "/workspace/a", NULL));
	assert_true(is_granted(2, 1, "/workspace/a", NULL));
	assert_true(is_granted(ACTOR_GRANTS + 1, 1, "/workspace/a", NULL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(evt_1_one_command_alone_is_not_looked_up),
		TEST(evt_1_one_command_alone_costs_no_system_call),
		TEST(evt_1_processes_belong_to_the_command_of_their_leader),
		TEST(evt_1_a_leader_that_is_used_again_has_another_command),
		TEST(evt_1_orphans_belong_to_no_other_command),
		TEST(evt_1_the_initial_process_shows_its_leader),
		TEST(evt_1_a_leader_with_another_start_time_is_another_process),
		TEST(evt_1_a_reused_pid_is_not_mistaken),
		TEST(evt_1_a_full_table_is_not_guessed_from),
		TEST(evt_1_a_reader_sees_whole_entries),
		TEST(evt_1_a_torn_table_is_not_guessed_from),
		TEST(evt_1_others_cannot_write),
		TEST(evt_1_a_reader_must_fit_the_table),
		TEST(evt_1_own_threads_are_known),
		TEST(fil_3_a_grant_is_for_one_thread_and_call),
		TEST(fil_3_the_oldest_grant_goes),
	};

	return cmocka_run_group_tests_name("actor", tests, NULL, NULL);
}
