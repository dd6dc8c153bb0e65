// SPDX-License-Identifier: Apache-2.0
#include "warden/execs.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "exec/attributes.h"
#include "gate/gate.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/syscall.h>

#define KEYS_AT_ONCE 32
#define OWNERS 16
#define FAILED_PATH 256
#define ITEMS_MAX 64 /* in the queue when the loop is woken before its time */
_Static_assert(KEYS_AT_ONCE * sizeof(uint64_t) <= 256, "getrandom gives so much at once");

struct lead {
	LIST_ENTRY(lead) next;
	uint32_t spawn;
	pid_t first;		   /* the leader's child; 0: not seen yet */
	uint64_t key;		   /* that its exec shows; 0: it has */
	const struct event *event; /* of that exec, borrowed */
	struct {
		int errnum;   /* 0: the last exec did not fail */
		bool refused; /* by the policy, and this is not its errnum */
		pid_t pid;
		char path[FAILED_PATH];
	} failed;
};
struct item {
	STAILQ_ENTRY(item) next;
	struct buf packed;
};

struct execs {
	struct execs_setup setup;
	struct listener *listener;
	struct attributes attributes;
	struct exec_control *control;
	struct gate *gate;	     /* the exec thread's */
	struct actor_reader *actors; /* the exec thread's */
	pthread_mutex_t lock;	     /* of what follows */
	LIST_HEAD(, lead) leads;
	STAILQ_HEAD(, item) items;
	size_t nitems;
	bool awaited; /* the loop comes without being woken */
	/* the exec thread's */
	struct owner {
		pid_t pid; /* 0: free */
		char command_id[ID_MAX + 1];
	} owners[OWNERS]; /* of execs that are decided and not recorded */
	unsigned next_owner;
	/* the loop's */
	uint64_t keys[KEYS_AT_ONCE];
	size_t nkeys; /* left */
};

/* ---- which command it belongs to ---- */

/* "" where there is none: it is an orphan of a command that is over. */
static void find_command(struct execs *x, const struct exec_attempt *req, char id[ID_MAX + 1])
{
	const struct actor_query q = {.id = req->pid, .ppid = req->ppid, .asked_us = req->asked_us};
	struct actor actor;

	actor_find(x->actors, &q, &actor);
	memcpy(id, actor.command_id, sizeof(actor.command_id));
}

static struct owner *find_owner(struct execs *x, pid_t pid)
{
	for (size_t i = 0; i < OWNERS; i++)
		if (x->owners[i].pid == pid)
			return &x->owners[i];
	return NULL;
}

/* While the caller waits: once it goes on, those above it may end. */
static void note_owner(struct execs *x, const struct exec_attempt *req)
{
	struct owner *o = find_owner(x, req->pid); /* of one that died undecided */

	if (o == NULL)
		o = &x->owners[x->next_owner++ % OWNERS];
	o->pid = req->pid;
	find_command(x, req, o->command_id);
}

static void take_owner(struct execs *x, const struct exec_attempt *req, char id[ID_MAX + 1])
{
	struct owner *o = find_owner(x, req->pid);

	if (o == NULL) {
		find_command(x, req, id);
		return;
	}
	memcpy(id, o->command_id, sizeof(o->command_id));
	o->pid = 0;
}

/* ---- on the exec thread ---- */

/* Our own helper, which the shell runs at its end: nobody else's business. Its path cannot be
 * changed from inside. */
static const struct verdict own_helper = {
	.decision = DECISION_allow, .effective = DECISION_allow, .rule = "agentsh"};

static bool is_own_helper(const struct execs *x, const struct op *op)
{
	return strcmp(op->exec.path, x->setup.helper) == 0 && op->exec.script == NULL &&
	       op->exec.flags == 0;
}

static uint64_t decide(void *arg, const struct exec_attempt *req, struct verdict *out)
{
	struct execs *x = arg;

	if (is_own_helper(x, &req->op)) {
		*out = own_helper;
		return 0;
	}
	note_owner(x, req);
	gate_decide(x->gate, &req->op, out);
	return 0;
}

/* The key has been in this process and in the leader, whose memory nobody may read. It is taken
 * here: who finds it in the registers of a process that loads its program is too late. The event is
 * in the journal when this returns; the lock keeps it alive. */
static bool is_first_exec(void *arg, pid_t pid, uint64_t key)
{
	struct execs *x = arg;
	struct lead *l;

	if (key == 0)
		return false;
	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next)
		if (l->key == key) {
			struct event e = *l->event;

			l->key = 0;
			l->first = pid;
			e.time_us = (uint64_t)clock_wall_us(&clock_system);
			e.pid = (uint32_t)pid;
			e.exec_ppid = (uint32_t)actor_table_initial(x->setup.actors, l->spawn, pid);
			x->setup.first(x->setup.arg, &e);
			break;
		}
	pthread_mutex_unlock(&x->lock);
	return l != NULL;
}

