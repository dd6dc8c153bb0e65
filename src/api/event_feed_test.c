// SPDX-License-Identifier: Apache-2.0
/* A feed on a real store: what it gives, when it falls behind, and how it catches up. */
#include "api/event_feed.h"
#include "base/log.h"
#include "event/testkit/store_testkit.h"

/* The subscriber: what it was given, as "1 2 3 ". */
struct reader {
	struct buf got;
	bool ready;
	unsigned room; /* not ready once this many were given; 0: no limit */
	unsigned n;
	bool answered;
};

static void on_answered(void *data)
{
	((struct reader *)data)->answered = true;
}

static void emit(uint64_t seq, enum event_type type, const char *json, size_t len, void *data)
{
	struct reader *r = data;
	char field[32];

	snprintf(field, sizeof(field), "{\"seq\":%llu,", (unsigned long long)seq);
	assert_true(len > strlen(field));
	assert_memory_equal(json, field, strlen(field));
	buf_addf(&r->got, "%llu ", (unsigned long long)seq);
	r->n++;
}

static bool ready(void *data)
{
	struct reader *r = data;

	return r->ready && (r->room == 0 || r->n < r->room);
}

static struct event_feed *open_feed(struct world *w, const struct event_query *filter,
				    uint64_t after, struct reader *r)
{
	r->ready = true;
	buf_adds(&r->got, "");
	return event_feed_open(w->store, filter, after,
			       &(struct event_feed_ops){emit, ready, on_answered, "agent", r});
}

/* Pumps, and waits for the store where it is asked; true if the feed is up to date then. */
static bool pump(struct world *w, struct event_feed *f, struct reader *r)
{
	r->answered = false;
	while (!event_feed_pump(f)) {
		if (!ready(r))
			return false;
		while (!r->answered)
			loop_turn(w->loop);
		r->answered = false;
	}
	return true;
}

static void add(struct world *w, enum event_type type, const char *session, const char *command)
{
	struct event e = {.type = type,
			  .session_id = event_lend(session),
			  .command_id = event_lend(command),
			  .count = 1};

	store_event(w->store, &e, NULL, 0);
}

static const struct event_query all = {0};

static void evt_6_a_feed_gives_what_is_safe(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &all, 0, &r);

	assert_true(pump(w, f, &r));
	add(w, EVENT_exec, "s", NULL);
	add(w, EVENT_exec, "s", NULL);
	assert_string_equal(r.got.data, "");
	world_turn(w);
	assert_string_equal(r.got.data, "1 2 ");
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "1 2 3 ");
	assert_true(pump(w, f, &r)); /* nothing comes twice */
	assert_string_equal(r.got.data, "1 2 3 ");
	event_feed_close(f);
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "1 2 3 ");
	buf_done(&r.got);
}

static void evt_6_a_feed_begins_with_what_it_missed(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f;

	for (int i = 0; i < 3; i++)
		add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	f = open_feed(w, &all, 1, &r);
	add(w, EVENT_exec, "s", NULL);
	world_turn(w);
	assert_string_equal(r.got.data, ""); /* 4 does not overtake 2 */
	assert_true(pump(w, f, &r));
	assert_string_equal(r.got.data, "2 3 4 ");
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "2 3 4 5 ");
	event_feed_close(f);
	buf_done(&r.got);
}

static void evt_6_a_feed_may_begin_in_the_future(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &all, 2, &r);

	assert_true(pump(w, f, &r));
	for (int i = 0; i < 3; i++)
		add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "3 ");
	event_feed_close(f);
	buf_done(&r.got);
}

static void evt_6_a_slow_reader_falls_behind_and_catches_up(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &all, 0, &r);

	assert_true(pump(w, f, &r));
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	r.ready = false;
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "1 ");
	assert_false(pump(w, f, &r)); /* still no room */
	r.ready = true;
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "1 2 3 "); /* 3 does not overtake 2 */
	assert_true(pump(w, f, &r));
	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "1 2 3 4 ");
	event_feed_close(f);
	buf_done(&r.got);
}

/* More than is kept for it is read from the store, and what comes meanwhile follows. */
static void evt_6_a_reader_far_behind_is_given_all_in_order(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &all, 0, &r);
	cleanup_buf struct buf want = {0};
	char path[3001] = {0};
	unsigned seq = 0;

	memset(path, 'p', sizeof(path) - 1);
	r.ready = false;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 50; i++) {
			struct event e = {.type = EVENT_file_open, .path = path, .count = 1};

			store_event(w->store, &e, NULL, 0);
			buf_addf(&want, "%u ", ++seq);
		}
		if (round == 1) { /* the store is asked, and half an answer must not be the end */
			r.ready = true;
			assert_false(event_feed_pump(f));
		}
		world_turn(w);
	}
	assert_true(pump(w, f, &r));
	assert_string_equal(r.got.data, want.data);
	event_feed_close(f);
	buf_done(&r.got);
}

static void evt_6_a_feed_is_closed_while_the_store_is_asked(void **state)
{
	struct world *w = *state;
	struct reader r = {0};
	struct event_feed *f;

	add(w, EVENT_exec, "s", NULL);
	world_commit(w);
	f = open_feed(w, &all, 0, &r);
	assert_false(event_feed_pump(f));
	event_feed_close(f);
	f = open_feed(w, &all, 0, &r);
	assert_true(pump(w, f, &r));
	assert_string_equal(r.got.data, "1 ");
	event_feed_close(f);
	buf_done(&r.got);
}

