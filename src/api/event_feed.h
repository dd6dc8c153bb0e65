// SPDX-License-Identifier: Apache-2.0
/* api/event_feed.h - a subscriber's place in the sequence of events.
 *
 * A subscriber that keeps up gets events as they become safe. For a slow one the feed keeps a few
 * in memory; if there are more, it reads them from the store (store_ask) when there is room. So
 * memory is bounded and no event is lost. */
#pragma once
#include "event/store.h"

struct event_feed;
struct event_feed_ops {
	/* Gives one event; must not close the feed. */
	void (*emit)(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg);
	bool (*ready)(void *arg); /* may more be given now? */
	/* The store has answered: time to pump again. May close the feed. */
	void (*answered)(void *arg);
	const char *caller; /* the caller, for store_ask; must outlive the feed */
	void *arg;
};
/* Starts behind after_seq. filter: session_id, command_id and types; strings are copied. */
struct event_feed *event_feed_open(struct store *store, const struct event_query *filter,
				   uint64_t after_seq, const struct event_feed_ops *ops);
/* Gives missed events while the subscriber is ready; true if it is up to date. If the store must be
 * asked, `answered` is called when it is time to pump again. */
bool event_feed_pump(struct event_feed *f);
void event_feed_close(struct event_feed *f); /* NULL is fine */
