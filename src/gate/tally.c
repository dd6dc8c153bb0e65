// SPDX-License-Identifier: Apache-2.0
#include "gate/tally.h"
#include "base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* Commands that are remembered at a time. Processes that a command leaves behind may bring it back
 * after its end; then the one that was used longest ago goes. */
#define COMMANDS 64

struct tally_command {
	char id[ID_MAX + 1]; /* "": free */
	uint64_t used;
	unsigned open;
	unsigned over, reported; /* 1 << TALLY_…: limits that it met */
	struct failure {
		int error; /* errno; 0: none */
		char *path;
	} last, before; /* the last one and the one before it */
};

struct tally {
	atomic_uint_fast64_t operations, max;
	atomic_bool has_over; /* some are not reported */
	pthread_mutex_t lock; /* of what follows */
	uint64_t uses;
	struct tally_command command[COMMANDS];
};

struct tally *tally_new(void)
{
	struct tally *t = mem_new(struct tally);

	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void clear(struct tally_command *c)
{
	free(c->last.path);
	free(c->before.path);
	*c = (struct tally_command){0};
}

void tally_free(struct tally *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < COMMANDS; i++)
		clear(&t->command[i]);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* With the lock. */
static struct tally_command *find(struct tally *t, const char *id)
{
	for (size_t i = 0; id[0] != '\0' && i < COMMANDS; i++)
		if (strcmp(t->command[i].id, id) == 0)
			return &t->command[i];
	return NULL;
}

/* With the lock. */
static struct tally_command *find_or_add(struct tally *t, const char *id)
{
	struct tally_command *c = find(t, id);

	if (c == NULL) {
		c = &t->command[0];
		for (size_t i = 1; i < COMMANDS; i++)
			if (t->command[i].used < c->used)
				c = &t->command[i];
		clear(c);
		strcpy(c->id, id);
	}
	c->used = ++t->uses;
	return c;
}

void tally_limit(struct tally *t, uint64_t max)
{
	atomic_store(&t->max, max);
}

void tally_over(struct tally *t, const struct actor *actor, enum tally_limit limit)
{
	if (actor->command_id[0] == '\0')
		return;
	pthread_mutex_lock(&t->lock);
	struct tally_command *c = find_or_add(t, actor->command_id);

	c->over |= 1U << limit;
	if (c->over & ~c->reported)
		atomic_store(&t->has_over, true);
	pthread_mutex_unlock(&t->lock);
}

bool tally_has_over(const struct tally *t)
{
	return atomic_load(&t->has_over);
}

bool tally_allows(struct tally *t, const struct actor *actor)
{
	const uint64_t max = atomic_load(&t->max);

	if (max == 0 || atomic_load(&t->operations) < max)
		return true;
	tally_over(t, actor, TALLY_max_file_ops);
	return false;
}

static bool is_last(const struct tally_command *c, int error, const char *path)
{
	return c->last.error == error && strcmp(c->last.path, path) == 0;
}

void tally_failed(struct tally *t, const struct actor *actor, int error, const char *path)
{
	if (actor->command_id[0] == '\0')
		return;
	pthread_mutex_lock(&t->lock);
	struct tally_command *c = find_or_add(t, actor->command_id);

	if (!is_last(c, error, path)) {
		free(c->before.path);
		c->before = c->last;
		c->last = (struct failure){error, mem_strdup(path)};
	}
	pthread_mutex_unlock(&t->lock);
}

/* The name that an operation has made, or NULL. */
static const char *made(const struct gate_case *k, const struct gate_report *r)
{
	switch (r->type) {
	case EVENT_file_rename:
	case EVENT_file_link:
		return r->to;
	case EVENT_file_create:
	case EVENT_file_mknod:
	case EVENT_dir_create:
	case EVENT_symlink_create:
		return k->op->file.path;
	default:
		return NULL;
	}
}

/* The kernel looks for a name before it makes it. That this look-up found none is not a failure. */
static void forget_look_up(struct tally *t, const struct actor *actor, const char *name)
{
	struct tally_command *c;

	pthread_mutex_lock(&t->lock);
	c = find(t, actor->command_id);
	if (c != NULL && is_last(c, ENOENT, name)) {
		free(c->last.path);
		c->last = c->before;
		c->before = (struct failure){0};
	}
	pthread_mutex_unlock(&t->lock);
}

void tally_settled(struct tally *t, const struct gate_case *k, const struct gate_report *r)
{
	const char *name = r->outcome == GATE_DONE ? made(k, r) : NULL;

	atomic_fetch_add(&t->operations, r->count > 0 ? r->count : 1);
	if (r->outcome == GATE_FAILED && r->error != 0)
		tally_failed(t, &k->actor, r->error, k->op->file.path);
	else if (name != NULL)
		forget_look_up(t, &k->actor, name);
}

void tally_noticed(struct tally *t, const struct gate_case *k, const struct gate_report *r)
{
	const uint64_t max = atomic_load(&t->max);

	tally_settled(t, k, r);
	if (max != 0 && atomic_load(&t->operations) > max)
		tally_over(t, &k->actor, TALLY_max_file_ops);
}

void tally_opened(struct tally *t, const struct actor *actor)
{
	if (actor->command_id[0] == '\0')
		return;
	pthread_mutex_lock(&t->lock);
	find_or_add(t, actor->command_id)->open++;
	pthread_mutex_unlock(&t->lock);
}

void tally_closed(struct tally *t, const struct actor *actor)
{
	struct tally_command *c;

	pthread_mutex_lock(&t->lock);
	c = find(t, actor->command_id);
	if (c != NULL && c->open > 0)
		c->open--;
	pthread_mutex_unlock(&t->lock);
}

bool tally_next_over(struct tally *t, char command_id[ID_MAX + 1], enum tally_limit *limit)
{
	unsigned left = 0;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < COMMANDS && left == 0; i++) {
		struct tally_command *c = &t->command[i];

		left = c->over & ~c->reported;
		if (left == 0)
			continue;
		*limit = (enum tally_limit)__builtin_ctz(left);
		c->reported |= 1U << *limit;
		strcpy(command_id, c->id);
	}
	if (left == 0)
		atomic_store(&t->has_over, false);
	pthread_mutex_unlock(&t->lock);
	return left != 0;
}

unsigned tally_open_files(struct tally *t, const char *command_id)
{
	const struct tally_command *c;
	unsigned n;

	pthread_mutex_lock(&t->lock);
	c = find(t, command_id);
	n = c != NULL ? c->open : 0;
	pthread_mutex_unlock(&t->lock);
	return n;
}

int tally_forget(struct tally *t, const char *command_id, char **path)
{
	struct tally_command *c;
	int failed = 0;

	*path = NULL;
	pthread_mutex_lock(&t->lock);
	c = find(t, command_id);
	if (c != NULL) {
		failed = c->last.error;
		*path = take(c->last.path);
		clear(c);
	}
	pthread_mutex_unlock(&t->lock);
	return failed;
}
