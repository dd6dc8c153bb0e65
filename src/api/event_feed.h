// SPDX-License-Identifier: Apache-2.0
/* api/event_feed.h - a subscriber's place in the sequence of events.
 *
 * A subscriber that keeps up gets events as they are committed; one that does not is read from the
 * store again when it has room, so that nothing is buffered for it and nothing is lost. */
#pragma once
#include "event/store.h"

struct event_feed;
struct event_feed_ops {
	/* Gives one event; must not close the feed. */
	void (*emit)(uint64_t seq, const char *json, size_t len, void *arg);
	bool (*ready)(void *arg); /* may more be given now? */
	void *arg;
};
/* filter's session_id, command_id and types apply; its strings are copied. Starts behind after_seq.
 */
struct event_feed *event_feed_open(struct store *store, const struct event_query *filter,
				   uint64_t after_seq, const struct event_feed_ops *ops);
/* Reads what was missed from the store while the subscriber is ready; true if it is up to date. */
bool event_feed_pump(struct event_feed *f);
void event_feed_close(struct event_feed *f); /* NULL is fine */
