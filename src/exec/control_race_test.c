// SPDX-License-Identifier: Apache-2.0
/* Callers whose strings change under the decision. true and expr are files that no process
 * here can change, and names of one length; expr is denied, and its exit status without arguments
 * is 2. */
#include "exec/testkit/exec_testkit.h"
#include <stdatomic.h>

extern char **environ;

#define TRIES 100	 /* AGENTSH_RACE_TRIES in the environment: another number */
#define TRIES_MOST 20000 /* a busy machine may let one side win for long */
#define RAN 2		 /* expr's exit status */

struct flip {
	_Alignas(16) char path[16];
	char *argv[2];
	atomic_bool stop;
};
#define NAME_AT 9 /* behind /usr/bin/ */

static void flip_once(struct flip *f)
{
	memcpy(f->path + NAME_AT, f->path[NAME_AT] == 't' ? "expr" : "true", 4);
	__asm__ volatile("" ::: "memory");
}

static void *flip_thread(void *arg)
{
	struct flip *f = arg;

	while (!f->stop)
		flip_once(f);
	return NULL;
}

static int flip_process(void *arg)
{
	flip_thread(arg);
	return 0;
}

static void flip_init(struct flip *f)
{
	static char name[] = "x";

	strcpy(f->path, "/usr/bin/true");
	f->argv[0] = name;
	f->argv[1] = NULL;
	f->stop = false;
}

static _Noreturn void try_exec(struct flip *f)
{
	execve(f->path, f->argv, environ);
	_exit(KIT_NOT_RUN);
}

/* Each: the process that executes, and another one that flips. */
static void by_thread(struct flip *f)
{
	pthread_t t;

	if (pthread_create(&t, NULL, flip_thread, f) != 0)
		_exit(KIT_BROKEN);
	try_exec(f);
}

static void by_process(struct flip *f)
{
	static char stack[16384] __attribute__((aligned(16)));
	const pid_t pid = clone(flip_process, stack + sizeof(stack), CLONE_VM | SIGCHLD, f);

	if (pid == -1)
		_exit(KIT_BROKEN);
	execve(f->path, f->argv, environ);
	f->stop = true;
	_exit(KIT_NOT_RUN);
}

/* vfork: the parent's thread goes on while the parent sleeps. */
static void by_vfork_of_a_thread(struct flip *f)
{
	pthread_t t;
	pid_t pid;

	if (pthread_create(&t, NULL, flip_thread, f) != 0)
		_exit(KIT_BROKEN);
	pid = vfork();
	if (pid == 0)
		try_exec(f);
	_exit(kit_status(pid));
}

struct race {
	void (*start)(struct flip *f);
	bool shared; /* the strings lie in a shared mapping, and the guest flips them */
};

struct tally {
	int ran, fine, refused, killed, broken;
};

static void count(struct tally *t, int status)
{
	if (status == RAN)
		t->ran++;
	else if (status == 0)
		t->fine++;
	else if (status == KIT_NOT_RUN)
		t->refused++;
	else if (status == 128 + SIGKILL)
		t->killed++;
	else
		t->broken++;
}

/* Every way that a race may end has been seen. */
static bool has_all(const struct tally *t)
{
	return t->fine > 0 && t->refused > 0 && t->killed > 0;
}

