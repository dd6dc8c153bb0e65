// SPDX-License-Identifier: Apache-2.0
/* From the notification to the exec stop: an exec is read, decided and let go, and then compared by
 * the kernel (loading.c) or at its stop (stops.c). */
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000 /* Linux 6.14: asks, and executes nothing */
#endif

#define INITIAL_EXEC_KEY 5 /* the last argument that a system call can have; execs have fewer */

static int64_t now_us(void)
{
	return clock_mono_us(&clock_system);
}

/* ---- the life of a case ---- */

struct exec_case *exec_case_new(struct exec_control *c, const struct seccomp_notif *n,
				enum case_state state)
{
	struct exec_case *k = mem_new(struct exec_case);

	k->control = c;
	k->state = state;
	k->notif = *n;
	k->tid = k->pid = (pid_t)n->pid;
	k->pidfd = -1;
	k->began_us = now_us();
	k->image.fd = k->target.fd = -1;
	k->image.op = (struct op){.class = OP_EXEC, .exec = {.path = ""}};
	k->gate.op = &k->image.op;
	return k;
}

struct exec_case *exec_case_add(struct exec_control *c, const struct seccomp_notif *n,
				enum case_state state)
{
	struct exec_case *k = exec_case_new(c, n, state);

	LIST_INSERT_HEAD(&c->cases, k, link);
	return k;
}

void exec_case_free(struct exec_control *c, struct exec_case *k)
{
	gate_gone(c->setup.gate, &k->gate);
	LIST_REMOVE(k, link);
	exec_case_dispose(k);
}

void exec_case_dispose(struct exec_case *k)
{
	walks_drop(k);
	mem_cleanup_fd(&k->pidfd);
	args_done(&k->args);
	image_done(&k->image);
	image_done(&k->target);
	free(k->path);
	free(k->cwd);
	free(k);
}

void exec_case_give_up(struct exec_control *c, struct exec_case *k)
{
	if (k == NULL)
		return;
	if (k->state == CASE_LOADING || k->state == CASE_INJECTED)
		commands_record(c, k, GATE_FAILED);
	exec_case_free(c, k);
}

struct exec_case *exec_case_find(struct exec_control *c, pid_t tid)
{
	struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link)
		if (k->tid == tid)
			return k;
	return NULL;
}

static void answer(struct exec_control *c, struct exec_case *k, int errnum)
{
	k->let_go_us = now_us();
	k->latency_us = (uint64_t)(k->let_go_us - k->began_us);
	listener_send(c->listener, k->notif.id, errnum);
}

/* why: GATE_WHY_POLICY, or why the gate refuses what the policy may allow. */
static void refuse(struct exec_control *c, struct exec_case *k, enum gate_why why)
{
	gate_gone(c->setup.gate, &k->gate);
	if (why != GATE_WHY_POLICY)
		gate_refuse(&k->gate, why);
	pthread_mutex_lock(&c->telling);
	answer(c, k, EACCES);
	commands_record(c, k, GATE_REFUSED);
	pthread_mutex_unlock(&c->telling);
	/* A caller that is seized stays with the list until a stop lets us detach. */
	if (!k->seized) {
		exec_case_free(c, k);
		return;
	}
	stops_release(k);
}

/* Whether the kernel can compare what the exec loads. Not if its program is redirected to another
 * one, if we have only a hash of all its arguments, or if it is traced already. */
static bool kernel_compares(struct exec_control *c, const struct exec_case *k)
{
	int r;

	if (atomic_load(&c->lost) != 0 || k->seized || k->args.cut || !k->image.comparable ||
	    verdict_redirects(&k->gate.verdict))
		return false;
	r = exec_wants_check(c->setup.wants);
	if (r < 0)
		atomic_store(&c->lost, -r);
	return r == 0;
}

/* Lets the exec go, to be compared by the kernel. 0 or a negative errno. With `telling`. */
static int let_go_checked(struct exec_control *c, struct exec_case *k)
{
	int r = loading_add(c, k);

	if (r < 0)
		return r;
	k->by_kernel = true;
	k->state = CASE_LOADING;
	k->let_go_us = now_us();
	k->latency_us = (uint64_t)(k->let_go_us - k->began_us);
	commands_settle(c, k, GATE_DONE);
	listener_send(c->listener, k->notif.id, 0);
	return 0;
}

/* The map is full. True: the exec waits until others are over, but not for ever. */
static bool wait_for_room(struct exec_control *c, struct exec_case *k)
{
	if (k->full_us == 0)
		k->full_us = now_us();
	/* The next ones do not wait for one that is refused. */
	if (now_us() - k->full_us >= ROOM_MS * 1000)
		return false;
	c->full = true;
	return true;
}

/* Tells the kernel's exec check what it has to expect. True: the exec is to be compared at its
 * stop. False: it has gone on, waits or was refused. */
