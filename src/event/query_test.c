// SPDX-License-Identifier: Apache-2.0
/* Budgets of queries: where they end, and how the rest is found. */
#include "event/query.h"
#include "event/testkit/store_testkit.h"

/* Events 1, 4, 7… are of session a, the others of b; every fifth one was denied. */
#define EVENTS 1000

static void fill(struct world *w)
{
	for (unsigned i = 1; i <= EVENTS; i++) {
		struct event e = {.type = i % 2 ? EVENT_exec : EVENT_file_open,
				  .session_id = event_lend(i % 3 == 1 ? "a" : "b"),
				  .decision = event_lend(i % 5 ? "allow" : "deny"),
				  .policy_decision = event_lend("log"),
				  .policy_effective = event_lend("allow"),
				  .time_us = 1000 + i};

		store_event(w->store, &e, NULL, 0);
	}
	world_commit(w);
}

struct seen {
	uint64_t last;
	unsigned n;
};

static void on_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *data)
{
	struct seen *s = data;

	assert_true(seq > s->last);
	s->last = seq;
	s->n++;
}

static struct event_page run(struct world *w, const struct event_query *q,
			     const struct query_budget *budget, struct seen *seen)
{
	struct event_page page = {0};
	struct err err = {0};

	assert_int_equal(query_run(store_db(w->store), q, budget, true, on_row, seen, &page, &err),
			 0);
	return page;
}

static const struct query_budget plenty = {EVENTS * 2, 60 * 1000000, 1 << 24, EVENTS, NULL};

static void evt_3_a_total_is_counted_to_a_limit(void **state)
{
	static const struct {
		struct event_query q;
		uint64_t counted, total;
		bool exact;
	} row[] = {
		{{.limit = 10}, 99, 99, false},
		{{.limit = 10}, EVENTS - 1, EVENTS - 1, false},
		{{.limit = 10}, EVENTS, EVENTS, true},
		{{.limit = 10, .session_id = "a"}, 333, 333, false},
		{{.limit = 10, .session_id = "a"}, 334, 334, true},
		{{.limit = 100}, 50, 100, false}, /* as many as are given are known */
		{{.limit = EVENTS}, 50, EVENTS, false},
		{{.limit = EVENTS + 1}, 50, EVENTS, true},
		{{.limit = 10, .offset = 80, .decision = "deny"}, 199, 199, false},
		{{.limit = 10, .offset = 80, .decision = "deny"}, 200, 200, true},
		{{.limit = 10, .without_denied = true}, EVENTS, 800, true},
		{{.limit = 10, .session_id = "a", .without_denied = true}, EVENTS, 267, true},
	};
	struct world *w = *state;

	fill(w);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct query_budget budget = plenty;
		struct seen seen = {0};
		struct event_page page;

		budget.counted = row[i].counted;
		page = run(w, &row[i].q, &budget, &seen);
		assert_int_equal(page.total, row[i].total);
		assert_int_equal(page.total_exact, row[i].exact);
		assert_false(page.partial);
		assert_int_equal(page.next != 0, seen.n == row[i].q.limit);
	}
}

/* Followed to the end, the parts are the whole, whatever ends them. */
static void evt_3_the_parts_of_an_answer_are_the_whole(void **state)
{
	static const struct {
		struct event_query q;
		unsigned want;
	} rows[] = {
		{{0}, EVENTS},
		{{.session_id = "a"}, 334},
		{{.types = 1ULL << EVENT_exec}, 500},
		{{.types = 1ULL << EVENT_exec | 1ULL << EVENT_file_open}, EVENTS},
		{{.session_id = "a", .types = 1ULL << EVENT_exec | 1ULL << EVENT_file_open}, 334},
		{{.session_id = "a", .decision = "deny"}, 67},
		{{.decision = "deny", .types = 1ULL << EVENT_exec}, 100},
		{{.session_id = "b", .decision = "log"}, 666},
		{{.decision = "approve"}, 0},
		{{.since_us = 1101, .until_us = 1201}, 100},
		{{.session_id = "a", .since_us = 1101}, 300},
		{{.session_id = "a", .offset = 300}, 34},
		{{.decision = "approve", .offset = 3}, 0},
		{{.offset = EVENTS + 1}, 0},
	};
	static const struct query_budget budgets[] = {
		{1, 60 * 1000000, 1 << 24, EVENTS, NULL},
		{7, 60 * 1000000, 1 << 24, EVENTS, NULL},
		{EVENTS, 60 * 1000000, 1, EVENTS, NULL},
		{EVENTS * 2, 0, 1 << 24, EVENTS, NULL}, /* its time is over at once */
	};
	struct world *w = *state;

	fill(w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t b = 0; b < ARRAY_LEN(budgets); b++) {
			struct event_query q = rows[i].q;
			struct seen seen = {0};
			struct event_page page;
			unsigned parts = 0;

			do {
				page = run(w, &q, &budgets[b], &seen);
				assert_int_equal(page.partial, page.next != 0);
				assert_true(!page.partial || page.next > q.after_seq);
				assert_int_equal(page.total_exact, !page.partial);
				q.after_seq = page.next;
				q.offset = page.skip;
				parts++;
			} while (page.partial);
			assert_int_equal(seen.n, rows[i].want);
			if (rows[i].want > 64)
				assert_true(parts > 1);
		}
}

static void evt_3_a_cancelled_query_ends(void **state)
{
	struct world *w = *state;
	atomic_bool cancelled = true;
	struct query_budget budget = plenty;
	struct seen seen = {0};
	struct event_page page;

	fill(w);
	budget.cancelled = &cancelled;
	page = run(w, &(struct event_query){0}, &budget, &seen);
	assert_true(page.partial);
	assert_true(seen.n < EVENTS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_3_a_total_is_counted_to_a_limit),
		TEST(evt_3_the_parts_of_an_answer_are_the_whole),
		TEST(evt_3_a_cancelled_query_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
