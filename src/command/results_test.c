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

/* SES-8: told once, in order, when its end is in the journal; again to the next API child, until
 * acknowledged. */
static void ack(struct results *rs, const char *id)
{
	char *ids[] = {(char *)(uintptr_t)id, NULL};

	results_ack(rs, &(struct strv){ids, 1});
}

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
	ack(&rs, "a"); /* not told: cannot be stored */
	assert_ptr_equal(results_find(&rs, "a"), a);
	a->told = b->told = true;
	a->req = 7;
	assert_null(results_next(&rs));
	results_tell_again(&rs);
	assert_int_equal(a->req, 0);
	assert_ptr_equal(results_next(&rs), a);
	a->told = true;
	ack(&rs, "a");
	assert_null(results_find(&rs, "a"));
	ack(&rs, "nobody");
	assert_int_equal(rs.n, 1);
	assert_ptr_equal(results_next(&rs), b);
	results_done(&rs);
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
		cmocka_unit_test(ses_8_there_is_a_limit),
	};

	return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