static bool tell_kernel(struct exec_control *c, struct exec_case *k)
{
	const bool compares = kernel_compares(c, k);
	int r;

	pthread_mutex_lock(&c->telling);
	if (stops_seized_other(c, k->tid) || !loading_is_free(c, k))
		r = -EBUSY;
	else if (c->full && k->full_us == 0)
		r = -E2BIG;
	else if (compares)
		r = let_go_checked(c, k);
	else
		r = loading_pass(c, k->pid, true) ? 0 : -E2BIG;
	pthread_mutex_unlock(&c->telling);
	if (r == -EBUSY)
		k->full_us = 0;
	if (r == -EBUSY || (r == -E2BIG && wait_for_room(c, k)))
		k->state = CASE_DECIDED;
	else if (r < 0)
		refuse(c, k, GATE_WHY_LOADING);
	return r == 0 && !compares;
}

/* Lets the exec go, to be compared by the kernel or at its stop. */
static void let_go(struct exec_control *c, struct exec_case *k)
{
	if (c->setup.wants != NULL && !tell_kernel(c, k))
		return;
	if (!stops_seize(k)) {
		refuse(c, k, GATE_WHY_UNVERIFIABLE);
		return;
	}
	k->state = CASE_LOADING;
	k->interrupted = false;
	/* If the id belongs to another thread by now, stops_settle lets that thread run. */
	answer(c, k, 0);
}

/* r: of finding the target. */
static void redirect(struct exec_control *c, struct exec_case *k, int r)
{
	if (r == EXEC_FAR && walks_start(c, k, true))
		return;
	if (r == 0)
		let_go(c, k);
	else
		refuse(c, k, r == EXEC_FAR ? GATE_WHY_NO_ANSWER : GATE_WHY_UNVERIFIABLE);
}

static void apply(struct exec_control *c, struct exec_case *k)
{
	const struct verdict *v = &k->gate.verdict;

	if (!verdict_allows(v))
		refuse(c, k, GATE_WHY_POLICY);
	else if (verdict_redirects(v))
		redirect(c, k, v->target != NULL ? exec_case_find_target(k, c->programs) : ENOENT);
	else if (k->image.swappable && !c->loader_any)
		refuse(c, k, GATE_WHY_REPLACEABLE);
	else
		let_go(c, k);
}

static void on_answer(struct gate_case *gate, void *arg)
{
	struct exec_case *k = arg;

	k->state = CASE_READ;
	apply(k->control, k);
}

/* The exec fails with the kernel's errno. It has no event. */
static void let_fail(struct exec_control *c, struct exec_case *k, int errnum)
{
	answer(c, k, errnum);
	gate_gone(c->setup.gate, &k->gate);
	k->state = CASE_LEFTOVER;
	if (!k->seized)
		exec_case_free(c, k);
	else
		k->interrupted = false; /* settled later: a search may go on */
}

/* While the caller waits: once it goes on, those above it may end. */
static void find_actor(struct exec_control *c, struct exec_case *k)
{
	const struct actor_query q = {.id = k->pid, .ppid = k->ppid, .asked_us = k->began_us};

	actor_find(c->actors, &q, &k->gate.actor);
	k->gate.actor.pid = k->pid;
	k->gate.actor.ppid = k->ppid;
}

static void decide(struct exec_control *c, struct exec_case *k)
{
	const struct gate_waiter waiter = {&c->asker, on_answer, k};
	const struct op *op = k->gate.op;

	k->helper = strcmp(op->exec.path, c->setup.helper) == 0 && op->exec.script == NULL &&
		    op->exec.flags == 0;
	find_actor(c, k);
	if (k->helper)
		k->gate.verdict = (struct verdict){.decision = DECISION_allow,
						   .effective = DECISION_allow,
						   .rule = "exec-control"};
	else
		gate_ask(c->setup.gate, &k->gate, &waiter);
	/* If its caller is dead by now, the memory that was read may be another process's. */
	if (!listener_valid(c->listener, k->notif.id)) {
		let_fail(c, k, ESRCH);
	} else if (k->gate.id == 0) {
		apply(c, k);
	} else {
		k->state = CASE_PARKED;
		k->pidfd = proc_pidfd(k->pid);
		if (k->pidfd == -1)
			refuse(c, k, GATE_WHY_UNVERIFIABLE);
	}
}

/* Lets an exec go that the kernel does not compare. */
static void let_pass(struct exec_control *c, pid_t pid, uint64_t id, bool traced)
{
	bool room;

	pthread_mutex_lock(&c->telling);
	room = loading_pass(c, pid, traced);
	pthread_mutex_unlock(&c->telling);
	listener_send(c->listener, id, room ? 0 : EACCES);
}

