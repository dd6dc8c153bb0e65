// SPDX-License-Identifier: Apache-2.0
/* Events by SSE, and history by filters. */
#include "api/event_feed.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/verdict.h"
#include <inttypes.h>
#include <stdio.h>

#define KEEPALIVE_S 15
#define HISTORY_DEFAULT 100
#define HISTORY_MAX 10000

struct subscription {
	struct call *call;
	struct event_feed *feed;
	struct watch *keepalive;
	uint64_t types; /* asked for; 0: all */
	bool last;	/* the session's last event has come */
};

#define ENDS (1ULL << EVENT_session_destroyed | 1ULL << EVENT_session_failed)

static void take_seq(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	*(uint64_t *)arg = seq;
}

/* Whether the session ended at or before this sequence number: then no event follows. */
static bool over_at(struct call *call, uint64_t after)
{
	const struct event_query q = {
		.session_id = session_id(call->session), .types = ENDS, .limit = 1};
	uint64_t end = 0;

	return store_query(call->api->store, &q, take_seq, &end, NULL, NULL) == 0 && end != 0 &&
	       end <= after;
}

static void subscription_left(struct call *call, bool gone)
{
	struct subscription *s = call->work;

	event_feed_close(s->feed);
	watch_free(s->keepalive);
	free(s);
}

static bool can_send(void *arg)
{
	struct subscription *s = arg;

	return call_has_room(s->call);
}

static void emit(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct subscription *s = arg;
	const uint64_t end = 1ULL << type & ENDS;

	if (end == 0 || s->types == 0 || (s->types & end) != 0)
		call_send(s->call, CALL_FEED, seq, json, len);
	if (end != 0) {
		s->last = true;
		watch_soon(s->keepalive); /* the call ends outside of the feed's callback */
	}
}

static void on_room(struct call *call)
{
	struct subscription *s = call->work;

	event_feed_pump(s->feed);
}

static const struct call_stream stream = {.room = on_room};

static void on_answered(void *arg)
{
	struct subscription *s = arg;

	event_feed_pump(s->feed);
}

/* Also pumps a feed that fell behind although the socket was never full. */
static void on_keepalive(void *arg)
{
	struct subscription *s = arg;

	if (s->last) {
		call_stream_end(s->call);
		return;
	}
	watch_after(s->keepalive, KEEPALIVE_S * 1000);
	call_send(s->call, CALL_ALIVE, 0, NULL, 0);
	event_feed_pump(s->feed);
}

static int start_seq(struct call *call, uint64_t *seq, struct err *err)
{
	const char *last = call_param(call, "Last-Event-ID");

	if (last == NULL) {
		*seq = store_last_seq(call->api->store);
		return 0;
	}
	if (*last == '\0' || strlen(last) > 18 || strspn(last, "0123456789") != strlen(last))
		return err_set(err, E_BAD_REQUEST, "Last-Event-ID",
			       "not a sequence number: '%.40s'", last);
	*seq = strtoull(last, NULL, 10);
	return 0;
}

