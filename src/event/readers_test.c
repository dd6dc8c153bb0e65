// SPDX-License-Identifier: Apache-2.0
/* Queries on threads: what they see, whose turn it is, and what ends them. */
#include "event/readers.h"
#include "event/testkit/store_testkit.h"

struct asked {
	struct world *w;
	struct store_ask *ask;
	const char *name;
	bool done;
	size_t n;
	enum err_code code;
};

static void on_answer(const struct event_answer *answer, void *data)
{
	struct asked *a = data;

	a->ask = NULL;
	a->done = true;
	a->n = answer->n;
	a->code = answer->err.code;
	buf_addf(&a->w->heard, "%s ", a->name);
}

static int ask(struct world *w, struct asked *a, const char *name, const char *caller, bool patient,
	       struct err *err)
{
	static const struct event_query all = {.limit = 10000, .decision = "approve"};
	static const struct event_query given = {.limit = 10000, .session_id = "s"};

	*a = (struct asked){.w = w, .name = name};
	return store_ask(w->store, *name == 'x' ? &all : &given,
			 &(struct store_asking){.caller = caller,
						.count = true,
						.patient = patient,
						.fn = on_answer,
						.arg = a},
			 &a->ask, err);
}

static void wait_for(struct asked *a)
{
	while (!a->done)
		loop_turn(a->w->loop);
	assert_int_equal(a->code, E_OK);
}

/* An answer has all that was written before the question, committed or not. */
static void evt_3_an_answer_has_what_was_written_before(void **state)
{
	struct world *w = *state;
	struct asked a;

	for (size_t i = 1; i < 20; i++) {
		world_put(w, "s");
		assert_int_equal(ask(w, &a, "a", "agent", i % 2, NULL), 0);
		assert_false(a.done);
		wait_for(&a);
		assert_int_equal(a.n, i);
	}
}

/* It waits for those alone: a store that is written all the time answers too. */
static void evt_3_an_answer_does_not_wait_for_what_is_written_later(void **state)
{
	struct world *w = *state;
	struct asked a;

	world_put(w, "s");
	world_turn(w);
	assert_int_equal(ask(w, &a, "a", "agent", true, NULL), 0);
	w->store->fresh = false;
	watch_soon(w->store->commit_due);
	world_turn(w);
	world_put(w, "s");
	world_turn(w);
	world_hold(w);
	wait_for(&a);
	assert_int_equal(a.n, 1);
}

static void fill(struct world *w, unsigned n)
{
	struct event e = {.type = EVENT_exec,
			  .session_id = event_lend("other"),
			  .policy_decision = event_lend("log"),
			  .policy_effective = event_lend("allow")};

	for (unsigned i = 0; i < n; i++)
		store_event(w->store, &e, NULL, 0);
	world_commit(w);
}

/* The second caller asks last and is answered before the first one's fourth question. */
static void evt_3_callers_take_turns(void **state)
{
	static const char *const names[] = {"x1", "x2", "x3", "x4", "x5"};
	struct world *w = *state;
	struct asked many[ARRAY_LEN(names)], one;

	fill(w, 5000);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(ask(w, &many[i], names[i], "agent", false, NULL), 0);
	assert_int_equal(ask(w, &one, "one", "another", false, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		wait_for(&many[i]);
	wait_for(&one);
	buf_adds(&w->heard, "");
	assert_true(strstr(w->heard.data, "one ") < strstr(w->heard.data, "x5 "));
	assert_true(strstr(w->heard.data, "one ") < strstr(w->heard.data, "x4 "));
}

/* Each connection has one question at most: their number needs no other limit. */
static void evt_3_a_hundred_questions_of_one_caller_are_answered(void **state)
{
	struct world *w = *state;
	struct asked a[100], other;

	world_put(w, "s");
	world_hold(w); /* all wait for the commit */
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		assert_int_equal(ask(w, &a[i], "a", "agent", false, NULL), 0);
	assert_int_equal(ask(w, &other, "other", "another", false, NULL), 0);
	world_commit(w);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		wait_for(&a[i]);
	wait_for(&other);
}

/* Cancelled while it waits, is queued or runs, a question is not answered; others are. */
static void evt_3_a_question_can_be_taken_back(void **state)
{
	struct world *w = *state;
	struct asked gone[12], kept;

	fill(w, 5000);
	for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
		if (i == 6) {
			world_put(w, "s");
			world_hold(w);
		}
		assert_int_equal(ask(w, &gone[i], "x", "agent", false, NULL), 0);
	}
	assert_int_equal(ask(w, &kept, "kept", "agent", false, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		store_ask_cancel(gone[i].ask);
	world_commit(w);
	wait_for(&kept);
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		assert_false(gone[i].done);
	store_ask_cancel(NULL);
}

static void evt_3_a_store_is_closed_while_it_is_asked(void **state)
{
	struct world *w = *state;
	struct asked a[8];

	fill(w, 5000);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		if (i == 6) {
			world_put(w, "s");
			world_hold(w);
		}
		assert_int_equal(ask(w, &a[i], "x", "agent", i % 2, NULL), 0);
	}
	store_close(w->store);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		assert_false(a[i].done);
	world_open(w);
}

/* While nothing can be written an answer has what is there, and a patient one waits. */
static void evt_3_answers_while_the_database_cannot_be_written(void **state)
{
	struct world *w = *state;
	struct asked a, patient;

	world_put(w, "s");
	world_commit(w);
	sqlite3_exec(store_db(w->store), "PRAGMA query_only=1", NULL, NULL, NULL);
	world_put(w, "s");
	assert_int_equal(ask(w, &a, "a", "agent", false, NULL), 0);
	assert_int_equal(ask(w, &patient, "p", "agent", true, NULL), 0);
	assert_true(store_commit(w->store, NULL) < 0);
	wait_for(&a);
	assert_int_equal(a.n, 1);
	assert_int_equal(ask(w, &a, "a", "agent", false, NULL), 0);
	wait_for(&a);
	assert_false(patient.done);
	sqlite3_exec(store_db(w->store), "PRAGMA query_only=0", NULL, NULL, NULL);
	world_commit(w);
	wait_for(&patient);
	assert_int_equal(patient.n, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_3_an_answer_has_what_was_written_before),
		TEST(evt_3_an_answer_does_not_wait_for_what_is_written_later),
		TEST(evt_3_callers_take_turns),
		TEST(evt_3_a_hundred_questions_of_one_caller_are_answered),
		TEST(evt_3_a_question_can_be_taken_back),
		TEST(evt_3_a_store_is_closed_while_it_is_asked),
		TEST(evt_3_answers_while_the_database_cannot_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
