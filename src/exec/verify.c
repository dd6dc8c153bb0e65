// SPDX-License-Identifier: Apache-2.0
/* From the notification to the exec stop: a case is read, decided, let go under our eyes, compared.
 *
 * A case that is seized leaves the list only when its process was detached or reaped, so an empty
 * list means that this thread has no tracee. One thread of a process is seized at a time: an exec
 * waits until all other threads are gone, with a lock that seizing takes, and a traced one is gone
 * when we have reaped it. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define FIRST_EXEC_KEY 5 /* the last argument that a system call can have; execs have fewer */

static int64_t now_us(void)
{
	return clock_mono_us(&clock_system);
}

static const struct verdict cannot_read = {.decision = DECISION_deny,
					   .effective = DECISION_deny,
					   .rule = "exec-control",
					   .why = "the program or its arguments cannot be read",
					   .final = true};
static const struct verdict cannot_hold = {.decision = DECISION_deny,
					   .effective = DECISION_deny,
					   .rule = "exec-control",
					   .why = "the decision cannot be held",
					   .final = true};
const struct verdict verify_can_be_swapped = {
	.decision = DECISION_deny,
	.effective = DECISION_deny,
	.rule = "exec-control",
	.why = "ld.so would load a file that can be replaced after the decision",
	.final = true};

/* ---- the life of a case ---- */

void verify_forget(struct exec_control *c, struct exec_case *k)
{
	if (k->state == CASE_PARKED)
		c->nparked--;
	LIST_REMOVE(k, link);
	exec_case_free(k);
}

static struct exec_case *find_tid(struct exec_control *c, pid_t tid)
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
	listener_send(c->listener, k->id, errnum);
}

static void refuse(struct exec_control *c, struct exec_case *k, const struct verdict *why)
{
	if (why != NULL)
		k->verdict = *why;
	pthread_mutex_lock(&c->telling);
	answer(c, k, EACCES);
	record_case(c, k, EXEC_REFUSED, NULL);
	pthread_mutex_unlock(&c->telling);
	/* A caller that is seized stays with the list until a stop lets us detach. */
	if (!k->seized) {
		verify_forget(c, k);
		return;
	}
	k->state = CASE_LEFTOVER;
	k->interrupted = true;
	trace_interrupt(k->tid);
}

/* It has another image already: there is nothing to go back to. */
static void kill_case(struct exec_control *c, struct exec_case *k, enum exec_outcome outcome)
{
	char ran[4096];
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", k->tid);
	n = readlink(link, ran, sizeof(ran) - 1);
	ran[n > 0 ? n : 0] = '\0';
	kill(k->tid, SIGKILL);
	record_case(c, k, outcome, n > 0 ? ran : NULL);
	k->state = CASE_LEFTOVER;
	k->interrupted = true;
}

/* Dead, or about to be. */
static void keep_until_reaped(struct exec_case *k)
{
	k->state = CASE_LEFTOVER;
	k->seized = k->interrupted = true;
}

/* Lets the exec go, to be compared at its stop. */
static void let_go(struct exec_control *c, struct exec_case *k)
{
	/* What was seized before may be dead, and its id another's. */
	k->seized = k->seized && trace_has(k->tid);
	if (!k->seized && trace_seize(k->tid) != 0) {
		refuse(c, k, &cannot_hold);
		return;
	}
	k->seized = true;
	k->state = CASE_LOADING;
	k->interrupted = false;
	/* If the id was another's by now, the answer goes nowhere and the settling lets it run. */
	answer(c, k, 0);
}

void verify_apply(struct exec_control *c, struct exec_case *k)
{
	const struct verdict *v = &k->verdict;

	if (!verdict_allows(v))
		refuse(c, k, NULL);
	else if (verdict_redirects(v) &&
		 (v->target == NULL || exec_case_find_target(k, &c->programs) != 0))
		refuse(c, k, &cannot_hold);
	else if (!verdict_redirects(v) && k->image.swappable && !c->ops.loader_any)
		refuse(c, k, &verify_can_be_swapped);
	else
		let_go(c, k);
}

static void park(struct exec_control *c, struct exec_case *k, uint64_t pending)
{
	k->pidfd = proc_pidfd(k->req.pid);
	if (k->pidfd == -1 || c->nparked >= PARKED_MAX) {
		refuse(c, k, &cannot_hold);
		if (c->ops.gone != NULL)
			c->ops.gone(c->ops.arg, pending);
		return;
	}
	k->pending = pending;
	k->state = CASE_PARKED;
	c->nparked++;
}

