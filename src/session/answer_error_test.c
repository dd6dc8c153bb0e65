// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <errno.h>

/* The error of a command that was not executed, in its answer and, the same, in its record. */
static void expect_help(struct kit *k, const char *dir, const char *code, const char *path,
			const char *want)
{
	struct fake *f = &k->warden[0];
	struct exec_request request = kit_request("prog");
	struct seen_by o = {0};
	struct warden_result r;
	cleanup_free char *answer = NULL, *record = NULL;

	request.working_dir = kit_text(dir);
	kit_submit(k, f->id, &request, &o);
	fake_take_exec(f);
	r = fake_result(f, 0, "");
	r.exit_code = 127;
	r.error_code = kit_text(code);
	r.error_message = kit_text("no");
	r.error_path = kit_text(path);
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	assert_at(&o.answer, "result.error.context.working_dir", dir != NULL ? dir : "/workspace");
	assert_at(&o.answer, "result.error.suggestions", want);
	answer = kit_at(&o.answer, "result.error");
	record = kit_at(&o.record, "error");
	assert_string_equal(answer, record);
	kit_seen_done(&o);
}

#define HELP(action, command, reason) \
	"[{\"action\":\"" action "\",\"command\":\"" command "\",\"reason\":\"" reason "\"}]"
#define LIST(dir) HELP("list_directory", "ls " dir, "See what files exist")
#define LOOK(path) HELP("show_file", "ls -ld " path, "See what it is and who may execute it")

static void exe_2_what_may_help_is_suggested(void **state)
{
	static const char missing[] = "E_COMMAND_NOT_FOUND", shut[] = "E_COMMAND_NOT_EXECUTABLE";
	struct kit *k = *state;

	kit_session(k, "s1");
	expect_help(k, NULL, missing, "prog",
		    HELP("show_path", "echo \\\"$PATH\\\"", "See where programs are looked for"));
	expect_help(k, NULL, missing, "./prog", LIST("/workspace"));
	expect_help(k, "/tmp/a b", missing, "./prog", LIST("'/tmp/a b'"));
	expect_help(k, "/tmp", missing, "./sub/prog", LIST("/tmp/sub"));
	expect_help(k, "/tmp", missing, "sub/prog", LIST("/tmp/sub"));
	expect_help(k, "/", missing, "sub/prog", LIST("/sub"));
	expect_help(k, NULL, missing, "/prog", LIST("/"));
	expect_help(k, NULL, missing, "/opt/prog", LIST("/opt"));
	/* a command in the real directory may not see /workspace */
	expect_help(k, "/srv/real/sub", missing, "/workspace/x/prog", LIST("/srv/real/x"));
	expect_help(k, "/srv/really", missing, "/workspace/x/prog", LIST("/workspace/x"));
	expect_help(k, NULL, shut, "/opt/prog", LOOK("/opt/prog"));
	expect_help(k, NULL, shut, "prog", "[]");
	expect_help(k, NULL, missing, NULL, "[]");
	expect_help(k, NULL, "E_COMMAND_TIMEOUT", "/opt/prog", "[]");
}

static void exe_2_similar_programs_are_passed_on(void **state)
{
	static char *near[] = {(char *)"/usr/bin/python3", NULL};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("pyhton3");
	struct seen_by o = {0};
	struct warden_result r;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	r = fake_result(f, 0, "");
	r.exit_code = 127;
	r.error_code = kit_text("E_COMMAND_NOT_FOUND");
	r.similar = (struct strv){near, 1};
	fake_send(k, f, MSG_warden_result, &r);
	assert_at(&o.answer, "result.error.similar_files", "[\"/usr/bin/python3\"]");
	kit_seen_done(&o);
}

/* ---- denials inside a command ---- */

static const char *refused_by_approver; /* E_APPROVAL_… */

static void put_exec(struct fake *f, const char *decision, const char *path)
{
	static char *other[] = {(char *)"other commands", NULL};
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_exec,
			  .time_us = KIT_START_US,
			  .count = 1,
			  .command_id = f->command,
			  .exec_path = kit_text(path),
			  .decision = kit_text(decision),
			  .policy_decision = kit_text(decision),
			  .policy_effective = kit_text(decision),
			  .policy_rule = kit_text("no-id")};
	uint64_t end;

	if (strcmp(decision, "deny") == 0) {
		e.denied_reason = kit_text("not here");
		e.denied_error = kit_text(refused_by_approver);
		e.approval_id = refused_by_approver != NULL ? kit_text("approval-1") : NULL;
		e.denied_op = kit_text("exec");
		e.denied_target = kit_text(path);
		e.alternatives = (struct strv){other, 1};
	}
	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
}

struct met {
	unsigned exit_code;
	int denied;		/* how many */
	const char *error_code; /* the warden's */
	const char *want;	/* code of the answer's; NULL: none */
};