void api_events_stream(struct call *call)
{
	struct event_query q = {.session_id = session_id(call->session)};
	const char *types = call_param(call, "type");
	struct subscription *s;
	uint64_t after = 0;
	struct err err = {0};

	if ((types != NULL && event_types_parse(types, &q.types, &err) < 0) ||
	    start_seq(call, &after, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	call_stream_begin(call, &stream);
	if (over_at(call, after) || call->head_only) {
		call_stream_end(call);
		return;
	}
	s = mem_new(struct subscription);
	s->call = call;
	s->types = q.types;
	q.types |= q.types != 0 ? ENDS : 0; /* the end of the session is always needed */
	s->keepalive = watch_timer(call->api->loop, on_keepalive, s);
	watch_after(s->keepalive, KEEPALIVE_S * 1000);
	call->work = s;
	call->work_free = subscription_left;
	s->feed = event_feed_open(
		call->api->store, &q, after,
		&(struct event_feed_ops){emit, can_send, on_answered, call->who.agent_id, s});
	event_feed_pump(s->feed);
}

/* "1h" (before now), or RFC 3339. */
static int64_t time_parameter(struct call *call, const char *name, struct err *err)
{
	const char *s = call_param(call, name);
	struct err ignored = {0};
	int64_t v;

	if (s == NULL)
		return 0;
	if (clock_parse(s, &v) == 0)
		return v;
	if (json_duration_parse(s, &v, &ignored) == 0)
		return clock_wall_us(&clock_system) - v * 1000;
	err_detail(err, name, "neither a duration (1h) nor RFC 3339: '%.40s'", s);
	return 0;
}

/* A sequence number and, behind a colon, how many matches to skip. */
static void cursor_parameter(struct call *call, struct event_query *q, struct err *err)
{
	const char *s = call_param(call, "cursor");
	unsigned long long seq = 0, skip = 0;
	char end = '\0';
	int n;

	if (s == NULL)
		return;
	n = strspn(s, "0123456789:") == strlen(s) && strlen(s) <= 30
		    ? sscanf(s, "%19llu:%10llu%c", &seq, &skip, &end)
		    : 0;
	if (n < 1 || n > 2 || seq > INT64_MAX || skip > UINT32_MAX ||
	    (n == 1) != (strchr(s, ':') == NULL))
		err_detail(err, "cursor", "not a 'next' of an answer: '%.40s'", s);
	q->after_seq = seq;
	if (n == 2)
		q->offset = (unsigned)skip;
}

static int read_query(struct call *call, struct event_query *q, struct err *err)
{
	const char *types = call_param(call, "type");
	enum decision decision;
	int r;

	q->command_id = call_param(call, "command_id");
	q->decision = call_param(call, "decision");
	if (q->decision != NULL && !decision_parse(q->decision, &decision))
		err_detail(err, "decision",
			   "allow, deny, approve, log, redirect or soft_delete, not '%.40s'",
			   q->decision);
	q->since_us = time_parameter(call, "since", err);
	q->until_us = time_parameter(call, "until", err);
	q->limit = call_limit(call, HISTORY_DEFAULT, HISTORY_MAX, err);
	q->offset = (unsigned)call_number(call, "offset", 0, UINT32_MAX, err);
	cursor_parameter(call, q, err);
	r = err_from_details(err, NULL);
	if (r == 0 && types != NULL)
		r = event_types_parse(types, &q->types, err);
	return r;
}

static void on_history(const struct event_answer *answer, void *arg)
{
	const struct event_page *page = &answer->page;
	struct call *call = arg;
	struct jw *w = &call->w;
	char next[40] = "";

	call->work = NULL;
	if (answer->err.code != E_OK) {
		call_fail(call, &answer->err);
		return;
	}
	if (page->next != 0 && page->skip > 0)
		snprintf(next, sizeof(next), "%" PRIu64 ":%u", page->next, page->skip);
	else if (page->next != 0)
		snprintf(next, sizeof(next), "%" PRIu64, page->next);
	jw_obj(w);
	jw_karr(w, "events");
	if (answer->n > 0)
		jw_raw(w, answer->events.data, answer->events.len);
	jw_arr_end(w);
	jw_kstr(w, "next", next);
	jw_kint(w, "total", (int64_t)page->total);
	jw_kbool(w, "total_exact", page->total_exact);
	jw_kbool(w, "partial", page->partial);
	jw_obj_end(w);
	call_reply(call, 200);
}

static void history_left(struct call *call, bool gone)
{
	store_ask_cancel(call->work);
}

void api_events_history(struct call *call)
{
	struct event_query q = {.session_id = call->session != NULL
						      ? session_id(call->session)
						      : call_param(call, "session_id")};
	struct store_ask *ask = NULL;
	struct err err = {0};

	if (read_query(call, &q, &err) < 0 ||
	    store_ask(call->api->store, &q,
		      &(struct store_asking){.caller = call->who.agent_id,
					     .count = true,
					     .fn = on_history,
					     .arg = call},
		      &ask, &err) < 0) {
		call_fail(call, &err);
		return;
	}
	call->work = ask;
	call->work_free = history_left;
}
