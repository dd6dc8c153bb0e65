// SPDX-License-Identifier: Apache-2.0
/* Lookups. Below a file system that may hang each is a walk (walk/walker.h), unless its answers are
 * known already. */
#include "base/mem.h"
#include "command/run.h"
#include "walk/walker.h"
#include <errno.h>

#define EXPLAIN_MS 1000 /* for what only completes a result */

static const char *own(struct lookup *q, const char *text)
{
	if (text == NULL)
		return NULL;
	strv_add(&q->texts, text);
	return q->texts.v[q->texts.n - 1];
}

struct lookup *lookup_new(const struct run *r)
{
	struct lookup *q = mem_new(struct lookup);

	q->root_fd = r->cs->root_fd;
	/* Without namespaces the warden sees more than the session. */
	q->gate = r->cs->namespaces ? r->cs->gate : NULL;
	q->names = r->cs->names;
	q->looker = r->cs->looker;
	q->cwd = own(q, r->cwd);
	return q;
}

static void lookup_free(void *lookup)
{
	struct lookup *q = lookup;

	if (q == NULL)
		return;
	if (q->lent)
		exec_looker_free(q->looker);
	exec_initial_free(q->initial);
	root_enter_done(&q->enter);
	strv_done(&q->find_argv);
	strv_done(&q->similar);
	strv_done(&q->texts);
	free(q);
}

void lookup_enter(struct lookup *q, const char *path)
{
	q->enter.whole = mem_strdup(path);
	q->enter.logical = mem_strdup(path);
}

void lookup_find(struct lookup *q, const struct exec_initial_ask *ask)
{
	strv_copy(&q->find_argv, ask->argv);
	q->find = (struct exec_initial_ask){.path = own(q, ask->path),
					    .cwd = q->cwd,
					    .search = own(q, ask->search),
					    .exact = ask->exact,
					    .argv = &q->find_argv,
					    .command_id = own(q, ask->command_id),
					    .request_id = ask->request_id};
}

void lookup_similar(struct lookup *q, const struct run *r, const char *missing)
{
	const char *asked = strv_env_get(&r->ask.env, "PATH");

	q->missing = own(q, missing);
	q->search = own(q, asked != NULL ? asked : strv_env_get(&r->cs->memory->env, "PATH"));
}

static void find(struct lookup *q)
{
	q->errnum = exec_initial_find(q->looker, &q->find, &q->initial);
}

static void look(void *lookup)
{
	struct lookup *q = lookup;

	if (q->enter.whole != NULL)
		root_enter(q->root_fd, &q->enter);
	if (q->find.path != NULL && q->enter.errnum == 0) {
		find(q);
		if (q->errnum != 0 && !q->enter.answered)
			q->enter.errnum = root_dir(q->root_fd, q->cwd);
	}
	if (q->missing != NULL)
		similar_programs(q);
}

/* ---- of a command ---- */

/* The lookup is over, or is given up. */
static void go_on(struct run *r)
{
	struct lookup *q = take(r->look);

	watch_stop(r->patience);
	if (!walk_end(q->walk)) {
		q = NULL;
	} else {
		if (q->initial != NULL)
			exec_initial_adopt(q->initial, r->cs->looker);
		exec_looker_return(r->cs->looker, q->looker);
		q->lent = false;
	}
	r->looked = q;
	if (r->phase == RUN_LOOKING)
		r->phase = RUN_HELD;
	else
		run_go_on(r);
}

static void on_patience_over(void *arg)
{
	go_on(arg);
}

void run_hurry(struct run *r)
{
	r->after = RUN_DEAD;
	go_on(r);
}

void run_look(struct run *r, struct lookup *q, enum run_phase phase, looked_fn *then)
{
	struct commands *cs = r->cs;
	const struct walk_job job = {look, lookup_free, q, cs->asker.wake, cs->asker.arg};
	/* Everything that is asked may be known without a call that may hang. */
	const bool known = q->enter.whole == NULL && q->missing == NULL;

	r->then = NULL;
	if (cs->walker == NULL)
		look(q);
	else if (known && q->find.path != NULL)
		find(q);
	if (cs->walker == NULL || (known && q->errnum == 0)) {
		then(r, q);
		lookup_free(q);
		return;
	}
	q->looker = exec_looker_lend(cs->looker);
	q->lent = true;
	r->phase = phase;
	r->then = then;
	q->walk = walk_start(cs->walker, &job);
	if (q->walk == NULL) {
		then(r, NULL);
		return;
	}
	r->look = q;
	if (r->patience == NULL)
		r->patience = watch_timer(cs->loop, on_patience_over, r);
	watch_after(r->patience, phase == RUN_LOOKING ? WALK_MS : EXPLAIN_MS);
}

void run_go_on(struct run *r)
{
	struct lookup *q = take(r->looked);
	looked_fn *then = take(r->then);

	then(r, q);
	lookup_free(q);
}

void run_take_lookups(struct commands *cs)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next)
		if (r->look != NULL && walk_over(r->look->walk) && r->phase != RUN_DEAD)
			go_on(r);
}

void run_drop_lookup(struct run *r)
{
	struct lookup *q = take(r->look);

	watch_stop(r->patience);
	if (q != NULL && walk_end(q->walk))
		lookup_free(q);
	lookup_free(take(r->looked));
}