/* r: of exec_case_read. */
static void take_read(struct exec_control *c, struct exec_case *k, int r)
{
	if (r == EXEC_FAR && walks_start(c, k, false))
		return;
	if (r == 0) {
		decide(c, k);
	} else if (!listener_valid(c->listener, k->notif.id)) {
		let_fail(c, k, r);
	} else {
		find_actor(c, k);
		if (r == EPERM || r == EXEC_FAR) {
			refuse(c, k, r == EPERM ? GATE_WHY_UNREADABLE : GATE_WHY_NO_ANSWER);
		} else {
			commands_note_failure(c, k, r);
			let_fail(c, k, r);
		}
	}
}

static void verify_exec(struct exec_control *c, const struct seccomp_notif *n)
{
	struct exec_case *k = exec_case_find(c, (pid_t)n->pid);
	bool seized;
	int r;

	if (k != NULL && k->state == CASE_INJECTED) {
		/* The injected call executes the target, which is compared like any program. */
		k->notif.id = n->id;
		r = exec_case_find_target(k, c->programs);
		if (r != 0 && r != EXEC_FAR) { /* else it was found before the first stop */
			listener_send(c->listener, n->id, EACCES);
			return;
		}
		k->state = CASE_LOADING;
		k->interrupted = false;
		k->let_go_us = now_us();
		let_pass(c, k->pid, n->id, true);
		return;
	}
	if (stops_seized_other(c, (pid_t)n->pid)) {
		exec_case_add(c, n, CASE_DEFERRED);
		return;
	}
	/* A thread that asks again was not changed by its last exec, and stays seized. But the
	 * seized one may be dead, and its id may belong to another thread. */
	seized = k != NULL && k->seized && trace_has(k->tid);
	exec_case_give_up(c, k);
	if (commands_begin(c, (pid_t)n->pid, n->data.args[INITIAL_EXEC_KEY])) {
		let_pass(c, (pid_t)n->pid, n->id, false);
		return;
	}
	k = exec_case_add(c, n, CASE_READ);
	k->seized = seized;
	take_read(c, k, exec_case_read(k, c->programs));
}

/* A walk is over, or has had its time. */
static void look_at_walks(struct exec_control *c)
{
	const int64_t late_us = now_us() - WALK_MS * 1000;
	struct exec_case *k, *next;
	bool target;
	int r;

	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		if (k->state != CASE_WALKING)
			continue;
		if (!walks_take(c, k, &r, &target)) {
			if (k->walk_us > late_us)
				continue;
			find_actor(c, k);
			refuse(c, k, GATE_WHY_NO_ANSWER);
		} else if (!target) {
			k->state = CASE_READ;
			take_read(c, k, r);
		} else {
			k->state = CASE_READ;
			redirect(c, k, r);
		}
	}
}

/* Lets go the execs that waited for room, the oldest first, until the map is full again. */
static void retry_full(struct exec_control *c)
{
	struct exec_case *k, *oldest;

	c->full = false;
	do {
		oldest = NULL;
		LIST_FOREACH (k, &c->cases, link) /* new ones are at its head */
			if (k->state == CASE_DECIDED && k->full_us != 0)
				oldest = k;
		if (oldest != NULL)
			let_go(c, oldest);
	} while (oldest != NULL && !c->full);
}

/* Looks again at the execs that were deferred, the oldest first. They leave the list of cases
 * before, because an exec ends any other case of its thread id. */
static void retry_deferred(struct exec_control *c)
{
	LIST_HEAD(, exec_case) again = LIST_HEAD_INITIALIZER(again);
	struct exec_case *k, *next;

	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		if (k->state == CASE_DECIDED && !listener_valid(c->listener, k->notif.id))
			exec_case_free(c, k);
		else if (k->state == CASE_DECIDED && k->full_us == 0)
			let_go(c, k);
		else if (k->state == CASE_DEFERRED) {
			LIST_REMOVE(k, link);
			LIST_INSERT_HEAD(&again, k, link);
		}
	}
	while ((k = LIST_FIRST(&again)) != NULL) {
		const struct seccomp_notif n = k->notif;

		exec_case_free(c, k);
		if (listener_valid(c->listener, n.id))
			verify_exec(c, &n);
	}
	retry_full(c);
}

/* ---- as the listener's handler ---- */

static void on_exec(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	struct exec_control *c = arg;

	if (c->listener == NULL) /* it stays the same; other threads see it with a waiting exec */
		c->listener = l;
	if (n->data.nr == SYS_execveat && (n->data.args[4] & AT_EXECVE_CHECK) != 0)
		listener_send(l, n->id, 0);
	else
		verify_exec(c, n);
}

