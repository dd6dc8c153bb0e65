// SPDX-License-Identifier: Apache-2.0
#include "warden/execs.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/proc.h"
#include "gate/gate.h"
#include "sandbox/capture.h"
#include "sandbox/spawn.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>

#define DEPTH_MAX 4096 /* of a tree of processes */

struct lead {
	LIST_ENTRY(lead) next;
	uint32_t spawn;
	pid_t leader; /* 0: not seen yet */
	pid_t first;  /* the leader's child; 0: not seen yet */
	bool started; /* its exec has worked: it is the command's own now */
	char command_id[ID_MAX + 1];
};
struct item {
	STAILQ_ENTRY(item) next;
	struct buf packed;
};

struct execs {
	struct execs_setup setup;
	struct exec_control *control;
	struct gate *gate;    /* the exec thread's */
	pthread_mutex_t lock; /* of what follows */
	LIST_HEAD(, lead) leads;
	STAILQ_HEAD(, item) items;
};

/* ---- whose process it is ---- */

/* A leader that has not spoken: a child of init that has executed nothing, by its name. */
static uint32_t spawn_of(const struct execs *x, pid_t pid)
{
	char path[32], name[32];
	unsigned spawn = 0;
	ssize_t n;

	if (exec_parent_of_unexecuted(pid) != x->setup.init_pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);
	if (n <= 0)
		return 0;
	name[n] = '\0';
	return sscanf(name, LEADER_NAME, &spawn) == 1 ? spawn : 0;
}

/* With the lock. */
static struct lead *lead_by(struct execs *x, pid_t leader, uint32_t spawn)
{
	struct lead *l;

	LIST_FOREACH (l, &x->leads, next)
		if (spawn == 0 ? l->leader == leader : l->leader == 0 && l->spawn == spawn)
			return l;
	return NULL;
}

static bool known_leader(struct execs *x, pid_t pid, char id[ID_MAX + 1])
{
	const struct lead *l;

	pthread_mutex_lock(&x->lock);
	l = lead_by(x, pid, 0);
	if (l != NULL)
		memcpy(id, l->command_id, sizeof(l->command_id));
	pthread_mutex_unlock(&x->lock);
	return l != NULL;
}

static bool new_leader(struct execs *x, pid_t pid, char id[ID_MAX + 1])
{
	const uint32_t spawn = spawn_of(x, pid);
	struct lead *l = NULL;

	if (spawn == 0)
		return false;
	pthread_mutex_lock(&x->lock);
	l = lead_by(x, 0, spawn);
	if (l != NULL) {
		l->leader = pid;
		memcpy(id, l->command_id, sizeof(l->command_id));
	}
	pthread_mutex_unlock(&x->lock);
	return l != NULL;
}

/* Walks up to the leader; "" where there is none (it is an orphan of a command that is over). */
static void find_command(struct execs *x, pid_t parent, char id[ID_MAX + 1])
{
	id[0] = '\0';
	for (int i = 0; i < DEPTH_MAX && parent > 1 && parent != x->setup.init_pid; i++) {
		const pid_t above = proc_ppid(parent);

		if (known_leader(x, parent, id) ||
		    (above == x->setup.init_pid && new_leader(x, parent, id)))
			return;
		parent = above;
	}
}

/* ---- on the exec thread ---- */

/* Our own helper, which the shell runs at its end: nobody else's business. No path below
 * /run/agentsh can be changed from inside. */
static const struct verdict own_helper = {
	.decision = DECISION_allow, .effective = DECISION_allow, .rule = "agentsh"};

static bool is_own_helper(const struct op *op)
{
	return strcmp(op->exec.path, CAPTURE_PROGRAM) == 0 && op->exec.script == NULL &&
	       op->exec.flags == 0;
}

static uint64_t decide(void *arg, const struct exec_request *req, struct verdict *out)
{
	struct execs *x = arg;

	if (is_own_helper(&req->op)) {
		*out = own_helper;
		return 0;
	}
	gate_decide(x->gate, &req->op, out);
	return 0;
}

/* Nothing of a command runs before its first exec, so the first that a child of its leader asks for
 * is ours; and what it asks for again until one has worked (a search along PATH). A process that
 * the command has forked and left behind has executed nothing either, but comes later. */
static bool is_first_exec(void *arg, pid_t pid)
{
	struct execs *x = arg;
	const pid_t parent = exec_parent_of_unexecuted(pid);
	char id[ID_MAX + 1];
	struct lead *l;
	bool ours;

	if (parent <= 1 || (!known_leader(x, parent, id) && !new_leader(x, parent, id)))
		return false;
	pthread_mutex_lock(&x->lock);
	l = lead_by(x, parent, 0);
	ours = l != NULL && !l->started && (l->first == 0 || l->first == pid);
	if (ours)
		l->first = pid;
	pthread_mutex_unlock(&x->lock);
	return ours;
}

static char *lent(const char *s)
{
	return (char *)s;
}

/* Only the list is copied: the strings stay the request's. */
static void lend_argv(const struct exec_request *req, struct strv *out)
{
	out->v = (char **)(uintptr_t)req->argv;
	out->n = req->argc;
}