/* Any socket that our state program asks for is the one by which it sends the shell's state. */
static void on_socket(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	const struct execs *x = arg;
	const int fd = x->setup.state_socket(x->setup.arg, (pid_t)n->pid);

	if (fd < 0 || listener_give(l, n->id, fd) != 0)
		listener_send(l, n->id, fd < 0 ? -fd : EPERM);
	if (fd >= 0)
		close(fd);
}

/* Only the list is copied: the strings stay the request's. */
static void lend_argv(const struct exec_attempt *req, struct strv *out)
{
	out->v = (char **)(uintptr_t)req->argv;
	out->n = req->argc;
}

/* Whether somebody may want to know at once. */
static bool is_urgent(enum exec_outcome outcome)
{
	return outcome == EXEC_REFUSED || outcome == EXEC_MISMATCHED;
}

static void put_item(struct execs *x, struct item *it, bool urgent)
{
	bool wake;

	pthread_mutex_lock(&x->lock);
	STAILQ_INSERT_TAIL(&x->items, it, next);
	x->nitems++;
	wake = urgent || !x->awaited || x->nitems == ITEMS_MAX;
	x->awaited = true;
	pthread_mutex_unlock(&x->lock);
	if (wake)
		x->setup.wake(x->setup.arg);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* errnum 0: an exec that did not fail, or was refused. Of a search in several directories only the
 * name is kept; a refusal counts more than a file that is there but cannot be executed, and that
 * more than one that is missing. */
static void note_failure(struct execs *x, const char *command_id, const struct exec_attempt *req,
			 int errnum, bool refused)
{
	const char *path = req->op.exec.called != NULL ? req->op.exec.called : req->op.exec.path;
	struct lead *l;

	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next) {
		const bool searched = (l->failed.errnum != 0 || l->failed.refused) &&
				      l->failed.pid == req->pid &&
				      strcmp(last_part(l->failed.path), last_part(path)) == 0 &&
				      strcmp(l->failed.path, path) != 0;

		if (strcmp(l->event->command_id, command_id) != 0 ||
		    (l->failed.refused && searched && errnum != 0))
			continue;
		if (errnum == 0 || !searched || l->failed.errnum != EACCES)
			l->failed.errnum = errnum;
		l->failed.refused = refused;
		l->failed.pid = req->pid;
		snprintf(l->failed.path, sizeof(l->failed.path), "%s",
			 searched ? last_part(path) : path);
	}
	pthread_mutex_unlock(&x->lock);
}

/* A file of an unknown format is not a failure: the shell runs it as a script. */
static void failed(void *arg, const struct exec_attempt *req, int errnum)
{
	struct execs *x = arg;
	char id[ID_MAX + 1];

	find_command(x, req, id);
	note_failure(x, id, req, errnum == ENOEXEC ? 0 : errnum, false);
}

static void record(void *arg, const struct exec_record *rec)
{
	struct execs *x = arg;
	const struct exec_attempt *req = rec->req;
	struct item *it;
	char id[ID_MAX + 1];
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_exec,
			  .time_us = (uint64_t)clock_wall_us(&clock_system),
			  .pid = (uint32_t)req->pid,
			  .count = 1,
			  .latency_us = rec->latency_us,
			  .exec_path = event_lend(req->op.exec.path),
			  .exec_cwd = event_lend(req->cwd),
			  .exec_ppid = (uint32_t)req->ppid};
	struct verdict v = *rec->verdict;
	struct denial denial = {0};

	if (rec->verdict->rule == own_helper.rule)
		return;
	it = mem_new(struct item);
	take_owner(x, req, id);
	note_failure(x, id, req, 0, rec->outcome == EXEC_REFUSED);
	e.command_id = id[0] != '\0' ? id : NULL;
	lend_argv(req, &e.exec_argv);
	if (rec->outcome == EXEC_MISMATCHED) {
		v.effective = DECISION_deny;
		v.final = true;
		v.message = NULL;
		v.why = "another program than was decided on; killed";
	}
	gate_fill(x->gate, &v, &e);
	gate_fill_denial(x->gate, &v, &req->op, &denial, &e);
	event_pack(&e, &it->packed);
	denial_done(&denial);
	put_item(x, it, is_urgent(rec->outcome));
}

/* ---- the face ---- */

static uint64_t next_key(struct execs *x)
{
	uint64_t key = 0;

	while (key == 0) {
		if (x->nkeys == 0) {
			ensure(getrandom(x->keys, sizeof(x->keys), 0) == sizeof(x->keys));
			x->nkeys = KEYS_AT_ONCE;
		}
		key = x->keys[--x->nkeys];
		x->keys[x->nkeys] = 0;
	}
	return key;
}

