// SPDX-License-Identifier: Apache-2.0
/* The running commands as exec control sees them: the key of the initial exec, and how later execs
 * ended. The loop's thread adds and removes commands, the listener's thread finds them. */
#include "base/mem.h"
#include "exec/exec_thread.h"
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#define FAILED_PATH 256

struct exec_command {
	LIST_ENTRY(exec_command) next;
	uint32_t spawn;
	pid_t pid;			    /* of the initial exec; 0: not seen yet */
	uint64_t key;			    /* that the initial exec shows; 0: it has */
	const struct exec_initial *initial; /* borrowed */
	struct {
		int errnum;   /* 0: the last exec did not fail */
		bool refused; /* by the policy, and this is not its errnum */
		pid_t pid;
		char path[FAILED_PATH];
	} failed;
	struct exec_news news;
};

/* With the lock. */
static struct exec_command *find(struct exec_control *c, uint32_t spawn)
{
	struct exec_command *m;

	LIST_FOREACH (m, &c->commands, next)
		if (m->spawn == spawn)
			return m;
	return NULL;
}

/* ---- the listener's thread ---- */

/* Only this process and the leader have had the key, and no process of the session may read their
 * memory. The key is used up here, so a process that finds it in the registers of a loading one is
 * too late. The event is in the journal when this returns; the lock keeps the command alive. */
