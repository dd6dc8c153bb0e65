// SPDX-License-Identifier: Apache-2.0
#include "api/event_feed.h"
#include "base/log.h"
#include "base/mem.h"

#define FEED_BATCH 64

struct event_feed {
	struct store *store;
	char *session_id, *command_id; /* owned, or NULL */
	uint64_t types;
	uint64_t last;	/* given so far */
	bool caught_up; /* everything committed before was given */
	struct event_feed_ops ops;
};

static bool matches(const struct event_feed *f, const struct event *e)
{
	if (f->types != 0 && (f->types & (1ull << e->type)) == 0)
		return false;
	if (f->session_id != NULL &&
	    (e->session_id == NULL || strcmp(e->session_id, f->session_id) != 0))
		return false;
	return f->command_id == NULL ||
	       (e->command_id != NULL && strcmp(e->command_id, f->command_id) == 0);
}

static void on_event(uint64_t seq, const struct event *e, const char *json, size_t len, void *arg)
{
	struct event_feed *f = arg;

	if (!f->caught_up || seq <= f->last || !matches(f, e))
		return;
	if (!f->ops.ready(f->ops.arg)) {
		f->caught_up = false;
		return;
	}
	f->last = seq;
	f->ops.emit(seq, json, len, f->ops.arg);
}

struct event_feed *event_feed_open(struct store *store, const struct event_query *filter,
				   uint64_t after_seq, const struct event_feed_ops *ops)
{
	struct event_feed *f = mem_new(struct event_feed);

	f->store = store;
	f->session_id = mem_strdup(filter->session_id);
	f->command_id = mem_strdup(filter->command_id);
	f->types = filter->types;
	f->last = after_seq;
	f->ops = *ops;
	store_add_sink(store, on_event, f);
	return f;
}

struct batch {
	struct event_feed *feed;
	uint64_t safe;
	unsigned n;
};

static void on_row(uint64_t seq, const char *json, size_t len, void *arg)
{
	struct batch *b = arg;

	/* The query also sees the open turn. */
	if (seq > b->safe)
		return;
	b->n++;
	b->feed->last = seq;
	b->feed->ops.emit(seq, json, len, b->feed->ops.arg);
}

bool event_feed_pump(struct event_feed *f)
{
	const struct event_query base = {.session_id = f->session_id,
					 .command_id = f->command_id,
					 .types = f->types,
					 .limit = FEED_BATCH};

	while (!f->caught_up && f->ops.ready(f->ops.arg)) {
		struct event_query q = base;
		struct batch b = {f, store_last_seq(f->store), 0};
		struct err err = {0};

		q.after_seq = f->last;
		if (store_query(f->store, &q, on_row, &b, NULL, &err) < 0) {
			log_error("events cannot be read", "error", err.message);
			return false;
		}
		/* What is safe but not in the database yet cannot be read while that fails. */
		if (b.n < FEED_BATCH && store_failing(f->store, NULL) < 0)
			return false;
		f->caught_up = b.n < FEED_BATCH;
	}
	return f->caught_up;
}

void event_feed_close(struct event_feed *f)
{
	if (f == NULL)
		return;
	store_remove_sink(f->store, on_event, f);
	free(f->session_id);
	free(f->command_id);
	free(f);
}
