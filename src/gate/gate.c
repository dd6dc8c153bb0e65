// SPDX-License-Identifier: Apache-2.0
#include "gate/gate.h"
#include "base/clock.h"
#include "base/mem.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CACHED 512 /* decisions */

struct gate {
	struct gate_setup setup;
	void *bytes;
	size_t len;
	struct policy *policy;
	pthread_mutex_t lock;		 /* of what follows, and of deciding */
	struct gate_approver approver;	 /* ask is NULL without an approver */
	atomic_bool asks;		 /* there is one */
	TAILQ_HEAD(, gate_case) waiting; /* in the order of their questions */
	size_t nwaiting;
	uint64_t last_id;
};

int gate_open(const struct gate_setup *s, struct gate **out, struct err *err)
{
	struct gate g = {.setup = *s};
	struct stat st;
	int r;

	if (fstat(s->policy_fd, &st) < 0)
		return err_errno(err, E_ENFORCEMENT, "exec_policy", "cannot read the policy");
	g.len = (size_t)st.st_size;
	g.bytes = mmap(NULL, g.len, PROT_READ, MAP_SHARED, s->policy_fd, 0);
	if (g.bytes == MAP_FAILED)
		return err_errno(err, E_ENFORCEMENT, "exec_policy", "cannot map the policy");
	r = policy_open(g.bytes, g.len, &g.policy, err);
	if (r < 0) {
		munmap(g.bytes, g.len);
		return r;
	}
	policy_add_cache(g.policy, CACHED);
	*out = mem_dup(&g, sizeof(g));
	atomic_init(&(*out)->asks, false);
	pthread_mutex_init(&(*out)->lock, NULL);
	TAILQ_INIT(&(*out)->waiting);
	return 0;
}

