// SPDX-License-Identifier: Apache-2.0
/* Execs that the kernel checks. An exec is recorded when it is let go, because nothing tells the
 * warden of a success. Its case is kept until the kernel's counters or its own entry of the map
 * show what became of it: a mismatch is then recorded with all that was decided.
 *
 * The listener's thread adds cases; it and the loop's thread look at them, with `telling` held. */
#include "base/clock.h"
#include "base/mem.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"
#include <errno.h>
#include <stdio.h>

#define LOOK_AT 32	     /* cases after which the next exec looks at them */
#define RESERVED 32	     /* entries of the map for other execs than those of cases */
#define RUNNING_MOST_MS 1000 /* a thread that never sleeps for so long is not inside execve */

static void count(struct exec_control *c, enum gate_outcome outcome, uint64_t n)
{
	atomic_fetch_add_explicit(&c->count[outcome], n, memory_order_relaxed);
}

/* Whether the exec can still be under way. An exec gives its thread the process's id. */
static bool may_be_loading(const struct exec_case *k)
{
	return trace_where(k->tid) != TRACE_ELSEWHERE ||
	       (k->pid != k->tid && trace_where(k->pid) != TRACE_ELSEWHERE);
}

static void record_mismatch(struct exec_control *c, struct exec_case *k,
			    const struct exec_want *want)
{
	char loaded[EXEC_PATH_MAX + 1];

	snprintf(loaded, sizeof(loaded), "%.*s", EXEC_PATH_MAX, want->loaded_path);
	k->loaded = loaded;
	k->same_program = want->state == EXEC_MISMATCHED && want->decided.ino == want->loaded.ino &&
			  want->decided.dev == want->loaded.dev;
	commands_record(c, k, GATE_MISMATCHED);
	k->loaded = NULL;
	c->mismatches++;
}

/* True: the exec is over, and its case is gone. left: its thread is not inside execve any more. */
static bool settle(struct exec_control *c, struct exec_case *k, bool left)
{
	const pid_t pid = k->pid;
	struct exec_want want;
	enum gate_outcome outcome = GATE_DONE;
	const int r = exec_wants_get(c->setup.wants, pid, &want);

	if (r < 0 && r != -ENOENT)
		return false;
	if (r == 0 && want.state == EXEC_COMPARE) {
		if (!left && may_be_loading(k))
			return false;
		if (exec_wants_drop(c->setup.wants, pid))
			outcome = GATE_FAILED;
	} else if (r == 0 && want.state == EXEC_MISMATCHED) {
		outcome = GATE_MISMATCHED;
		record_mismatch(c, k, &want);
		exec_wants_drop(c->setup.wants, pid);
	} else if (r == 0) { /* the process is dead, and a later one has its id */
		outcome = GATE_FAILED;
	}
	if (outcome == GATE_DONE)
		c->done_before++;
	if (outcome != GATE_MISMATCHED)
		count(c, outcome, 1);
	c->nloading--;
	exec_case_free(c, k);
	return true;
}

/* The kernel has killed a process because its exec was never let go; 0: not known which. */
static void record_stranger(struct exec_control *c, pid_t pid, const struct exec_want *want)
{
	struct exec_case *k =
		exec_case_new(c, &(struct seccomp_notif){.pid = (uint32_t)pid}, CASE_LEFTOVER);

	LIST_INSERT_HEAD(&c->loading, k, link);
	k->by_kernel = true;
	gate_refuse(&k->gate, GATE_WHY_UNVERIFIABLE);
	record_mismatch(c, k, want);
	exec_case_free(c, k);
}

static void record_strangers(struct exec_control *c)
{
	struct exec_want want;
	pid_t pid = 0;

	while (exec_wants_next(c->setup.wants, &pid, &want)) {
		struct exec_case *k;

		if (want.state != EXEC_MISMATCHED)
			continue;
		LIST_FOREACH (k, &c->loading, link)
			if (k->pid == pid)
				break;
		if (k != NULL)
			continue;
		record_stranger(c, pid, &want);
		exec_wants_drop(c->setup.wants, pid);
		pid = 0; /* the walk begins again: the key is gone */
	}
}

