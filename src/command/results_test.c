// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "command/results.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct result *add(struct results *rs, const char *id)
{
	struct warden_result m = {.command_id = mem_strdup(id), .exit_code = 1};
	struct result *r = results_add(rs, &m);

	assert_null(m.command_id);
	return r;
}

static void ack(struct results *rs, const char *id)
{
	char *ids[] = {(char *)(uintptr_t)id, NULL};

	results_ack(rs, &(struct strv){ids, 1});
}

/* SES-8: a result is sent once, in order, when its end is in the journal; and again to the next API
 * child, until it is acknowledged. */
static void ses_8_a_result_is_kept_until_it_is_acknowledged(void **state)
{
	struct results rs;
	struct result *a, *b;

	results_init(&rs);
	a = add(&rs, "a");
	b = add(&rs, "b");
	assert_null(results_next(&rs));
	b->ready = true;
	assert_ptr_equal(results_next(&rs), b);
	a->ready = true;
	assert_ptr_equal(results_next(&rs), a);
	ack(&rs, "a"); /* it was not sent, so it cannot be stored */
	assert_ptr_equal(results_find(&rs, "a"), a);
	results_told(&rs, a);
	results_told(&rs, b);
	a->req = 7;
	assert_null(results_next(&rs));
	results_tell_again(&rs);
	assert_int_equal(a->req, 0);
	assert_ptr_equal(results_next(&rs), a);
	results_told(&rs, a);
	ack(&rs, "a");
	assert_null(results_find(&rs, "a"));
	ack(&rs, "nobody");
	assert_int_equal(rs.n, 1);
	assert_ptr_equal(results_next(&rs), b);
	results_done(&rs);
	assert_int_equal(rs.n, 0);
}

/* SES-8: the warden reports a started command again to a new API child. The journal may not have
 * its end yet. */
static void ses_8_a_start_is_told_again(void **state)
{
	struct results rs;
	struct result *a;

	results_init(&rs);
	a = add(&rs, "a");
	results_tell_again(&rs);
	assert_ptr_equal(results_next(&rs), a);
	results_told(&rs, a);
	assert_false(a->told);
	assert_null(results_next(&rs));
	a->ready = true;
	assert_ptr_equal(results_next(&rs), a);
	results_done(&rs);
}

/* FIL-2: a result waits for its own end and for every process that may have events of it, at most
 * until nothing is waited for. */
static void fil_2_a_result_waits_for_the_last_events(void **state)
{
	char *near[] = {(char *)"/b", NULL};
	struct process_settled none = {0},
			       failed = {.failed_errno = 2, .failed_path = mem_strdup("/a")};
	struct results rs;
	struct result *a, *b;

	results_init(&rs);
	a = add(&rs, "a");
	b = add(&rs, "b");
	a->unsettled = 2;
	b->unsettled = 1;
	strv_copy(&failed.similar, &(struct strv){near, 1});
	result_recorded(a, 5);
	assert_null(results_next(&rs));
	result_settled(a, &none);
	assert_null(results_next(&rs));
	result_settled(a, &failed);
	assert_ptr_equal(results_next(&rs), a);
	assert_int_equal(a->msg.ring_end, 5);
	assert_int_equal(a->msg.failed_errno, 2);
	assert_string_equal(a->msg.failed_path, "/a");
	assert_string_equal(a->msg.similar.v[0], "/b");
	assert_null(failed.failed_path);
	results_told(&rs, a);
	/* settled before it is recorded; too late an answer changes nothing */
	assert_true(results_unsettled(&rs));
	results_settle_all(&rs);
	assert_false(results_unsettled(&rs));
	assert_null(results_next(&rs));
	failed.failed_path = mem_strdup("/c");
	result_settled(b, &failed);
	assert_null(b->msg.failed_path);
	result_recorded(b, 6);
	assert_ptr_equal(results_next(&rs), b);
	free(failed.failed_path);
	results_done(&rs);
}

/* A refusal is sent once: the next API child gets it only if it was made without an API child. */
static void ses_8_a_refusal_is_sent_once(void **state)
{
	const struct err err = {.code = E_CONFLICT, .message = "no"};
	struct results rs;
	struct result *r;

	results_init(&rs);
	results_refuse(&rs, "a", 7, &err);
	results_refuse(&rs, "b", 8, &err);
	assert_null(results_find(&rs, "a"));
	r = results_next(&rs);
	assert_string_equal(r->msg.command_id, "a");
	assert_int_equal(r->req, 7);
	assert_string_equal(r->refusal->message, "no");
	results_told(&rs, r);
	assert_string_equal(results_next(&rs)->msg.command_id, "b");
	assert_int_equal(rs.refusals, 1);
	results_unlinked(&rs);
	assert_int_equal(rs.refusals, 0);
	assert_int_equal(rs.n, 0);
	results_refuse(&rs, "c", 9, &err);
	results_tell_again(&rs);
	r = results_next(&rs);
	assert_string_equal(r->msg.command_id, "c");
	results_told(&rs, r);
	assert_null(results_next(&rs));
	assert_int_equal(rs.n, 0);
}

/* SES-8: none is dropped; there is a limit instead. */
static void ses_8_there_is_a_limit(void **state)
{
	struct results rs;

	results_init(&rs);
	for (int i = 0; i < RESULTS_MAX; i++) {
		char id[16];

		assert_false(results_full(&rs));
		snprintf(id, sizeof(id), "c%d", i);
		add(&rs, id)->told = true;
	}
	assert_true(results_full(&rs));
	ack(&rs, "c17");
	assert_false(results_full(&rs));
	results_done(&rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_a_result_is_kept_until_it_is_acknowledged),
		cmocka_unit_test(ses_8_a_start_is_told_again),
		cmocka_unit_test(fil_2_a_result_waits_for_the_last_events),
		cmocka_unit_test(ses_8_a_refusal_is_sent_once),
		cmocka_unit_test(ses_8_there_is_a_limit),
	};

	return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