/* In the guest: tries one after the other; a flipping process is ended with each. */
static int guest_race(void *arg)
{
	const struct race *race = arg;
	struct flip *f = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      (race->shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
	const char *wanted = getenv("AGENTSH_RACE_TRIES");
	const int tries = wanted != NULL ? atoi(wanted) : TRIES;
	struct tally t = {0};

	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (int i = 0; i < tries || (i < TRIES_MOST && !has_all(&t)); i++) {
		pid_t pid, other = -1;
		int status;

		flip_init(f);
		if (race->shared) {
			other = fork();
			if (other == 0)
				_exit(flip_process(f));
		}
		pid = fork();
		if (pid == 0) {
			setpgid(0, 0);
			race->start(f);
		}
		setpgid(pid, pid);
		status = kit_status(pid);
		kill(-pid, SIGKILL); /* who shared its memory */
		f->stop = true;
		if (other > 0)
			kit_status(other);
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
		count(&t, status);
	}
	return t.ran > 0 ? 1 : t.broken > 0 ? 2 : t.fine == 0 ? 3 : 0;
}

static void check(const struct race *race)
{
	assert_int_equal(kit_run(guest_race, (void *)(uintptr_t)race), 0);
	print_message("# %d killed, %d verified, %d refused\n", (int)kit.outcome[GATE_MISMATCHED],
		      (int)kit.outcome[GATE_DONE], (int)kit.outcome[GATE_REFUSED]);
	assert_true(kit.outcome[GATE_MISMATCHED] > 0);
	assert_true(kit.outcome[GATE_DONE] > 0);
	assert_true(kit.outcome[GATE_REFUSED] > 0);
	for (size_t i = 0; i < kit.nrecords; i++) {
		const struct kit_record *r = &kit.record[i];

		assert_string_equal(r->verified, r->outcome == GATE_REFUSED ? ""
						 : kit.by_kernel	    ? "bpf"
									    : "stop");
		if (r->outcome != GATE_MISMATCHED)
			continue;
		assert_int_equal(r->type, EVENT_policy_violation);
		assert_string_equal(r->path, "/usr/bin/true");
		assert_string_equal(r->loaded, "/usr/bin/expr");
	}
}

static void pol_4_a_thread_cannot_change_the_path(void **state)
{
	check(&(struct race){by_thread, false});
}

static void pol_4_a_process_with_the_same_memory_cannot(void **state)
{
	check(&(struct race){by_process, false});
}

static void pol_4_a_shared_mapping_cannot(void **state)
{
	check(&(struct race){try_exec, true});
}

static void pol_4_a_thread_of_the_vforking_parent_cannot(void **state)
{
	check(&(struct race){by_vfork_of_a_thread, false});
}

/* ---- many threads that execute at once ---- */

#define EXECUTING 4
#define STORM 120

static pthread_barrier_t together;

static void *execute_one(void *arg)
{
	char *const argv[] = {(char *)(uintptr_t)kit_path(arg), NULL};

	pthread_barrier_wait(&together);
	execv(argv[0], argv);
	return NULL;
}

static _Noreturn void be_many(void)
{
	static char names[EXECUTING + 1][5] = {"good", "evil", "good", "none", "good"};
	pthread_t t;

	pthread_barrier_init(&together, NULL, EXECUTING + 1);
	for (int i = 0; i < EXECUTING; i++)
		if (pthread_create(&t, NULL, execute_one, names[i]) != 0)
			_exit(KIT_BROKEN);
	execute_one(names[EXECUTING]);
	_exit(KIT_NOT_RUN);
}

/* In the guest: each is killed a bit later than the one before, and all must end. */
static int guest_storm(void *arg)
{
	for (int i = 0; i < STORM; i++) {
		const struct timespec later = {.tv_nsec = (i % 40) * 100000};
		const pid_t pid = fork();
		int status;

		if (pid == 0)
			be_many();
		nanosleep(&later, NULL);
		if (i % 3 != 0)
			kill(pid, SIGKILL);
		status = kit_status(pid);
		if (status != 0 && status != KIT_NOT_RUN && status != 128 + SIGKILL)
			return 1;
	}
	return 0;
}

/* POL-4: one of them takes the process over and the others die, traced or not: neither a
 * parent nor a thread waits for ever. */
static void pol_4_threads_that_execute_at_once_all_end(void **state)
{
	assert_int_equal(kit_run(guest_storm, NULL), 0);
	assert_true(kit.count[GATE_DONE] > 0);
	assert_true(kit.count[GATE_REFUSED] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_BOTH(pol_4_a_thread_cannot_change_the_path),
		KIT_BOTH(pol_4_a_process_with_the_same_memory_cannot),
		KIT_BOTH(pol_4_a_shared_mapping_cannot),
		KIT_BOTH(pol_4_a_thread_of_the_vforking_parent_cannot),
		KIT_BOTH(pol_4_threads_that_execute_at_once_all_end),
	};

	if (kit_become_user() < 0)
		return 1;
	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