/* It fails with what the kernel would say; nobody is told. */
static void let_fail(struct exec_control *c, struct exec_case *k, int errnum)
{
	answer(c, k, errnum);
	k->state = CASE_LEFTOVER;
	if (!k->seized)
		verify_forget(c, k);
	else
		k->interrupted = false; /* settled later: a search may go on */
}

/* If its caller is dead by now, what was read may be another's. */
static void decide(struct exec_control *c, struct exec_case *k)
{
	const uint64_t pending = c->ops.decide(c->ops.arg, &k->req, &k->verdict);

	if (!listener_valid(c->listener, k->id)) {
		if (pending != 0 && c->ops.gone != NULL)
			c->ops.gone(c->ops.arg, pending);
		let_fail(c, k, ESRCH);
	} else if (pending != 0) {
		park(c, k, pending);
	} else {
		verify_apply(c, k);
	}
}

/* The exec that the injected call makes: its program is looked up and compared like any other. */
static void on_injected(struct exec_control *c, struct exec_case *k, const struct seccomp_notif *n)
{
	k->id = n->id;
	if (exec_case_find_target(k, &c->programs) != 0) {
		listener_send(c->listener, n->id, EACCES);
		return;
	}
	k->state = CASE_LOADING;
	k->interrupted = false;
	k->let_go_us = now_us();
	listener_send(c->listener, n->id, 0);
}

/* A thread that asks again was not changed by its last exec: that failed. It stays seized. */
static bool take_seizure(struct exec_control *c, struct exec_case *k)
{
	bool seized;

	if (k == NULL)
		return false;
	if (k->state == CASE_LOADING || k->state == CASE_INJECTED)
		record_case(c, k, EXEC_FAILED, NULL);
	else if (k->state == CASE_PARKED && c->ops.gone != NULL)
		c->ops.gone(c->ops.arg, k->pending);
	seized = k->seized;
	verify_forget(c, k);
	return seized;
}

/* Whether another thread of the caller's process is seized. */
static bool has_seized_other(const struct exec_control *c, pid_t tid)
{
	struct proc_ids ids = {0};
	const struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link) {
		if (!k->seized || k->tid == tid)
			continue;
		if (ids.pid == 0 && proc_ids(tid, &ids) != 0)
			return false;
		if (k->req.pid == ids.pid)
			return true;
	}
	return false;
}

static void defer(struct exec_control *c, const struct seccomp_notif *n)
{
	struct deferred *d = mem_new(struct deferred);

	d->notif = *n;
	STAILQ_INSERT_TAIL(&c->deferred, d, link);
}

void verify_retry(struct exec_control *c)
{
	STAILQ_HEAD(, deferred) again = STAILQ_HEAD_INITIALIZER(again);
	struct deferred *d;

	STAILQ_CONCAT(&again, &c->deferred);
	while ((d = STAILQ_FIRST(&again)) != NULL) {
		STAILQ_REMOVE_HEAD(&again, link);
		if (listener_valid(c->listener, d->notif.id))
			verify_on_exec(c, &d->notif);
		free(d);
	}
}

void verify_on_exec(struct exec_control *c, const struct seccomp_notif *n)
{
	struct exec_case *k = find_tid(c, (pid_t)n->pid);
	bool seized;
	int r;

	if (k != NULL && k->state == CASE_INJECTED) {
		on_injected(c, k, n);
		return;
	}
	if (has_seized_other(c, (pid_t)n->pid)) {
		defer(c, n);
		return;
	}
	seized = take_seizure(c, k);
	if (c->ops.is_first_exec(c->ops.arg, (pid_t)n->pid, n->data.args[FIRST_EXEC_KEY])) {
		listener_send(c->listener, n->id, 0);
		return;
	}
	k = exec_case_new(n, now_us());
	k->seized = seized;
	LIST_INSERT_HEAD(&c->cases, k, link);
	r = exec_case_read(k, n, &c->programs);
	if (r == 0) {
		decide(c, k);
	} else if (r == EPERM && listener_valid(c->listener, n->id)) {
		refuse(c, k, &cannot_read);
	} else {
		if (c->ops.failed != NULL && listener_valid(c->listener, n->id))
			c->ops.failed(c->ops.arg, &k->req, r);
		let_fail(c, k, r);
	}
}