static void expect_met(struct kit *k, const struct met *m)
{
	struct fake *f = &k->warden[0];
	struct exec_request request = kit_request("sh");
	struct seen_by o = {0};
	struct warden_result r;

	kit_submit(k, f->id, &request, &o);
	fake_take_exec(f);
	put_exec(f, "allow", "/bin/sh");
	for (int i = 0; i < m->denied; i++)
		put_exec(f, "deny", i == 0 ? "/bin/first" : "/bin/id");
	put_exec(f, "allow", "/bin/true");
	r = fake_result(f, 0, "");
	r.exit_code = m->exit_code;
	r.error_code = kit_text(m->error_code);
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	if (m->want == NULL)
		assert_at(&o.answer, "result.error", "null");
	else
		assert_at(&o.answer, "result.error.code", m->want);
	if (m->want != NULL && m->error_code == NULL) {
		assert_at(&o.answer, "result.error.message",
			  "rule 'no-id' denies /bin/id: not here");
		assert_at(&o.answer, "result.error.path", "/bin/id");
		assert_at(&o.answer, "result.error.policy",
			  "{\"rule\":\"no-id\",\"reason\":\"not here\",\"operation\":\"exec\","
			  "\"target\":\"/bin/id\",\"final\":false,"
			  "\"alternatives\":[\"other commands\"]}");
		assert_at(&o.answer, "result.error.suggestions.0.command",
			  "agentsh policy show --effective s1");
		assert_at(&o.answer, "result.error.request_id", "req-1");
		assert_at(&o.record, "error.code", m->want);
	}
	kit_seen_done(&o);
}

static void exe_2_a_denial_inside_is_the_error_of_what_failed_by_it(void **state)
{
	static const struct met rows[] = {
		{0, 2, NULL, NULL},
		{1, 2, NULL, "E_POLICY_DENIED"},
		{126, 3, NULL, "E_POLICY_DENIED"},
		{126, 0, NULL, NULL},
		{124, 2, "E_COMMAND_TIMEOUT", "E_COMMAND_TIMEOUT"},
	};
	struct kit *k = *state;

	kit_session(k, "s1");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_met(k, &rows[i]);
}

/* APR-7: what an approver refused has a code of its own, and says which approval it was. */
static void apr_7_the_error_of_a_refused_approval_names_it(void **state)
{
	static const char *const codes[] = {"E_APPROVAL_DENIED", "E_APPROVAL_TIMEOUT"};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct exec_request request = kit_request("sh");
		struct seen_by o = {0};
		struct warden_result r;

		kit_submit(k, f->id, &request, &o);
		fake_take_exec(f);
		refused_by_approver = codes[i];
		put_exec(f, "deny", "/bin/id");
		refused_by_approver = NULL;
		r = fake_result(f, 0, "");
		r.exit_code = 1;
		fake_send(k, f, MSG_warden_result, &r);
		kit_skip(&f->link, MSG_warden_ack);
		assert_at(&o.answer, "result.error.code", codes[i]);
		assert_at(
			&o.answer, "result.error.context",
			"{\"working_dir\":\"/workspace\",\"command\":\"sh\",\"operation\":\"exec\","
			"\"path\":\"/bin/id\",\"rule\":\"no-id\",\"approval_id\":\"approval-1\"}");
		assert_at(&o.answer, "result.error.policy.approval_id", "approval-1");
		assert_at(&o.record, "error.code", codes[i]);
		kit_seen_done(&o);
	}
}

/* ---- file operations that failed ---- */

static void expect_failed(struct kit *k, unsigned exit_code, int denied, const char *path,
			  const char *code, const char *help)
{
	static char *near[] = {(char *)"/workspace/missing-1.txt", NULL};
	struct fake *f = &k->warden[0];
	struct exec_request request = kit_request("cat");
	struct seen_by o = {0};
	struct warden_result r;

	kit_submit(k, f->id, &request, &o);
	fake_take_exec(f);
	if (denied)
		put_exec(f, "deny", "/bin/id");
	r = fake_result(f, (int)exit_code, "");
	r.failed_errno = ENOENT;
	r.failed_path = kit_text(path);
	r.similar = (struct strv){near, 1};
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	if (code == NULL)
		assert_at(&o.answer, "result.error", "null");
	else
		assert_at(&o.answer, "result.error.code", code);
	if (help != NULL) {
		assert_at(&o.answer, "result.error.path", path);
		assert_at(&o.answer, "result.error.suggestions", help);
		assert_at(&o.answer, "result.error.similar_files",
			  "[\"/workspace/missing-1.txt\"]");
		assert_at(&o.record, "error.code", code);
	} else if (code != NULL) {
		assert_at(&o.answer, "result.error.similar_files", "[]");
	}
	kit_seen_done(&o);
}

#define LIST_AND_FIND(pattern)                                                                     \
	"[{\"action\":\"list_directory\",\"command\":\"ls /workspace\",\"reason\":\"See what "     \
	"files exist\"},{\"action\":\"search\",\"command\":\"find /workspace -name " pattern "\"," \
	"\"reason\":\"Find similar files\"}]"

static void exe_2_the_last_file_operation_that_failed_is_the_error(void **state)
{
	struct kit *k = *state;

	kit_session(k, "s1");
	expect_failed(k, 1, 0, "/workspace/missing.txt", "ENOENT", LIST_AND_FIND("'*.txt'"));
	expect_failed(k, 1, 0, "/workspace/missing", "ENOENT", LIST_AND_FIND("missing"));
	expect_failed(k, 1, 0, NULL, NULL, NULL);
	expect_failed(k, 0, 0, "/workspace/missing.txt", NULL, NULL);
	/* what the policy denied says more */
	expect_failed(k, 1, 1, "/workspace/missing.txt", "E_POLICY_DENIED", NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_2_what_may_help_is_suggested),
		TEST(exe_2_similar_programs_are_passed_on),
		TEST(exe_2_a_denial_inside_is_the_error_of_what_failed_by_it),
		TEST(exe_2_the_last_file_operation_that_failed_is_the_error),
		TEST(apr_7_the_error_of_a_refused_approval_names_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
