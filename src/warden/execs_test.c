// SPDX-License-Identifier: Apache-2.0
/* Execs of a real session under a policy. */
#include "bpf/bpf_map.h"
#include "bpf/exec_layout.h"
#include "command/testkit/warden_testkit.h"
#include <linux/bpf.h>

static const char rules[] =
	"command_rules:\n"
	"  - {name: no-id, commands: [id], decision: deny, message: \"not {path}\"}\n"
	"  - {name: seen, commands: [uname], decision: log}\n"
	"  - {name: other, commands: [who], decision: redirect, redirect_to: /bin/echo}\n";

static struct wkit *open_strict(void **state)
{
	const struct wkit_request request = {.rules = rules};

	wkit_of(state);
	return wkit_open_with(&request);
}

/* POL-4: the first program is refused before there is a process, with rule and reason. */
static void pol_4_a_denied_first_program_does_not_start(void **state)
{
	struct wkit *k = open_strict(state);
	static const char *const names[] = {"id", "/usr/bin/id", "../usr/bin/id"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct wkit_command c = wkit_command(k);

		strv_add(&c.ask.argv, names[i]);
		wkit_send(k, &c);
		wkit_wait(k, &c);
		assert_string_equal(c.refused.code, "E_POLICY_DENIED");
		assert_string_equal(c.refused.subject, "/usr/bin/id");
		assert_non_null(strstr(c.refused.policy, "no-id\x1fnot /usr/bin/id\x1f"));
		wkit_done(&c);
	}
	wkit_drain(k);
	assert_string_equal(k->execs, "/usr/bin/id deny cmd-1 no-id;/usr/bin/id deny cmd-2 no-id;"
				      "/usr/bin/id deny cmd-3 no-id;");
	assert_null(strstr(k->events, "command_started"));
	wkit_close((void **)&k);
}

/* POL-4: so are those that a script starts, by whatever way; each is one event of its command. */
static void pol_4_nested_programs_are_decided(void **state)
{
	struct wkit *k = open_strict(state);
	struct wkit_command c;

	wkit_expect(k, "id 2>/dev/null; echo $?; env id 2>/dev/null; echo $?", "126\n126\n", 0);
	wkit_drain(k);
	assert_string_equal(k->execs,
			    "/usr/bin/bash allow cmd-1 default;/usr/bin/id deny cmd-1 no-id;"
			    "/usr/bin/env allow cmd-1 default;"
			    "/usr/bin/id deny cmd-1 no-id;");
	k->execs[0] = '\0';
	c = wkit_script(k, "uname >/dev/null; (setsid uname >/dev/null; :) & wait");
	wkit_drain(k);
	assert_string_equal(k->execs, "/usr/bin/bash allow cmd-2 default;"
				      "/usr/bin/uname allow cmd-2 seen;"
				      "/usr/bin/setsid allow cmd-2 default;"
				      "/usr/bin/uname allow cmd-2 seen;");
	wkit_done(&c);
	wkit_close((void **)&k);
}

/* POL-4: a result tells how many execs the session has had by then, and so does the state. */
static void pol_4_a_result_counts_the_execs(void **state)
{
	struct wkit *k = open_strict(state);
	struct wkit_command c;
	struct exec_counts before, now;

	assert_int_equal(k->state.execs.verified, 0);
	c = wkit_script(k, "true");
	before = c.result.execs;
	wkit_done(&c);
	c = wkit_script(k, "id 2>/dev/null; uname >/dev/null; uname >/dev/null");
	now = c.result.execs;
	wkit_done(&c);
	/* two programs of the script, and the helper both times */
	assert_int_equal(now.verified, 2 * before.verified + 2);
	assert_int_equal(before.refused, 0);
	assert_true(now.refused > 0);
	assert_int_equal(now.mismatched + now.failed, 0);
	wkit_close((void **)&k);
}

/* POL-2: a redirect runs the other program, first and nested. */
static void pol_2_a_redirect_runs_the_other_program(void **state)
{
	struct wkit *k = open_strict(state);
	struct wkit_command c = wkit_command(k);
	cleanup_free char *out = NULL;

	strv_add(&c.ask.argv, "who");
	strv_add(&c.ask.argv, "there");
	wkit_send(k, &c);
	wkit_wait(k, &c);
	out = wkit_text(&c, 0);
	assert_string_equal(out, "there\n");
	wkit_done(&c);
	wkit_expect(k, "who nested", "nested\n", 0);
	wkit_close((void **)&k);
}