void loading_look(struct exec_control *c)
{
	struct exec_case *k, *next;
	struct exec_record now;

	if (c->setup.wants == NULL || exec_wants_record(c->setup.wants, &now) < 0)
		return;
	if (now.done == c->done_before + c->nloading && now.mismatched == c->mismatches) {
		count(c, GATE_DONE, c->nloading);
		c->done_before += c->nloading;
		c->nloading = 0;
		while ((k = LIST_FIRST(&c->loading)) != NULL)
			exec_case_free(c, k);
		return;
	}
	for (k = LIST_FIRST(&c->loading); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		settle(c, k, false);
	}
	if (now.mismatched != c->mismatches)
		record_strangers(c);
	/* An entry is written before it is counted: the full map had no room for these. */
	while (now.mismatched > c->mismatches)
		record_stranger(c, 0, &(struct exec_want){0});
}

/* The exec of a thread is compared at its stop; its process may be elsewhere. */
static bool has_case(const struct exec_control *c, pid_t pid)
{
	const struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link)
		if (k->pid == pid)
			return true;
	return false;
}

/* Drops entries of processes that are not inside execve; cases have been looked at. */
static void sweep(struct exec_control *c)
{
	struct exec_want want;
	pid_t pid = 0;

	loading_look(c);
	while (exec_wants_next(c->setup.wants, &pid, &want))
		if ((want.state == EXEC_PASS || want.state == EXEC_STOPS) && !has_case(c, pid) &&
		    trace_where(pid) == TRACE_ELSEWHERE) {
			exec_wants_drop(c->setup.wants, pid);
			pid = 0;
		}
}

/* Whether a case's thread has left execve, seen from another thread of its process that asks. While
 * the call of that one waits, no thread has taken over the process's id. */
static bool has_left(struct exec_control *c, const struct exec_case *k,
		     const struct exec_case *asks)
{
	const bool late = k->let_go_us < clock_mono_us(&clock_system) - RUNNING_MOST_MS * 1000;
	enum trace_place place;

	if (k->tid == asks->tid) /* a thread that asks again has left its last exec */
		return true;
	place = trace_where(k->tid);
	return (place == TRACE_ELSEWHERE || (place == TRACE_RUNNING && late)) &&
	       listener_valid(c->listener, asks->notif.id);
}

bool loading_is_free(struct exec_control *c, const struct exec_case *k)
{
	struct exec_case *other, *next;
	bool is_free = true;

	for (other = LIST_FIRST(&c->loading); other != NULL; other = next) {
		next = LIST_NEXT(other, link);
		if (other->pid == k->pid && !settle(c, other, has_left(c, other, k)))
			is_free = false;
	}
	return is_free;
}

static int pass(struct exec_control *c, pid_t pid, bool traced)
{
	return traced ? exec_wants_stop(c->setup.wants, pid) : exec_wants_pass(c->setup.wants, pid);
}

bool loading_pass(struct exec_control *c, pid_t pid, bool traced)
{
	struct exec_case *k, *next;
	int r;

	if (c->setup.wants == NULL)
		return true;
	/* Of an earlier process with this id: its entry is about to be replaced. */
	for (k = LIST_FIRST(&c->loading); k != NULL; k = next) {
		next = LIST_NEXT(k, link);
		if (k->pid == pid)
			settle(c, k, true);
	}
	r = pass(c, pid, traced);
	if (r == -E2BIG) {
		sweep(c);
		r = pass(c, pid, traced);
	}
	/* If the map cannot be written for another reason, the kernel kills the process. */
	return r != -E2BIG && r != -ENOMEM;
}

int loading_add(struct exec_control *c, struct exec_case *k)
{
	cleanup_buf struct buf argv = {0};
	struct exec_decision d = {.path = k->image.op.exec.path,
				  .dev = k->image.dev,
				  .ino = k->image.ino,
				  .argv = k->args.text.data,
				  .argv_len = k->args.text.len};
	int r;

	if (k->image.head.n > 0) {
		image_new_argv(&k->image, NULL, &k->args, &argv);
		d.argv = argv.data;
		d.argv_len = argv.len;
	}
	if (c->nloading >= LOOK_AT)
		loading_look(c);
	r = c->nloading < EXEC_WANTS_MAX - RESERVED ? exec_wants_put(c->setup.wants, k->pid, &d)
						    : -E2BIG;
	if (r == -E2BIG) {
		sweep(c);
		if (c->nloading < EXEC_WANTS_MAX - RESERVED)
			r = exec_wants_put(c->setup.wants, k->pid, &d);
	}
	if (r < 0)
		return r;
	LIST_REMOVE(k, link);
	LIST_INSERT_HEAD(&c->loading, k, link);
	c->nloading++;
	return 0;
}