/* What a reader has no room for but would not be given anyway does not set it back. */
static void evt_6_only_its_own_events_set_a_reader_back(void **state)
{
	struct world *w = *state;
	const struct event_query q = {.session_id = "mine"};
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &q, 0, &r);

	assert_true(pump(w, f, &r));
	r.ready = false;
	add(w, EVENT_exec, "other", NULL);
	world_commit(w);
	r.ready = true;
	add(w, EVENT_exec, "mine", NULL);
	world_commit(w);
	assert_string_equal(r.got.data, "2 ");
	event_feed_close(f);
	buf_done(&r.got);
}

/* Batches: a full one is followed by the next, and between two the reader is asked. */
static void evt_6_catching_up_goes_in_batches(void **state)
{
	static const unsigned counts[] = {63, 64, 65, 128, 150};
	struct world *w = *state;
	unsigned there = 0;

	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		struct reader r = {0};
		struct event_feed *f;

		for (; there < counts[i]; there++)
			add(w, EVENT_exec, "s", NULL);
		world_commit(w);
		f = open_feed(w, &all, 0, &r);
		assert_true(pump(w, f, &r));
		assert_int_equal(r.n, counts[i]);
		event_feed_close(f);
		buf_done(&r.got);
	}
	struct reader r = {.room = 10};
	struct event_feed *f = open_feed(w, &all, 0, &r);

	assert_false(pump(w, f, &r));
	assert_int_equal(r.n, 64);
	r.room = 65;
	assert_false(pump(w, f, &r));
	assert_int_equal(r.n, 128);
	r.room = 0;
	assert_true(pump(w, f, &r));
	assert_int_equal(r.n, 150);
	event_feed_close(f);
	buf_done(&r.got);
}

/* Each filter once from the store and once live. */
static void evt_6_filters(void **state)
{
	static const struct {
		struct event_query q;
		const char *first, *then;
	} rows[] = {
		{{.session_id = "a"}, "1 2 4 ", "7 8 10 "},
		{{.session_id = "b"}, "3 5 ", "9 11 "},
		{{.command_id = "c1"}, "2 5 ", "8 11 "},
		{{.session_id = "a", .command_id = "c1"}, "2 ", "8 "},
		{{.types = 1ULL << EVENT_command_started}, "2 3 ", "8 9 "},
		{{.types = 1ULL << EVENT_command_started | 1ULL << EVENT_exec},
		 "2 3 4 ",
		 "8 9 10 "},
		{{.session_id = "a", .types = 1ULL << EVENT_exec}, "4 ", "10 "},
		{{.session_id = "none"}, "", ""},
	};
	struct world *w = *state;
	struct reader r[ARRAY_LEN(rows)] = {0};
	struct event_feed *f[ARRAY_LEN(rows)];

	for (int round = 0; round < 2; round++) {
		add(w, EVENT_session_created, "a", NULL);
		add(w, EVENT_command_started, "a", "c1");
		add(w, EVENT_command_started, "b", "c2");
		add(w, EVENT_exec, "a", NULL);
		add(w, EVENT_command_finished, "b", "c1");
		add(w, EVENT_session_created, NULL, NULL); /* of no session */
		world_commit(w);
		for (size_t i = 0; round == 0 && i < ARRAY_LEN(rows); i++) {
			f[i] = open_feed(w, &rows[i].q, 0, &r[i]);
			assert_true(pump(w, f[i], &r[i]));
		}
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			assert_string_equal(r[i].got.data,
					    round == 0 ? rows[i].first : rows[i].then);
			buf_clear(&r[i].got);
			buf_adds(&r[i].got, "");
			r[i].got.data[0] = '\0';
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		event_feed_close(f[i]);
		buf_done(&r[i].got);
	}
}

/* The filter's strings may go away. */
static void evt_6_the_filter_is_copied(void **state)
{
	struct world *w = *state;
	char session[] = "mine", command[] = "c-1";
	const struct event_query q = {.session_id = session, .command_id = command};
	struct reader r = {0};
	struct event_feed *f = open_feed(w, &q, 0, &r);

	memset(session, 'x', 4);
	memset(command, 'x', 3);
	add(w, EVENT_exec, "mine", "c-1");
	world_commit(w);
	assert_true(pump(w, f, &r));
	add(w, EVENT_exec, "mine", "c-1");
	world_commit(w);
	assert_string_equal(r.got.data, "1 2 ");
	event_feed_close(f);
	buf_done(&r.got);
}

static void evt_6_closing_nothing_is_fine(void **state)
{
	event_feed_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_6_a_feed_gives_what_is_safe),
		TEST(evt_6_a_feed_begins_with_what_it_missed),
		TEST(evt_6_a_feed_may_begin_in_the_future),
		TEST(evt_6_a_slow_reader_falls_behind_and_catches_up),
		TEST(evt_6_a_reader_far_behind_is_given_all_in_order),
		TEST(evt_6_a_feed_is_closed_while_the_store_is_asked),
		TEST(evt_6_only_its_own_events_set_a_reader_back),
		TEST(evt_6_catching_up_goes_in_batches),
		TEST(evt_6_filters),
		TEST(evt_6_the_filter_is_copied),
		cmocka_unit_test(evt_6_closing_nothing_is_fine),
	};

	log_init("test", LOG_ERROR, LOG_TEXT, 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
