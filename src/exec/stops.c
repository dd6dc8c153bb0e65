// SPDX-License-Identifier: Apache-2.0
/* Execs that are compared at their exec stop: their threads are seized, stop, and are detached.
 *
 * A case that is seized leaves the list only when its process was detached or reaped, so an empty
 * list means that this thread has no tracee. One thread of a process is seized at a time: an exec
 * waits until all other threads are gone, with a lock that seizing takes, and a traced one is gone
 * when we have reaped it. */
#include "base/clock.h"
#include "base/proc.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

bool stops_seized_other(const struct exec_control *c, pid_t tid)
{
	struct proc_ids ids = {0};
	const struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link) {
		if (!k->seized || k->tid == tid)
			continue;
		if (ids.pid == 0 && proc_ids(tid, &ids) != 0)
			return false;
		if (k->pid == ids.pid)
			return true;
	}
	return false;
}

bool stops_seize(struct exec_case *k)
{
	/* From now on an exec stops the thread, and the kernel kills it when we end. */
	const long options = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;

	if (!k->seized && ptrace(PTRACE_SEIZE, k->tid, NULL, options) == -1)
		return false;
	k->seized = true;
	return true;
}

void stops_release(struct exec_case *k)
{
	k->state = CASE_LEFTOVER;
	k->interrupted = true;
	ptrace(PTRACE_INTERRUPT, k->tid, NULL, NULL);
}

/* A case for a tracee without one, until it is reaped. */
static struct exec_case *leftover(struct exec_control *c, pid_t pid)
{
	const struct seccomp_notif none = {.pid = (uint32_t)pid};
	struct exec_case *k = exec_case_add(c, &none, CASE_LEFTOVER);

	k->seized = k->interrupted = true;
	return k;
}

/* False: SIGKILL has ended its stop, and it stays our tracee until it is reaped. */
static bool detach(pid_t tid, int sig)
{
	return ptrace(PTRACE_DETACH, tid, NULL, (long)sig) == 0;
}

/* Its exec is over. left: it is detached. */
static void let_leave(struct exec_control *c, struct exec_case *k, bool left,
		      enum gate_outcome outcome)
{
	commands_record(c, k, outcome);
	if (left) {
		exec_case_free(c, k);
	} else { /* dead, or about to be */
		k->state = CASE_LEFTOVER;
		k->seized = k->interrupted = true;
	}
}

/* Kills a process that has its new image already and cannot go back. */
static void kill_case(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome)
{
	kill(k->tid, SIGKILL);
	commands_record(c, k, outcome);
	k->state = CASE_LEFTOVER;
	k->interrupted = true;
}

static void on_exec_stop(struct exec_control *c, pid_t pid)
{
	unsigned long old = 0; /* the thread id that the caller had before */
	enum trace_match match;
	struct exec_case *k;
	bool redirect;

	if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &old) == -1 || old == 0)
		old = (unsigned long)pid;
	k = exec_case_find(c, (pid_t)old);
	redirect = k != NULL && verdict_redirects(&k->gate.verdict);
	if ((pid_t)old != pid) /* the group's first thread; the caller takes over its id */
		exec_case_give_up(c, exec_case_find(c, pid));
	if (k == NULL)
		k = leftover(c, pid);
	k->tid = pid;
	if (k->state != CASE_LOADING) {
		kill(pid, SIGKILL); /* this exec was not let go */
		return;
	}
	if (redirect && !k->injected) {
		k->injected = true;
		k->state = CASE_INJECTED;
		if (trace_inject(pid, k->gate.verdict.target, k->args.argc - 1) != 0)
			kill_case(c, k, GATE_FAILED);
		return;
	}
	match = trace_compare(pid, redirect ? &k->target : &k->image,
			      redirect ? k->gate.verdict.target : k->args.v[0], &k->args);
	if (match != TRACE_SAME) {
		char loaded[PATH_MAX];
		const bool named = caller_link(pid, "exe", loaded) == 0;

		k->loaded = named ? loaded : NULL;
		k->same_program = match == TRACE_OTHER_ARGS;
		/* One that was killed meanwhile has no stop, and nothing to compare. */
		kill_case(c, k,
			  ptrace(PTRACE_GETEVENTMSG, pid, NULL, &old) == 0 ? GATE_MISMATCHED
									   : GATE_FAILED);
		return;
	}
	pthread_mutex_lock(&c->telling);
	let_leave(c, k, detach(pid, 0), GATE_DONE);
	pthread_mutex_unlock(&c->telling);
}

/* Any other stop: the exec has failed, and its caller runs on. */
static void on_other_stop(struct exec_control *c, pid_t tid, int status)
{
	const bool plain = status >> 16 == 0; /* a signal is to be delivered */
	struct exec_case *k = exec_case_find(c, tid);
	bool left;

	if (k != NULL && k->injected && k->state != CASE_LEFTOVER) {
		/* Between the loaded image and the one that it is redirected to, signals act as on
		 * any program, and a failed execve ends in SIGILL. */
		if (plain)
			ptrace(PTRACE_CONT, tid, NULL, (long)WSTOPSIG(status));
		else
			ptrace(WSTOPSIG(status) == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, tid, NULL,
			       NULL);
		return;
	}
	left = detach(tid, plain ? WSTOPSIG(status) : 0);
	if (k == NULL && !left)
		leftover(c, tid);
	if (k == NULL)
		return;
	if (k->state == CASE_LOADING)
		let_leave(c, k, left, GATE_FAILED);
	else if (k->state == CASE_LEFTOVER && left)
		exec_case_free(c, k);
	else
		k->seized = !left;
}

void stops_reap(struct exec_control *c)
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
			exec_case_give_up(c, exec_case_find(c, pid));
		}
	}
}

void stops_settle(struct exec_control *c)
{
	const int64_t before = clock_mono_us(&clock_system) - SETTLE_MS * 1000;
	struct exec_case *k, *next;

	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		if (!k->seized || k->state == CASE_PARKED || k->let_go_us > before ||
		    trace_where(k->tid) == TRACE_LOADING)
			continue;
		if (!trace_has(k->tid)) {
			/* An exec gives its thread the process's id, and it may die by that one. */
			if (!trace_has(k->pid))
				exec_case_give_up(c, k);
			continue;
		}
		if (!k->interrupted)
			ptrace(PTRACE_INTERRUPT, k->tid, NULL, NULL);
		k->interrupted = true;
	}
}