void gate_close(struct gate *g)
{
	if (g == NULL)
		return;
	policy_close(g->policy);
	munmap(g->bytes, g->len);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

const struct policy *gate_policy(const struct gate *g)
{
	return g->policy;
}

void gate_name_workspace(struct gate *g, const char *real)
{
	policy_name_workspace(g->policy, real);
}

/* ---- asking ---- */

void gate_decide(struct gate *g, const struct op *op, struct verdict *v)
{
	struct gate_case k = {.op = op};

	gate_ask(g, &k, NULL);
	*v = k.verdict;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_question(const struct gate_case *a, const struct gate_case *b)
{
	return a->op->class == OP_FILE && b->op->class == OP_FILE &&
	       a->op->file.op == b->op->file.op && a->also == b->also &&
	       strcmp(a->op->file.path, b->op->file.path) == 0 && same_text(a->to, b->to) &&
	       strcmp(a->actor.command_id, b->actor.command_id) == 0;
}

/* With the lock: the operations of the same question that were not answered, besides k. */
static struct gate_case *find_question(const struct gate *g, uint64_t id, const struct gate_case *k)
{
	struct gate_case *other;

	TAILQ_FOREACH (other, &g->waiting, next)
		if (other != k && other->id == id && !other->answered)
			return other;
	return NULL;
}

/* With the lock: one that k can share the question of. *questions: how many there are. */
static struct gate_case *find_same(const struct gate *g, const struct gate_case *k,
				   size_t *questions)
{
	struct gate_case *other, *same = NULL;
	uint64_t last = 0;

	*questions = 0;
	/* those of one question stand together */
	TAILQ_FOREACH (other, &g->waiting, next) {
		*questions += other->id != last;
		last = other->id;
		if (!g->approver.passes_on && !other->answered && same_question(other, k))
			same = other;
	}
	return same;
}

/* With the lock. False: too many wait. */
static bool wait_for_approver(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter)
{
	size_t questions;
	struct gate_case *same = find_same(g, k, &questions);

	if (g->nwaiting >= GATE_PENDING_MAX ||
	    (same == NULL && questions >= GATE_REQUESTS_MAX && !g->approver.passes_on))
		return false;
	k->id = same != NULL ? same->id : ++g->last_id;
	k->waiter = *waiter;
	k->deadline_us = same != NULL
				 ? same->deadline_us
				 : clock_mono_us(&clock_system) + g->approver.timeout_ms * 1000;
	k->answered = false;
	k->approval_id[0] = '\0';
	if (same != NULL)
		strcpy(k->approval_id, same->approval_id);
	else if (!g->approver.passes_on)
		id_make(k->approval_id, "approval");
	g->nwaiting++;
	if (same != NULL) {
		TAILQ_INSERT_AFTER(&g->waiting, same, k, next);
		return true;
	}
	TAILQ_INSERT_TAIL(&g->waiting, k, next);
	g->approver.ask(g->approver.arg, g, k->id, k, k->deadline_us);
	g->setup.deadline(g->setup.arg);
	return true;
}

enum gate_answer gate_hold(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter)
{
	bool waits;

	pthread_mutex_lock(&g->lock);
	waits = g->approver.ask != NULL && wait_for_approver(g, k, waiter);
	pthread_mutex_unlock(&g->lock);
	if (!waits)
		gate_refuse(k, GATE_WHY_FULL);
	return waits ? GATE_PENDING : GATE_DENY;
}

void gate_approve(struct gate_case *k)
{
	k->verdict.effective = DECISION_allow;
	k->verdict.why = NULL;
}

enum gate_answer gate_ask(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter)
{
	struct verdict *v = &k->verdict;
	enum decision decided;

	pthread_mutex_lock(&g->lock);
	policy_decide(g->policy, k->op, waiter != NULL && g->approver.ask != NULL, v);
	if (v->effective == DECISION_approve && !wait_for_approver(g, k, waiter))
		gate_refuse(k, GATE_WHY_FULL);
	/* once it is unlocked another thread may answer */
	decided = v->effective;
	pthread_mutex_unlock(&g->lock);
	return decided == DECISION_approve ? GATE_PENDING
	       : decided == DECISION_allow ? GATE_ALLOW
					   : GATE_DENY;
}

enum gate_answer gate_ask_file(struct gate *g, struct gate_case *k, const struct file_rules *f)
{
	policy_file_verdict(g->policy, f, k->op->file.op, gate_has_approver(g), &k->verdict);
	return k->verdict.effective == DECISION_approve ? GATE_PENDING
	       : verdict_allows(&k->verdict)		? GATE_ALLOW
							: GATE_DENY;
}

void gate_refuse(struct gate_case *k, enum gate_why why)
{
	static const struct {
		const char *text;
		bool by_rule; /* the policy's rule stays the reason */
	} reasons[] = {
		[GATE_WHY_UNREADABLE] = {"the program or its arguments cannot be read", false},
		[GATE_WHY_UNREADABLE_FILE] = {"the program cannot be read", false},
		[GATE_WHY_UNVERIFIABLE] = {"the decision cannot be held", false},
		[GATE_WHY_REPLACEABLE] = {"ld.so would load a file that can be replaced after the "
					  "decision",
					  false},
		[GATE_WHY_MISMATCHED] = {"another program than was decided on; killed", true},
		[GATE_WHY_OTHER_ARGS] = {"other arguments than were decided on; killed", true},
		[GATE_WHY_FULL] = {"too many operations wait for an approver", true},
		[GATE_WHY_LOADING] = {"too many programs are being loaded at the same time", false},
		[GATE_WHY_NO_ANSWER] = {"the file system of the program does not answer", false},
		[GATE_WHY_DISAPPROVED] = {"the approver said no", true},
		[GATE_WHY_LATE] = {"the approver did not answer in time", true},
		[GATE_WHY_GONE] = {"the command ended while it waited for an approver", true},
		[GATE_WHY_INTERRUPTED] = {"a signal ended the call while it waited for an approver",
					  true},
		[GATE_WHY_UNASKED] = {"an approver was not asked about this before the call", true},
	};
	static const char *const own_rules[OP_CLASSES] = {[OP_FILE] = "file-control",
							  [OP_EXEC] = "exec-control",
							  [OP_NET] = "network-control",
							  [OP_DNS] = "network-control"};
	struct verdict *v = &k->verdict;

	if (!reasons[why].by_rule)
		*v = (struct verdict){
			.decision = DECISION_deny, .rule = own_rules[k->op->class], .final = true};
	if (why == GATE_WHY_MISMATCHED || why == GATE_WHY_OTHER_ARGS) {
		v->message = NULL;
		v->final = true;
	}
	v->effective = DECISION_deny;
	v->why = reasons[why].text;
	k->why = why;
}

enum err_code gate_error(enum gate_why why)
{
	return why == GATE_WHY_DISAPPROVED ? E_APPROVAL_DENIED
	       : why == GATE_WHY_LATE	   ? E_APPROVAL_TIMEOUT
					   : E_POLICY_DENIED;
}

/* ---- waiting ---- */

void gate_set_approver(struct gate *g, const struct gate_approver *a)
{
	pthread_mutex_lock(&g->lock);
	g->approver = *a;
	pthread_mutex_unlock(&g->lock);
	atomic_store(&g->asks, a->ask != NULL);
}

bool gate_has_approver(const struct gate *g)
{
	return atomic_load_explicit(&g->asks, memory_order_relaxed);
}

/* With the lock. */
static void stop_waiting(struct gate *g, struct gate_case *k)
{
	TAILQ_REMOVE(&g->waiting, k, next);
	g->nwaiting--;
	k->id = 0;
}

/* With the lock. why: GATE_WHY_POLICY allows. */
static void answer(struct gate_case *k, enum gate_why why)
{
	if (why == GATE_WHY_POLICY)
		gate_approve(k);
	else
		gate_refuse(k, why);
	k->answered = true;
	k->waiter.asker->wake(k->waiter.asker->arg);
}

/* With the lock: k does not wait for the answer any more. */
static void cancel(struct gate *g, const struct gate_case *k)
{
	if (find_question(g, k->id, k) == NULL)
		g->approver.cancel(g->approver.arg, k->id);
}

/* With the lock. */
static void give_up(struct gate *g, struct gate_case *k, enum gate_why why)
{
	cancel(g, k);
	answer(k, why);
}

void gate_answer_why(struct gate *g, uint64_t id, enum gate_why why, const char *approval_id)
{
	struct gate_case *k;

	pthread_mutex_lock(&g->lock);
	while ((k = find_question(g, id, NULL)) != NULL) {
		if (approval_id != NULL)
			snprintf(k->approval_id, sizeof(k->approval_id), "%s", approval_id);
		answer(k, why);
	}
	pthread_mutex_unlock(&g->lock);
}

void gate_answer(struct gate *g, uint64_t id, bool allow)
{
	gate_answer_why(g, id, allow ? GATE_WHY_POLICY : GATE_WHY_DISAPPROVED, NULL);
}

void gate_resume(struct gate *g, const struct gate_asker *asker)
{
	struct gate_case *k;

	do {
		pthread_mutex_lock(&g->lock);
		TAILQ_FOREACH (k, &g->waiting, next)
			if (k->answered && k->waiter.asker == asker)
				break;
		if (k != NULL)
			stop_waiting(g, k);
		pthread_mutex_unlock(&g->lock);
		if (k != NULL)
			k->waiter.resume(k, k->waiter.arg);
	} while (k != NULL);
}

bool gate_gone(struct gate *g, struct gate_case *k)
{
	bool waits;

	pthread_mutex_lock(&g->lock);
	waits = k->id != 0;
	if (waits) {
		if (!k->answered)
			cancel(g, k);
		stop_waiting(g, k);
		gate_refuse(k, GATE_WHY_GONE);
	}
	pthread_mutex_unlock(&g->lock);
	return waits;
}

void gate_command_over(struct gate *g, const char *command_id)
{
	struct gate_case *k;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (k, &g->waiting, next)
		if (!k->answered && strcmp(k->actor.command_id, command_id) == 0)
			give_up(g, k, GATE_WHY_GONE);
	pthread_mutex_unlock(&g->lock);
}

int64_t gate_expire(struct gate *g, int64_t now_us)
{
	int64_t next = -1;
	struct gate_case *k;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (k, &g->waiting, next) {
		if (k->answered)
			continue;
		if (k->deadline_us <= now_us)
			give_up(g, k, GATE_WHY_LATE);
		else if (next < 0 || k->deadline_us < next)
			next = k->deadline_us;
	}
	pthread_mutex_unlock(&g->lock);
	return next;
}

/* ---- settling ---- */

static uint32_t type_of(const struct op *op)
{
	static const uint32_t files[OP_FILES] = {
		[OP_FILE_read] = EVENT_file_read,	  [OP_FILE_write] = EVENT_file_write,
		[OP_FILE_open] = EVENT_file_open,	  [OP_FILE_create] = EVENT_file_create,
		[OP_FILE_delete] = EVENT_file_delete,	  [OP_FILE_rename] = EVENT_file_rename,
		[OP_FILE_stat] = EVENT_file_stat,	  [OP_FILE_list] = EVENT_dir_list,
		[OP_FILE_chmod] = EVENT_file_chmod,	  [OP_FILE_chown] = EVENT_file_chown,
		[OP_FILE_symlink] = EVENT_symlink_create, [OP_FILE_link] = EVENT_file_link,
		[OP_FILE_truncate] = EVENT_file_truncate, [OP_FILE_execute] = EVENT_file_open,
	};

	switch (op->class) {
	case OP_FILE:
		return files[op->file.op];
	case OP_EXEC:
		return EVENT_exec;
	case OP_DNS:
		return EVENT_dns_query;
	default:
		return EVENT_net_connect;
	}
}

static void fill_op(const struct op *op, const struct gate_report *r, struct event *e)
{
	e->type = r->type != 0 ? r->type : type_of(op);
	if (op->class == OP_FILE) {
		e->path = event_lend(op->file.path);
		e->real_path = event_lend(r->real_path);
		e->op_to = event_lend(r->to);
		e->op_flags = event_lend(r->flags);
		e->op_error = (uint32_t)r->error;
		e->op_has = (r->has_bytes ? EVENT_HAS_BYTES : 0U) |
			    (r->has_offset ? EVENT_HAS_OFFSET : 0U) |
			    (r->has_sizes ? EVENT_HAS_SIZES : 0U) |
			    (r->mapped ? EVENT_MAPPED : 0U) |
			    (r->argument ? EVENT_PATH_ARGUMENT : 0U);
		e->op_bytes = r->bytes;
		e->op_offset = r->offset;
		e->file_type = event_lend(r->file_type);
		e->size_before = r->size_before;
		e->size_after = r->size_after;
	} else if (op->class == OP_DNS) {
		e->dns_domain = event_lend(op->dns.name);
	} else if (op->class == OP_NET) {
		e->dns_domain = event_lend(op->net.host);
		e->remote_port = op->net.port;
	} else {
		e->exec_path = event_lend(op->exec.path);
		e->exec_cwd = event_lend(r->cwd);
		e->exec_argv.v = (char **)(uintptr_t)r->argv; /* only the list is copied */
		e->exec_argv.n = r->argc;
		if (r->outcome != GATE_REFUSED)
			e->exec_verified = event_lend(r->verified);
		e->exec_loaded = event_lend(r->loaded);
	}
}

static void describe(const struct gate *g, const struct gate_case *k, struct denial *d)
{
	const enum err_code code = gate_error(k->why);

	denial_init(d, &k->verdict, k->op);
	if (k->at_to)
		mem_replace(&d->target, mem_strdup(k->to));
	if (k->approval_id[0] != '\0')
		d->approval_id = mem_strdup(k->approval_id);
	if (code != E_POLICY_DENIED)
		d->error = mem_strdup(err_row(code)->name);
	policy_alternatives(g->policy, k->op, &d->alternatives);
}

void gate_settle(struct gate *g, const struct gate_case *k, const struct gate_report *r)
{
	struct gate_case now = *k;
	const struct verdict *v = &now.verdict;
	struct denial d = {0};
	struct event e = {.schema = EVENT_SCHEMA,
			  .time_us = (uint64_t)clock_wall_us(&clock_system),
			  .session_id = event_lend(g->setup.session_id),
			  .command_id =
				  k->actor.command_id[0] != '\0' ? now.actor.command_id : NULL,
			  .request_id = event_lend(k->request_id),
			  .pid = (uint32_t)k->actor.pid,
			  .exec_ppid = (uint32_t)k->actor.ppid,
			  .count = r->count != 0 ? r->count : 1,
			  .latency_us = r->latency_us};

	fill_op(k->op, r, &e);
	if (r->outcome == GATE_MISMATCHED) {
		gate_refuse(&now, r->same_program ? GATE_WHY_OTHER_ARGS : GATE_WHY_MISMATCHED);
		e.type = EVENT_policy_violation;
	}
	e.decision = e.policy_effective = event_lend(decision_name(v->effective));
	e.policy_decision = event_lend(decision_name(v->decision));
	e.policy_rule = event_lend(v->rule);
	e.policy_version = event_lend(policy_version(g->policy));
	e.approved = v->decision == DECISION_approve && verdict_allows(v) && !v->shadow;
	e.approval_id = now.approval_id[0] != '\0' ? now.approval_id : NULL;
	if (verdict_redirects(v) && e.real_path == NULL)
		e.real_path = event_lend(v->target);
	if (!verdict_allows(v)) {
		describe(g, &now, &d);
		e.denied_op = d.operation;
		e.denied_target = d.target;
		e.denied_reason = d.reason;
		e.denied_final = d.final;
		e.denied_error = d.error;
		e.alternatives = d.alternatives;
	}
	g->setup.sink(g->setup.arg, k, r, &e);
	denial_done(&d);
}

void gate_pack_denial(struct gate *g, const struct gate_case *k, char *out, size_t size)
{
	struct denial d;

	describe(g, k, &d);
	denial_pack(&d, out, size);
	denial_done(&d);
}