/* STA-6: our helper is in no event and under no rule. */
static void sta_6_the_helper_is_under_no_rule(void **state)
{
	const struct wkit_request request = {
		.rules = "command_rules:\n  - {name: shell, commands: [bash], decision: allow}\n"
			 "  - {name: none, commands: [\"*\"], decision: deny}\n"};
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	wkit_expect(k, "cd /tmp", "", 0);
	wkit_expect(k, "echo $PWD", "/tmp\n", 0);
	wkit_drain(k);
	assert_null(strstr(k->execs, "agentsh"));
	wkit_close((void **)&k);
}

/* EXE-1: the pid of a command is known, however brief it is. */
static void exe_1_a_brief_command_has_a_pid(void **state)
{
	struct wkit *k = wkit_of(state);

	for (int i = 0; i < 5; i++) {
		struct wkit_command c = wkit_command(k);

		strv_add(&c.ask.argv, "true");
		wkit_send(k, &c);
		wkit_wait(k, &c);
		assert_int_equal(c.result.exit_code, 0);
		wkit_drain(k);
		assert_true(k->pid > 1);
		k->pid = 0;
		wkit_done(&c);
	}
}

static bool wall_says(const struct warden_state *s, const char *text)
{
	for (size_t i = 0; i < s->walls.n; i++)
		if (strncmp(s->walls.v[i], "exec_policy\t", 12) == 0)
			return strstr(s->walls.v[i], text) != NULL;
	return false;
}

/* POL-4: a warden whose link to the kernel's exec check is gone goes on with the exec stop, and
 * says so in an event and in the wall's detail. */
static void pol_4_a_lost_exec_check_is_recorded(void **state)
{
	const union exec_entry zero = {0};
	const uint32_t record = 0;
	const struct bpf_map_shape shape = {"wants",	    BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC,
					    sizeof(record), sizeof(zero),      EXEC_WANTS_MAX};
	struct wkit_request request = {.rules = rules,
				       .exec_link = open("/dev/null", O_RDONLY | O_CLOEXEC)};
	struct warden_patch nothing = {0};
	struct wkit *k;

	wkit_of(state);
	request.exec_map = bpf_map_new(&shape);
	if (request.exec_map < 0) {
		print_message("# skipped: needs root, and BPF maps\n");
		close(request.exec_link);
		skip();
	}
	assert_int_equal(bpf_map_put(request.exec_map, &record, &zero), 0);
	k = wkit_open_with(&request);
	close(request.exec_map);
	close(request.exec_link);
	assert_true(wall_says(&k->state, "verified by bpf"));
	wkit_expect(k, "id 2>/dev/null; uname", "Linux\n", 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "enforcement_failed"));
	assert_null(strstr(strstr(k->events, "enforcement_failed") + 1, "enforcement_failed"));
	assert_non_null(strstr(k->execs, "/usr/bin/id deny cmd-1 no-id;"));
	assert_int_equal(link_send(&k->api, MSG_warden_patch, 3, &nothing, NULL, 0, NULL), 0);
	msg_done(MSG_warden_state, &k->state);
	wkit_recv_type(k, MSG_warden_state, &k->state);
	assert_true(wall_says(&k->state, "verified by stop"));
	wkit_close((void **)&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_lost_exec_check_is_recorded),
		cmocka_unit_test(pol_4_a_denied_first_program_does_not_start),
		cmocka_unit_test(pol_4_nested_programs_are_decided),
		cmocka_unit_test(pol_4_a_result_counts_the_execs),
		cmocka_unit_test(pol_2_a_redirect_runs_the_other_program),
		cmocka_unit_test(sta_6_the_helper_is_under_no_rule),
		cmocka_unit_test_setup_teardown(exe_1_a_brief_command_has_a_pid, wkit_open,
						wkit_close),
	};

	return cmocka_run_group_tests_name("execs", tests, wkit_prepare, wkit_clean);
}