bool commands_begin(struct exec_control *c, pid_t pid, uint64_t key)
{
	struct exec_command *m = NULL;

	if (key == 0)
		return false;
	pthread_mutex_lock(&c->lock);
	LIST_FOREACH (m, &c->commands, next)
		if (m->key == key)
			break;
	if (m != NULL) {
		m->key = 0;
		m->pid = pid;
		exec_initial_settle(m->initial, pid,
				    actor_table_initial(c->setup.actors, m->spawn, pid));
	}
	pthread_mutex_unlock(&c->lock);
	return m != NULL;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* errnum 0: an exec that did not fail, or was refused. Of a search in several directories only the
 * name is kept; a refusal counts more than a file that is there but cannot be executed, and that
 * more than one that is missing. With the lock. */
static void note_failure(struct exec_command *m, const struct exec_case *k, int errnum,
			 bool refused)
{
	const struct op *op = k->gate.op;
	const char *path = op->exec.called != NULL ? op->exec.called : op->exec.path;
	const bool searched = (m->failed.errnum != 0 || m->failed.refused) &&
			      m->failed.pid == k->pid &&
			      strcmp(last_part(m->failed.path), last_part(path)) == 0 &&
			      strcmp(m->failed.path, path) != 0;

	if (m->failed.refused && searched && errnum != 0)
		return;
	if (errnum == 0 || !searched || m->failed.errnum != EACCES)
		m->failed.errnum = errnum;
	m->failed.refused = refused;
	m->failed.pid = k->pid;
	snprintf(m->failed.path, sizeof(m->failed.path), "%s", searched ? last_part(path) : path);
}

/* A file of an unknown format is not a failure: the shell runs it as a script. */
void commands_note_failure(struct exec_control *c, const struct exec_case *k, int errnum)
{
	struct exec_command *m;

	pthread_mutex_lock(&c->lock);
	m = find(c, k->gate.actor.spawn);
	if (m != NULL)
		note_failure(m, k, errnum == ENOEXEC ? 0 : errnum, false);
	pthread_mutex_unlock(&c->lock);
}

/* A shell goes on with the next directory of PATH after a refusal: true if this is such a one. With
 * the lock. */
static bool repeats_refusal(struct exec_control *c, const struct exec_case *k, bool refused)
{
	const char *name = last_part(k->path != NULL ? k->path : "");
	struct past_refusal *r = c->refused;

	while (r < c->refused + FOLD_PIDS && r->pid != k->pid)
		r++;
	if (r == c->refused + FOLD_PIDS)
		r = refused ? &c->refused[c->next_refused++ % FOLD_PIDS] : NULL;
	else if (refused && strncmp(r->name, name, FOLD_NAME - 1) == 0)
		return true;
	if (r != NULL) {
		r->pid = refused ? k->pid : 0;
		snprintf(r->name, sizeof(r->name), "%s", name);
	}
	return false;
}

void commands_settle(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome)
{
	const struct workspace_names *names = c->setup.names;
	cleanup_free char *cwd =
		names != NULL && k->cwd != NULL ? workspace_canonical(names, k->cwd) : NULL;
	const struct gate_report report = {.outcome = outcome,
					   .latency_us = k->latency_us,
					   .cwd = cwd != NULL ? cwd : k->cwd,
					   .argv = (const char *const *)k->args.v,
					   .argc = k->args.n,
					   .verified = k->by_kernel ? "bpf" : "stop",
					   .loaded = k->loaded,
					   .same_program = k->same_program};
	const struct verdict *v = &k->gate.verdict;
	cleanup_buf struct buf target = {0};
	char request_id[ID_MAX + 1] = "";
	struct exec_command *m;

	pthread_mutex_lock(&c->lock);
	if (repeats_refusal(c, k, outcome == GATE_REFUSED) ||
	    (k->helper && outcome != GATE_MISMATCHED)) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	m = find(c, k->gate.actor.spawn);
	if (m != NULL) {
		snprintf(request_id, sizeof(request_id), "%s", exec_initial_request(m->initial));
		note_failure(m, k, 0, outcome == GATE_REFUSED);
		m->news.any = true;
		m->news.replaced |=
			k->pid == m->pid && verdict_allows(v) && outcome != GATE_MISMATCHED;
		m->news.killed |= k->pid == m->pid && outcome == GATE_MISMATCHED;
		if (m->news.privileged == NULL && !verdict_allows(v) &&
		    strcmp(v->rule, POLICY_NO_PRIVILEGE) == 0) {
			op_format_target(k->gate.op, &target);
			m->news.privileged = buf_take(&target);
		}
	}
	pthread_mutex_unlock(&c->lock);
	k->gate.request_id = request_id[0] != '\0' ? request_id : NULL;
	gate_settle(c->setup.gate, &k->gate, &report);
}

void commands_record(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome)
{
	atomic_fetch_add_explicit(&c->count[outcome], 1, memory_order_relaxed);
	commands_settle(c, k, outcome);
}

/* ---- the loop's thread ---- */

uint64_t exec_expect(struct exec_control *c, uint32_t spawn, const struct exec_initial *i)
{
	struct exec_command *m;
	uint64_t key = 0;

	if (c == NULL)
		return 0;
	while (key == 0) {
		if (c->nkeys == 0) {
			ensure(getrandom(c->keys, sizeof(c->keys), 0) == sizeof(c->keys));
			c->nkeys = KEYS_AT_ONCE;
		}
		key = c->keys[--c->nkeys];
		c->keys[c->nkeys] = 0;
	}
	m = mem_new(struct exec_command);
	m->spawn = spawn;
	m->key = key;
	m->initial = i;
	pthread_mutex_lock(&c->lock);
	LIST_INSERT_HEAD(&c->commands, m, next);
	pthread_mutex_unlock(&c->lock);
	return key;
}

static void forget(struct exec_command *m)
{
	LIST_REMOVE(m, next);
	free(m->news.privileged);
	free(m);
}

void exec_over(struct exec_control *c, uint32_t spawn)
{
	struct exec_command *m;

	if (c == NULL)
		return;
	pthread_mutex_lock(&c->lock);
	m = find(c, spawn);
	if (m != NULL)
		forget(m);
	pthread_mutex_unlock(&c->lock);
}

void commands_free(struct exec_control *c)
{
	while (!LIST_EMPTY(&c->commands))
		forget(LIST_FIRST(&c->commands));
}

int exec_last_failure(struct exec_control *c, uint32_t spawn, char **path)
{
	const struct exec_command *m;
	int errnum;

	if (c == NULL)
		return 0;
	pthread_mutex_lock(&c->lock);
	m = find(c, spawn);
	errnum = m != NULL ? m->failed.errnum : 0;
	if (errnum != 0)
		*path = mem_strdup(m->failed.path);
	pthread_mutex_unlock(&c->lock);
	return errnum;
}

void exec_outcomes(struct exec_control *c, uint64_t out[GATE_OUTCOMES])
{
	exec_control_look(c);
	for (size_t i = 0; i < GATE_OUTCOMES; i++)
		out[i] = atomic_load_explicit(&c->count[i], memory_order_relaxed);
}

void exec_take_news(struct exec_control *c, uint32_t spawn, struct exec_news *out)
{
	struct exec_command *m;

	*out = (struct exec_news){0};
	if (c == NULL)
		return;
	pthread_mutex_lock(&c->telling); /* an exec that goes on now is recorded first */
	loading_look(c);
	pthread_mutex_unlock(&c->telling);
	pthread_mutex_lock(&c->lock);
	m = find(c, spawn);
	if (m != NULL) {
		*out = m->news;
		out->pid = m->pid;
		m->news = (struct exec_news){0};
	}
	pthread_mutex_unlock(&c->lock);
}
