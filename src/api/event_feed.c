// SPDX-License-Identifier: Apache-2.0
#include "api/event_feed.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"

#define FEED_BATCH 64
#define KEPT_MAX (64 * 1024) /* bytes of events */
#define RETRY_S 1	     /* after the store could not be read */

struct event_feed {
	struct store *store;
	char *session_id, *command_id; /* owned, or NULL */
	uint64_t types;
	uint64_t last; /* given so far */
	/* Events behind `last` are missing in `kept`: they are in the store. */
	bool gap;
	bool overrun; /* an event did not fit into kept after the store was asked */
	struct buf kept;
	size_t kept_at;	       /* those before were given */
	struct store_ask *ask; /* NULL: none is open */
	struct watch *again;
	struct event_feed_ops ops;
};

/* In front of a kept event's bytes. */
struct kept {
	uint64_t seq;
	enum event_type type;
	size_t len;
};

static bool matches(const struct event_feed *f, const struct stored_event *e)
{
	if (f->types != 0 && (f->types & (1ull << e->type)) == 0)
		return false;
	if (f->session_id != NULL &&
	    (e->session_id == NULL || strcmp(e->session_id, f->session_id) != 0))
		return false;
	return f->command_id == NULL ||
	       (e->command_id != NULL && strcmp(e->command_id, f->command_id) == 0);
}

static void drop_kept(struct event_feed *f)
{
	buf_clear(&f->kept);
	f->kept_at = 0;
}

static void emit(struct event_feed *f, uint64_t seq, enum event_type type, const char *json,
		 size_t len)
{
	if (seq <= f->last)
		return;
	f->last = seq;
	f->ops.emit(seq, type, json, len, f->ops.arg);
}

static void on_event(const struct stored_event *e, void *arg)
{
	struct event_feed *f = arg;
	const struct kept head = {e->seq, e->type, e->len};

	if (e->seq <= f->last || !matches(f, e))
		return;
	if (event_feed_pump(f) && f->ops.ready(f->ops.arg)) {
		emit(f, e->seq, e->type, e->json, e->len);
		return;
	}
	if (f->overrun || (f->gap && f->ask == NULL))
		return;
	if (f->kept.len + sizeof(head) + e->len <= KEPT_MAX) {
		buf_add(&f->kept, &head, sizeof(head));
		buf_add(&f->kept, e->json, e->len);
		return;
	}
	drop_kept(f);
	f->gap = true;
	f->overrun = f->ask != NULL;
}

static void on_again(void *arg)
{
	struct event_feed *f = arg;

	f->ops.answered(f->ops.arg);
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
	f->gap = after_seq < store_last_seq(store);
	f->ops = *ops;
	f->again = watch_timer(store_loop(store), on_again, f);
	store_add_sink(store, on_event, NULL, f);
	return f;
}

static void read_again(struct event_feed *f, const struct err *err)
{
	log_error("events cannot be read", "error", err->message);
	watch_after(f->again, RETRY_S * 1000);
}

static void on_answer(const struct event_answer *answer, void *arg)
{
	struct event_feed *f = arg;

	f->ask = NULL;
	if (answer->err.code != E_OK) {
		drop_kept(f);
		read_again(f, &answer->err);
		return;
	}
	for (size_t i = 0; i < answer->n; i++)
		emit(f, answer->row[i].seq, answer->row[i].type,
		     answer->events.data + answer->row[i].at, answer->row[i].len);
	if (answer->page.next > f->last)
		f->last = answer->page.next; /* no match lies before it */
	f->gap = answer->page.next != 0 || f->overrun;
	if (f->gap)
		drop_kept(f);
	f->ops.answered(f->ops.arg);
}

static void ask_store(struct event_feed *f)
{
	const struct event_query q = {.session_id = f->session_id,
				      .command_id = f->command_id,
				      .types = f->types,
				      .after_seq = f->last,
				      .limit = FEED_BATCH};
	struct err err = {0};

	if (f->ask != NULL || watch_due_us(f->again) != 0)
		return;
	f->overrun = false;
	if (store_ask(f->store, &q,
		      &(struct store_asking){
			      .caller = f->ops.caller, .patient = true, .fn = on_answer, .arg = f},
		      &f->ask, &err) < 0)
		read_again(f, &err);
}

bool event_feed_pump(struct event_feed *f)
{
	struct kept head;

	while (!f->gap && f->kept_at < f->kept.len && f->ops.ready(f->ops.arg)) {
		memcpy(&head, f->kept.data + f->kept_at, sizeof(head));
		f->kept_at += sizeof(head) + head.len;
		emit(f, head.seq, head.type, f->kept.data + f->kept_at - head.len, head.len);
	}
	if (!f->gap && f->kept_at == f->kept.len)
		drop_kept(f);
	if (f->gap && f->ops.ready(f->ops.arg))
		ask_store(f);
	return !f->gap && f->kept.len == 0;
}

void event_feed_close(struct event_feed *f)
{
	if (f == NULL)
		return;
	store_remove_sink(f->store, on_event, NULL, f);
	store_ask_cancel(f->ask);
	watch_free(f->again);
	buf_done(&f->kept);
	free(f->session_id);
	free(f->command_id);
	free(f);
}