static size_t under_way(void *arg, struct pollfd *p, size_t room, int *timeout_ms)
{
	struct exec_control *c = arg;
	struct exec_case *k;
	size_t n = 0;

	if (LIST_EMPTY(&c->cases))
		return 0;
	p[n++] = (struct pollfd){c->child_fd, POLLIN, 0};
	LIST_FOREACH (k, &c->cases, link) {
		if (k->state == CASE_PARKED && n < room)
			p[n++] = (struct pollfd){k->pidfd, POLLIN, 0};
		if (k->seized || k->state == CASE_DEFERRED || k->state == CASE_DECIDED ||
		    k->state == CASE_WALKING)
			*timeout_ms = SETTLE_MS;
	}
	return n;
}

static void turn(struct listener *l, void *arg)
{
	struct exec_control *c = arg;
	struct signalfd_siginfo info[2]; /* the thread's and the process's */
	struct exec_case *k, *next;

	if (read(c->child_fd, info, sizeof(info)) < 0)
		ensure(errno == EAGAIN);
	stops_reap(c);
	gate_resume(c->setup.gate, &c->asker);
	look_at_walks(c);
	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		struct pollfd p = {k->pidfd, POLLIN, 0};

		next = LIST_NEXT(k, link);
		if (k->state != CASE_PARKED || poll(&p, 1, 0) <= 0)
			continue;
		/* The caller died while it waited. */
		gate_gone(c->setup.gate, &k->gate);
		commands_record(c, k, GATE_FAILED);
		k->state = CASE_LEFTOVER; /* until it is reaped, if it is seized */
		if (!k->seized)
			exec_case_free(c, k);
	}
	stops_settle(c);
	retry_deferred(c);
}

static void begin(void *arg)
{
	const struct exec_control *c = arg;

	actor_table_own(c->setup.actors, gettid());
}

static void end(void *arg)
{
	struct exec_control *c = arg;
	struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link) {
		gate_gone(c->setup.gate, &k->gate);
		walks_drop(k); /* it would wake the listener */
	}
	actor_table_disown(c->setup.actors, gettid());
}

struct listener_handler exec_control_handler(struct exec_control *c)
{
	static const int calls[] = {SYS_execve, SYS_execveat};

	return (struct listener_handler){
		calls, ARRAY_LEN(calls), begin, on_exec, under_way, turn, end, c};
}

/* ---- the face ---- */

static void wake(void *arg)
{
	listener_wake(((struct exec_control *)arg)->listener);
}

int exec_control_open(const struct exec_setup *s, struct exec_control **out, struct err *err)
{
	struct exec_control *c = mem_new(struct exec_control);
	sigset_t child;
	int r;

	c->setup = *s;
	c->loader_any = exec_loads_any(gate_policy(s->gate), s->names);
	c->actors = actor_reader_new(s->actors);
	c->asker = (struct gate_asker){wake, c};
	c->programs = exec_looker_new(s->root, s->names);
	if (s->walker != NULL)
		exec_looker_stay_near(c->programs);
	LIST_INIT(&c->cases);
	LIST_INIT(&c->loading);
	c->programs->for_kernel = s->wants != NULL;
	LIST_INIT(&c->commands);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->telling, NULL);
	/* A thread that does not block SIGCHLD would consume it before the descriptor. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	c->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->child_fd == -1) {
		r = err_errno(err, E_ENFORCEMENT, "exec_policy",
			      "no descriptor can be had for the listener thread (raise "
			      "RLIMIT_NOFILE)");
	} else {
		errno = trace_available();
		r = errno == 0 ? 0
			       : err_errno(err, E_ENFORCEMENT, "exec_policy",
					   "processes cannot be traced (let the container use "
					   "ptrace, lower kernel.yama.ptrace_scope, or list "
					   "exec_policy in sandbox.allow_unenforced)");
	}
	if (r < 0)
		exec_control_close(c);
	else
		*out = c;
	return r;
}

void exec_control_close(struct exec_control *c)
{
	if (c == NULL)
		return;
	while (!LIST_EMPTY(&c->cases))
		exec_case_free(c, LIST_FIRST(&c->cases));
	loading_look(c);
	while (!LIST_EMPTY(&c->loading))
		exec_case_free(c, LIST_FIRST(&c->loading));
	commands_free(c);
	actor_reader_free(c->actors);
	exec_looker_free(c->programs);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->telling);
	mem_cleanup_fd(&c->child_fd);
	free(c);
}

int exec_control_lost(const struct exec_control *c)
{
	return atomic_load(&c->lost);
}

size_t exec_control_look(struct exec_control *c)
{
	size_t n;

	pthread_mutex_lock(&c->telling);
	loading_look(c);
	n = c->nloading;
	pthread_mutex_unlock(&c->telling);
	return n;
}

uint64_t exec_control_count(struct exec_control *c, enum gate_outcome outcome)
{
	exec_control_look(c);
	return atomic_load_explicit(&c->count[outcome], memory_order_relaxed);
}