uint64_t execs_expect(struct execs *x, uint32_t spawn, const struct event *first)
{
	struct lead *l;
	uint64_t key;

	if (x == NULL)
		return 0;
	key = next_key(x);
	l = mem_new(struct lead);
	l->spawn = spawn;
	l->key = key;
	l->event = first;
	pthread_mutex_lock(&x->lock);
	LIST_INSERT_HEAD(&x->leads, l, next);
	pthread_mutex_unlock(&x->lock);
	return key;
}

pid_t execs_initial_pid(struct execs *x, uint32_t spawn)
{
	struct lead *l;
	pid_t first = 0;

	if (x == NULL)
		return 0;
	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next)
		if (l->spawn == spawn)
			first = l->first;
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

int execs_last_failure(struct execs *x, uint32_t spawn, char **path)
{
	const struct lead *l;
	int errnum = 0;

	if (x == NULL)
		return 0;
	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (l, &x->leads, next)
		if (l->spawn == spawn)
			break;
	if (l != NULL && l->failed.errnum != 0) {
		errnum = l->failed.errnum;
		*path = mem_strdup(l->failed.path);
	}
	pthread_mutex_unlock(&x->lock);
	return errnum;
}

static struct item *next_item(struct execs *x)
{
	struct item *it;

	pthread_mutex_lock(&x->lock);
	it = STAILQ_FIRST(&x->items);
	if (it != NULL)
		STAILQ_REMOVE_HEAD(&x->items, next);
	x->nitems -= it != NULL;
	pthread_mutex_unlock(&x->lock);
	return it;
}

void execs_take(struct execs *x, exec_told_fn *fn, void *arg)
{
	struct item *it;

	if (x == NULL)
		return;
	if (x->control != NULL)
		exec_control_settle(x->control);
	while ((it = next_item(x)) != NULL) {
		struct event e;

		ensure(event_unpack(it->packed.data, it->packed.len, &e, NULL) == 0);
		fn(&e, arg);
		event_done(&e);
		buf_done(&it->packed);
		free(it);
	}
}

bool execs_pause(struct execs *x)
{
	bool empty;

	pthread_mutex_lock(&x->lock);
	empty = STAILQ_EMPTY(&x->items);
	x->awaited = !empty;
	pthread_mutex_unlock(&x->lock);
	return empty;
}

struct exec_counts execs_counts(const struct execs *x)
{
	if (x == NULL)
		return (struct exec_counts){0};
	return (struct exec_counts){
		.verified = exec_control_count(x->control, EXEC_VERIFIED),
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
	listener_stop(x->listener);
	exec_control_close(take(x->control));
	execs_take(x, forget, NULL);
	actor_reader_free(x->actors);
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
	static const int socket_call[] = {SYS_socket};
	struct exec_control_ops ops = {.decide = decide,
				       .record = record,
				       .failed = failed,
				       .is_first_exec = is_first_exec,
				       .arg = x,
				       .root = x->setup.root};
	struct listener_handler handlers[3];
	int r = gate_open(x->setup.policy_fd, &x->gate, err);

	if (r == 0) {
		ops.loader_any = !policy_restricts(gate_policy(x->gate), OP_EXEC);
		r = exec_control_open(&ops, &x->control, err);
	}
	if (r < 0) {
		close(x->setup.listener);
		return r;
	}
	x->attributes = (struct attributes){x->setup.own_trees == NULL ? x->setup.root : -1,
					    x->setup.own_trees};
	handlers[0] = exec_control_handler(x->control);
	handlers[1] = attributes_handler(&x->attributes);
	handlers[2] = (struct listener_handler){
		.calls = socket_call, .ncalls = 1, .on = on_socket, .arg = x};
	return listener_start(handlers, x->setup.state_socket != NULL ? 3 : 2, x->setup.listener,
			      &x->listener, err);
}

int execs_open(const struct execs_setup *s, struct execs **out, struct wall_report *walls,
	       struct err *err)
{
	struct execs *x = mem_new(struct execs);
	int r;

	x->setup = *s;
	x->actors = actor_reader_new(s->actors);
	pthread_mutex_init(&x->lock, NULL);
	STAILQ_INIT(&x->items);
	r = start(x, err);
	if (r < 0) {
		execs_close(x);
		return r;
	}
	wall_set(walls, WALL_exec_policy, WALL_UP, "policy %s, %zu rules",
		 policy_name(gate_policy(x->gate)), policy_rules(gate_policy(x->gate), OP_EXEC));
	*out = x;
	return 0;
}