/* ---- stops ---- */

/* Stands for a tracee that no case knows, until it is reaped. */
static struct exec_case *leftover(struct exec_control *c, pid_t pid)
{
	struct exec_case *k =
		exec_case_new(&(struct seccomp_notif){.pid = (uint32_t)pid}, now_us());

	k->state = CASE_LEFTOVER;
	k->seized = k->interrupted = true;
	LIST_INSERT_HEAD(&c->cases, k, link);
	return k;
}

/* Between the image that was loaded and the one it is redirected to: signals act as they would on
 * any program, a failed execve ends in SIGILL. */
static void pass_on(pid_t tid, int status)
{
	const int sig = WSTOPSIG(status);

	if (status >> 16 == 0)
		ptrace(PTRACE_CONT, tid, NULL, (long)sig);
	else
		ptrace(sig == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, tid, NULL, NULL);
}

/* Its exec is over. left: it is not ours any more. */
static void let_leave(struct exec_control *c, struct exec_case *k, bool left,
		      enum exec_outcome outcome)
{
	record_case(c, k, outcome, NULL);
	if (left)
		verify_forget(c, k);
	else
		keep_until_reaped(k);
}

static void on_exec_stop(struct exec_control *c, pid_t pid)
{
	const pid_t old = trace_old_tid(pid);
	struct exec_case *k = find_tid(c, old), *gone = old != pid ? find_tid(c, pid) : NULL;
	const bool redirect = k != NULL && verdict_redirects(&k->verdict);

	if (gone != NULL) /* the group's first thread, whose id is taken over */
		take_seizure(c, gone);
	if (k == NULL)
		k = leftover(c, pid);
	k->tid = pid;
	if (k->state != CASE_LOADING) {
		kill(pid, SIGKILL); /* nobody let this one go */
		return;
	}
	if (redirect && !k->injected) {
		k->injected = true;
		k->state = CASE_INJECTED;
		if (trace_inject(pid, k->verdict.target, k->args.argc - 1) != 0)
			kill_case(c, k, EXEC_FAILED);
		return;
	}
	if (!trace_matches(pid, redirect ? &k->target : &k->image,
			   redirect ? k->verdict.target : k->args.v[0], &k->args)) {
		/* One that was killed meanwhile has nothing to compare. */
		kill_case(c, k, trace_is_stopped(pid) ? EXEC_MISMATCHED : EXEC_FAILED);
		return;
	}
	pthread_mutex_lock(&c->telling);
	let_leave(c, k, trace_detach(pid, 0), EXEC_VERIFIED);
	pthread_mutex_unlock(&c->telling);
}

/* Any other stop: the exec has failed, and its caller runs on. */
static void on_other_stop(struct exec_control *c, pid_t tid, int status)
{
	const bool plain = status >> 16 == 0; /* a signal is to be delivered */
	struct exec_case *k = find_tid(c, tid);
	bool left;

	if (k != NULL && k->injected && k->state != CASE_LEFTOVER) {
		pass_on(tid, status);
		return;
	}
	left = trace_detach(tid, plain ? WSTOPSIG(status) : 0);
	if (k == NULL && !left)
		leftover(c, tid);
	if (k == NULL)
		return;
	if (k->state == CASE_LOADING)
		let_leave(c, k, left, EXEC_FAILED);
	else if (k->state == CASE_LEFTOVER && left)
		verify_forget(c, k);
	else
		k->seized = !left;
}

void verify_reap(struct exec_control *c)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG)) > 0) {
		if (WIFSTOPPED(status)) {
			if (status >> 16 == PTRACE_EVENT_EXEC)
				on_exec_stop(c, pid);
			else
				on_other_stop(c, pid, status);
		} else {
			take_seizure(c, find_tid(c, pid));
		}
	}
}

void verify_settle(struct exec_control *c)
{
	const int64_t before = now_us() - SETTLE_MS * 1000;
	struct exec_case *k, *next;

	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		if (!k->seized || k->state == CASE_PARKED || k->let_go_us > before ||
		    trace_is_loading(k->tid))
			continue;
		if (!trace_has(k->tid)) {
			/* An exec gives its thread the process's id, and it may die by that one. */
			if (!trace_has(k->req.pid))
				take_seizure(c, k);
			continue;
		}
		if (!k->interrupted)
			trace_interrupt(k->tid);
		k->interrupted = true;
	}
}