static void record(void *arg, const struct exec_record *rec)
{
	struct execs *x = arg;
	const struct exec_request *req = rec->req;
	struct item *it;
	char id[ID_MAX + 1];
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_exec,
			  .time_us = (uint64_t)clock_wall_us(&clock_system),
			  .pid = (uint32_t)req->pid,
			  .count = 1,
			  .latency_us = rec->latency_us,
			  .exec_path = lent(req->op.exec.path),
			  .exec_cwd = lent(req->cwd),
			  .exec_ppid = (uint32_t)req->ppid};
	bool empty;

	if (rec->verdict->rule == own_helper.rule)
		return;
	it = mem_new(struct item);
	find_command(x, req->ppid, id);
	e.command_id = id[0] != '\0' ? id : NULL;
	lend_argv(req, &e.exec_argv);
	gate_fill(x->gate, rec->verdict, &e);
	if (rec->outcome == EXEC_MISMATCHED) {
		e.decision = lent(decision_name(DECISION_deny));
		e.reason = lent("another program than was decided on; killed");
	}
	event_pack(&e, &it->packed);
	pthread_mutex_lock(&x->lock);
	empty = STAILQ_EMPTY(&x->items);
	STAILQ_INSERT_TAIL(&x->items, it, next);
	pthread_mutex_unlock(&x->lock);
	if (empty)
		x->setup.wake(x->setup.arg);
}

/* ---- the face ---- */

void execs_expect(struct execs *x, uint32_t spawn, const char *command_id, pid_t leader)
{
	struct lead *l;

	if (x == NULL)
		return;
	l = mem_new(struct lead);
	l->spawn = spawn;
	l->leader = leader;
	snprintf(l->command_id, sizeof(l->command_id), "%s", command_id);
	pthread_mutex_lock(&x->lock);
	LIST_INSERT_HEAD(&x->leads, l, next);
	pthread_mutex_unlock(&x->lock);
}

pid_t execs_started(struct execs *x, uint32_t spawn)
{
	struct lead *l;
	pid_t first = 0;

	if (x == NULL)
		return 0;
	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next)
		if (l->spawn == spawn) {
			l->started = true;
			first = l->first;
		}
	pthread_mutex_unlock(&x->lock);
	return first;
}

void execs_over(struct execs *x, uint32_t spawn)
{
	struct lead *l;

	if (x == NULL)
		return;
	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next)
		if (l->spawn == spawn)
			break;
	if (l != NULL)
		LIST_REMOVE(l, next);
	pthread_mutex_unlock(&x->lock);
	free(l);
}

static struct item *next_item(struct execs *x)
{
	struct item *it;

	pthread_mutex_lock(&x->lock);
	it = STAILQ_FIRST(&x->items);
	if (it != NULL)
		STAILQ_REMOVE_HEAD(&x->items, next);
	pthread_mutex_unlock(&x->lock);
	return it;
}

void execs_take(struct execs *x, exec_told_fn *fn, void *arg)
{
	struct item *it;

	if (x == NULL)
		return;
	while ((it = next_item(x)) != NULL) {
		struct event e;

		ensure(event_unpack(it->packed.data, it->packed.len, &e, NULL) == 0);
		fn(&e, arg);
		event_done(&e);
		buf_done(&it->packed);
		free(it);
	}
}

struct exec_counts execs_counts(const struct execs *x)
{
	if (x == NULL)
		return (struct exec_counts){0};
	return (struct exec_counts){
		.verified = exec_control_count(x->control, EXEC_VERIFIED),
		.skipped = exec_control_count(x->control, EXEC_SKIPPED),
		.refused = exec_control_count(x->control, EXEC_REFUSED),
		.mismatched = exec_control_count(x->control, EXEC_MISMATCHED),
		.failed = exec_control_count(x->control, EXEC_FAILED),
	};
}

static void forget(const struct event *e, void *arg)
{
}

void execs_close(struct execs *x)
{
	struct lead *l;

	if (x == NULL)
		return;
	exec_control_stop(x->control);
	execs_take(x, forget, NULL);
	while ((l = LIST_FIRST(&x->leads)) != NULL) {
		LIST_REMOVE(l, next);
		free(l);
	}
	gate_close(x->gate);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static int start(struct execs *x, struct err *err)
{
	const struct exec_control_ops ops = {.decide = decide,
					     .record = record,
					     .is_first_exec = is_first_exec,
					     .arg = x,
					     .may_skip = x->setup.may_skip};
	const int listener = x->setup.listener;
	const int r = gate_open(x->setup.policy_fd, &x->gate, err);

	if (r < 0) {
		close(listener);
		return r;
	}
	return exec_control_start(&ops, listener, &x->control, err);
}

int execs_open(const struct execs_setup *s, struct execs **out, struct wall_report *walls,
	       struct err *err)
{
	struct execs *x = mem_new(struct execs);
	int r;

	x->setup = *s;
	pthread_mutex_init(&x->lock, NULL);
	STAILQ_INIT(&x->items);
	r = start(x, err);
	if (r < 0) {
		execs_close(x);
		return r;
	}
	wall_set(walls, WALL_exec_policy, WALL_UP, "policy %s, %zu rules; %s",
		 policy_name(gate_policy(x->gate)), policy_rules(gate_policy(x->gate), OP_EXEC),
		 s->may_skip ? "verified where it could be raced" : "each verified");
	*out = x;
	return 0;
}
