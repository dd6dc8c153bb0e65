// SPDX-License-Identifier: Apache-2.0
#include "fs/restore.h"
#include "base/mem.h"
#include "fs/fs_state.h"
#include "trash/trash.h"
#include <limits.h>
#include <stdio.h>
#include <sys/queue.h>

#define RESTORES_MAX 16

struct restore {
	STAILQ_ENTRY(restore) next;
	struct restores *all;
	const struct fs_tree *tree; /* of its entry */
	struct restored is;
};

struct restores {
	struct fs *fs;
	void (*wake)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t one_over;
	unsigned running;
	STAILQ_HEAD(, restore) over;
};

/* ---- what the policy says ---- */

static void settle(struct fs *fs, struct gate_case *k, enum gate_outcome outcome)
{
	const struct gate_report r = {
		.outcome = outcome, .type = EVENT_file_create, .flags = "RESTORED"};

	gate_settle(watch_gate(fs), k, &r);
}

static int choose_tree(void *arg, const struct trash_entry *e)
{
	struct restore *one = arg;
	const char *rest;

	one->tree = fs_tree_of(one->all->fs, e->path, &rest);
	return one->tree != NULL && trash_entry_below(e) == rest + 1 ? one->tree->root : -1;
}

/* A file or directory of this path below the root is to be made. */
static int may_make(void *arg, const char *below, struct err *err)
{
	const struct restore *one = arg;
	struct fs *fs = one->all->fs;
	char path[PATH_MAX];
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_create, path}};
	struct gate_case k = {.op = &op};
	struct file_rules rules;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", one->tree->shown, below) >= sizeof(path))
		return err_set(err, E_BAD_REQUEST, NULL, "the path is too long");
	policy_decide_file(gate_policy(watch_gate(fs)), path, false, &rules);
	if (gate_ask_file(watch_gate(fs), &k, &rules) != GATE_DENY) {
		if (watch_allows(fs, path, WATCH_OP(create)))
			return 0;
		k.verdict = (struct verdict){.decision = DECISION_deny,
					     .effective = DECISION_deny,
					     .rule = "file-control",
					     .why = "this path is blocked or read-only",
					     .final = true};
	}
	settle(fs, &k, GATE_REFUSED);
	err_set(err, E_POLICY_DENIED, path, "rule '%s' denies making %s", k.verdict.rule, path);
	gate_pack_denial(watch_gate(fs), &k, err->denial, sizeof(err->denial));
	return -E_POLICY_DENIED;
}

static void record(struct fs *fs, const char *path)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_create, path}};
	struct gate_case k = {.op = &op};
	struct file_rules rules;

	policy_decide_file(gate_policy(watch_gate(fs)), path, false, &rules);
	gate_ask_file(watch_gate(fs), &k, &rules);
	settle(fs, &k, GATE_DONE);
}

/* ---- threads ---- */

static void finish(struct restore *one)
{
	struct restores *r = one->all;

	pthread_mutex_lock(&r->lock);
	STAILQ_INSERT_TAIL(&r->over, one, next);
	r->wake(r->arg);
	r->running--;
	pthread_cond_signal(&r->one_over);
	pthread_mutex_unlock(&r->lock);
}

static void *run(void *arg)
{
	struct restore *one = arg;
	struct fs *fs = one->all->fs;
	const struct trash_target to = {-1, choose_tree, may_make, one};
	char *path = NULL;

	if (trash_restore(fs->setup.trash, one->is.entry, &to, &path, &one->is.err) == 0)
		record(fs, path);
	free(path);
	finish(one);
	return NULL;
}

void restore_start(struct restores *r, uint64_t entry, uint32_t req)
{
	struct restore *one = mem_new(struct restore);
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	*one = (struct restore){.all = r, .is = {.entry = entry, .req = req}};
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&r->lock);
	started = r->running < RESTORES_MAX && r->fs->setup.trash != NULL &&
		  pthread_create(&thread, &attr, run, one) == 0;
	r->running++;
	pthread_mutex_unlock(&r->lock);
	pthread_attr_destroy(&attr);
	if (started)
		return;
	if (r->fs->setup.trash == NULL)
		err_set(&one->is.err, E_NOT_FOUND, NULL, "this session keeps nothing in a trash");
	else
		err_set(&one->is.err, E_UNAVAILABLE, NULL,
			"the file server cannot restore now; try again");
	finish(one);
}

bool restores_next(struct restores *r, struct restored *out)
{
	struct restore *one;

	pthread_mutex_lock(&r->lock);
	one = STAILQ_FIRST(&r->over);
	if (one != NULL)
		STAILQ_REMOVE_HEAD(&r->over, next);
	pthread_mutex_unlock(&r->lock);
	if (one == NULL)
		return false;
	*out = one->is;
	free(one);
	return true;
}

struct restores *restores_new(struct fs *fs, void (*wake)(void *arg), void *arg)
{
	struct restores *r = mem_new(struct restores);

	r->fs = fs;
	r->wake = wake;
	r->arg = arg;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->one_over, NULL);
	STAILQ_INIT(&r->over);
	return r;
}

void restores_free(struct restores *r)
{
	struct restored over;

	if (r == NULL)
		return;
	pthread_mutex_lock(&r->lock);
	while (r->running > 0)
		pthread_cond_wait(&r->one_over, &r->lock);
	pthread_mutex_unlock(&r->lock);
	while (restores_next(r, &over))
		;
	pthread_cond_destroy(&r->one_over);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
