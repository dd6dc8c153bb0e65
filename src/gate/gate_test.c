// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "gate/gate.h"
#include "policy/policy_testkit.h"
#include <sys/mman.h>

static const char text[] = HEAD
	"command_rules:\n"
	"  - {name: no-id, commands: [id], decision: deny, final: true, message: \"not {path}\"}\n"
	"  - {name: list, commands: [ls], decision: allow}\n"
	"  - {name: print, commands: [cat], decision: allow}\n"
	"  - {name: other, commands: [who], decision: redirect, redirect_to: /bin/echo}\n"
	"  - {name: rest, commands: [\"*\"], decision: deny}\n";

static struct gate *open_gate(void)
{
	struct err err = {0};
	struct gate *g = NULL;
	struct kit k;
	const int fd = memfd_create("policy", MFD_CLOEXEC);

	kit_open(&k, text, NULL);
	assert_int_equal(fdio_write_all(fd, k.bytes.data, k.bytes.len), 0);
	assert_int_equal(gate_open(fd, &g, &err), 0);
	kit_close(&k);
	close(fd);
	return g;
}

static struct op exec_of(const char *path)
{
	return (struct op){.class = OP_EXEC, .exec = {.path = path}};
}

/* What the error of a first exec has stands in the event of any. */
static void pol_4_a_denial_is_the_same_in_an_error_and_in_an_event(void **state)
{
	struct gate *g = open_gate();
	const struct op op = exec_of("/usr/bin/id");
	struct denial d = {0};
	struct event e = {0};
	struct verdict v;
	cleanup_buf struct buf b = {0};
	char error[1024];

	gate_decide(g, &op, &v);
	gate_format_denial(g, &v, &op, error, sizeof(error));
	gate_fill(g, &v, &e);
	gate_fill_denial(g, &v, &op, &d, &e);
	denial_format(&d, &JW(&b));
	assert_string_equal(b.data, error);
	assert_string_equal(e.decision, "deny");
	assert_string_equal(e.policy_rule, "no-id");
	assert_string_equal(e.denied_reason, "not /usr/bin/id");
	assert_string_equal(e.denied_op, "exec");
	assert_string_equal(e.denied_target, "/usr/bin/id");
	assert_int_equal(e.denied_final, 1);
	assert_int_equal(e.alternatives.n, 2);
	assert_non_null(strstr(error, "\"final\":true,\"alternatives\":["));
	denial_done(&d);
	gate_close(g);
}

static void pol_4_alternatives_are_left_out_where_they_do_not_fit(void **state)
{
	struct gate *g = open_gate();
	const struct op op = exec_of("/usr/bin/id");
	struct verdict v;
	char whole[1024], less[1024], none[8];
	size_t len;

	gate_decide(g, &op, &v);
	gate_format_denial(g, &v, &op, whole, sizeof(whole));
	len = strlen(whole);
	gate_format_denial(g, &v, &op, less, len + 1);
	assert_string_equal(less, whole);
	gate_format_denial(g, &v, &op, less, len);
	assert_null(strstr(less, "alternatives"));
	assert_non_null(strstr(less, "\"final\":true}"));
	gate_format_denial(g, &v, &op, none, sizeof(none));
	assert_string_equal(none, "");
	gate_close(g);
}

static void pol_4_what_goes_ahead_has_no_denial(void **state)
{
	struct gate *g = open_gate();
	const struct op op = exec_of("/usr/bin/ls");
	struct denial d = {0};
	struct event e = {0};
	struct verdict v;

	gate_decide(g, &op, &v);
	gate_fill(g, &v, &e);
	gate_fill_denial(g, &v, &op, &d, &e);
	assert_string_equal(e.decision, "allow");
	assert_null(e.denied_op);
	assert_null(e.real_path);
	assert_int_equal(e.alternatives.n, 0);
	denial_done(&d);
	gate_close(g);
}

static void pol_2_the_event_of_a_redirect_says_what_runs(void **state)
{
	struct gate *g = open_gate();
	const struct op op = exec_of("/usr/bin/who");
	struct event e = {0};
	struct verdict v;

	gate_decide(g, &op, &v);
	gate_fill(g, &v, &e);
	assert_string_equal(e.policy_effective, "allow");
	assert_string_equal(e.real_path, "/bin/echo");
	gate_close(g);
}

/* What `policy test` says and what is done is made by the same function. */
static void pol_2_an_approve_without_an_approver_is_a_denial(void **state)
{
	struct verdict v = {.decision = DECISION_approve, .effective = DECISION_approve};

	gate_resolve(&v, true);
	assert_int_equal(v.effective, DECISION_approve);
	gate_resolve(&v, false);
	assert_int_equal(v.decision, DECISION_approve);
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.why, "no approver");
}

static void pol_2_an_approve_in_shadow_mode_goes_ahead(void **state)
{
	for (int approver = 0; approver < 2; approver++) {
		struct verdict v = {.decision = DECISION_approve,
				    .effective = DECISION_approve,
				    .shadow = true};

		gate_resolve(&v, approver != 0);
		assert_int_equal(v.effective, DECISION_allow);
		assert_null(v.why);
	}
}

static void pol_4_a_gate_needs_a_policy(void **state)
{
	const int fd = memfd_create("policy", MFD_CLOEXEC);
	struct gate *g = NULL;
	struct err err = {0};

	assert_int_equal(gate_open(-1, &g, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "exec_policy");
	assert_int_equal(gate_open(fd, &g, &err), -E_ENFORCEMENT);
	assert_int_equal(fdio_write_all(fd, "x", 1), 0);
	assert_true(gate_open(fd, &g, &err) < 0);
	assert_null(g);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_denial_is_the_same_in_an_error_and_in_an_event),
		cmocka_unit_test(pol_4_alternatives_are_left_out_where_they_do_not_fit),
		cmocka_unit_test(pol_4_what_goes_ahead_has_no_denial),
		cmocka_unit_test(pol_2_the_event_of_a_redirect_says_what_runs),
		cmocka_unit_test(pol_2_an_approve_without_an_approver_is_a_denial),
		cmocka_unit_test(pol_2_an_approve_in_shadow_mode_goes_ahead),
		cmocka_unit_test(pol_4_a_gate_needs_a_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
