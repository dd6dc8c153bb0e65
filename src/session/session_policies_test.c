// SPDX-License-Identifier: Apache-2.0
#include "base/denial.h"
#include "session/session_policies.h"
#include "session/testkit/command_testkit.h"

static const char strict[] =
	"version: 1\n"
	"name: tight\n"
	"description: Little is allowed.\n"
	"default: {files: allow, network: deny, commands: allow}\n"
	"network_rules:\n"
	"  - {name: m, domains: [m.example], ports: [443], decision: allow}\n"
	"resource_limits: {max_memory_mb: 100, pids_max: 50, session_timeout: 1h,\n"
	"  command_timeout: 1m, max_commands: 2}\n"
	"environment: {allow: [LANG, 'APP_*']}\n";

static void record(struct kit *k, const char *id, struct buf *out)
{
	buf_clear(out);
	session_format(kit_get(k, id), &JW(out));
}

static void assert_has(const struct buf *b, const char *part)
{
	if (strstr(b->data, part) == NULL)
		fail_msg("no %s in %s", part, b->data);
}

/* A session that asks for request under the policy `strict`. */
static struct fake *make(struct kit *k, const char *id, struct session_request request)
{
	struct told t = {0};
	struct fake *f;

	k->policy = strict;
	request.id = kit_text(id);
	request.workspace = kit_text("/srv/project");
	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, id);
	fake_created(k, f);
	fake_greet(k, f);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	return f;
}

static void ses_5_the_smallest_limit_wins_and_is_shown(void **state)
{
	struct kit *k = *state;
	cleanup_buf struct buf r = {0};

	make(k, "s1",
	     (struct session_request){.limits.value[LIMIT_max_memory_mb] = 101,
				      .limits.value[LIMIT_pids_max] = 50,
				      .limits.value[LIMIT_session_timeout] = 3600001});
	record(k, "s1", &r);
	assert_has(&r, "\"timeout\":\"1h\"");
	assert_has(&r, "\"max_memory_mb\":100");
	assert_has(&r, "\"pids_max\":50");
	assert_has(&r, "\"command_timeout\":\"1m\"");
	assert_has(&r, "\"max_commands\":2");
	/* limits that the client did not ask for are narrowed, too, and not listed */
	assert_has(&r, "\"capped\":[\"timeout\",\"resource_limits.max_memory_mb\"]");
	assert_has(&r, "\"summary\":[\"Little is allowed.\",");
	make(k, "s2",
	     (struct session_request){.limits.value[LIMIT_max_memory_mb] = 99,
				      .limits.value[LIMIT_command_timeout] = 59000});
	record(k, "s2", &r);
	assert_has(&r, "\"max_memory_mb\":99");
	assert_has(&r, "\"command_timeout\":\"59s\"");
	assert_has(&r, "\"capped\":[]");
}

static void pol_5_the_version_stays_over_a_restart(void **state)
{
	struct kit *k = *state;
	cleanup_buf struct buf before = {0}, after = {0}, policy = {0};
	struct err err = {0};
	char version[POLICY_VERSION_LEN + 1];

	make(k, "s1", (struct session_request){.limits.value[LIMIT_pids_max] = 1000});
	memcpy(version, k->version, sizeof(version));
	record(k, "s1", &before);
	k->policy = NULL; /* another one by then */
	kit_close_sessions(k);
	kit_open_sessions(k);
	assert_string_equal(policy_version(session_policy(kit_get(k, "s1"))), version);
	record(k, "s1", &after);
	assert_string_equal(after.data, before.data);
	kit_found_all(k); /* its end does not take it away */
	assert_int_equal(session_policy_format(kit_get(k, "s1"), &JW(&policy), &err), 0);
	assert_has(&policy, "\"session_id\":\"s1\",\"policy\":{\"name\":\"tight\"");
	assert_has(&policy, "\"capped\":[\"resource_limits.pids_max\"]");
}

static void pol_5_a_session_without_its_policy_is_not_made(void **state)
{
	struct kit *k = *state;
	struct session_request request = {.id = kit_text("s1"),
					  .workspace = kit_text("/srv/project")};
	struct launcher_created m = {.session_id = kit_text("s1"),
				     .policy_name = kit_text("observe"),
				     .policy_version = kit_text("sha256:00")};
	struct told t = {0};
	struct fake *f;
	int fd[5];

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, "s1");
	fake_connect(f, fd);
	fd[3] = kit_policy(kit_observe, (char[POLICY_VERSION_LEN + 1]){""});
	kit_tell(k, MSG_launcher_created, &m, fd, 4); /* and not what its version says */
	close(fd[0]);
	close(fd[3]);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_UNAVAILABLE);
	assert_non_null(strstr(t.err.message, "its policy is another one"));
}

static void assert_denied(const struct err *err, const char *name)
{
	struct denial d;

	assert_int_equal(err->code, E_POLICY_DENIED);
	assert_string_equal(err->subject, name);
	assert_true(denial_unpack(err->denial, &d));
	assert_string_equal(d.rule, "environment");
	assert_int_equal(d.alternatives.n, 1);
	assert_string_equal(d.alternatives.v[0], "variables LANG, APP_*");
	denial_done(&d);
}

static void ses_3_variables_beyond_the_policy_are_refused_by_patch(void **state)
{
	struct kit *k = *state;
	struct fake *f = make(k, "s1", (struct session_request){0});
	char *bad[] = {kit_text("APP_X=1"), kit_text("TERM=x"), NULL},
	     *good[] = {kit_text("APP_X=1"), NULL};
	struct session_request request = {.environment = {bad, 2}, .has_environment = true};
	struct told t = {0};

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	assert_int_equal(t.n, 1);
	assert_denied(&t.err, "TERM");
	kit_turn(k);
	kit_recv_nothing(&f->link);
	request.environment = (struct strv){good, 1};
	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_patch);
}

static void ses_3_variables_beyond_the_policy_are_refused_by_exec(void **state)
{
	struct kit *k = *state;
	struct fake *f = make(k, "s1", (struct session_request){0});
	char *bad[] = {kit_text("TERM=x"), NULL}, *good[] = {kit_text("APP_X=1"), NULL};
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	struct command_observer obs = kit_observer(&o);

	request.env = (struct strv){bad, 1};
	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.request = &request}, &obs,
		       NULL);
	assert_int_equal(o.done, 1);
	assert_denied(&o.err, "TERM");
	kit_turn(k);
	kit_recv_nothing(&f->link);
	request.env = (struct strv){good, 1};
	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.request = &request}, &obs,
		       NULL);
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_exec);
	kit_seen_done(&o);
}

struct answered {
	unsigned n;
	struct err err;
	size_t names;
};

static void on_policies(const struct err *err, const struct launcher_policies *m, void *arg)
{
	struct answered *a = arg;

	a->n++;
	if (err != NULL)
		a->err = *err;
	else
		a->names = m->name.n;
}

struct counted {
	const char *part;
	unsigned n;
};

static void look(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct counted *c = arg;

	c->n += strstr(json, c->part) != NULL;
}

/* Events of the type that have the part. */
static unsigned count(struct kit *k, enum event_type type, const char *part)
{
	struct counted c = {part, 0};
	struct err err = {0};

	assert_int_equal(store_query(k->store, &(struct event_query){.types = UINT64_C(1) << type},
				     look, &c, NULL, &err),
			 0);
	return c.n;
}

static void pol_5_a_reload_is_asked_told_and_recorded(void **state)
{
	struct kit *k = *state;
	char *names[] = {kit_text("a"), kit_text("b"), NULL},
	     *versions[] = {kit_text("sha256:1"), kit_text(""), NULL};
	char *why[] = {kit_text("b.yaml:1:1: error: no"), NULL};
	struct launcher_policies m = {.name = {names, 2},
				      .version = {versions, 2},
				      .description = {versions, 2},
				      .loaded = {names, 1},
				      .failed = {names + 1, 1},
				      .why = {why, 1}};
	struct answered one = {0}, two = {0};
	struct launcher_ask ask;
	struct link_msg msg;

	policies_ask(k->ss, false, on_policies, &one);
	policies_ask(k->ss, true, on_policies, &two);
	kit_recv(&k->launcher, MSG_launcher_ask, &ask, &msg);
	assert_int_equal(ask.reload, 0);
	link_msg_done(&msg);
	kit_recv(&k->launcher, MSG_launcher_ask, &ask, &msg);
	assert_int_equal(ask.reload, 1);
	link_msg_done(&msg);
	m.ticket = ask.ticket;
	kit_tell(k, MSG_launcher_policies, &m, NULL, 0);
	assert_int_equal(one.n, 0);
	assert_int_equal(two.n, 1);
	assert_int_equal(two.names, 2);
	assert_int_equal(count(k, EVENT_policy_loaded,
			       "\"policy\":{\"name\":\"a\",\"version\":\"sha256:1\"}"),
			 1);
	assert_int_equal(count(k, EVENT_policy_reload_failed, "b.yaml:1:1: error: no"), 1);
	m = (struct launcher_policies){.ticket = ask.ticket - 1, .name = {names, 1}};
	kit_tell(k, MSG_launcher_policies, &m, NULL, 0);
	assert_int_equal(one.n, 1);
	assert_int_equal(one.names, 1);
	m.ticket = 0; /* not asked for */
	kit_tell(k, MSG_launcher_policies, &m, NULL, 0);
	assert_int_equal(one.n + two.n, 2);
	policies_ask(k->ss, false, on_policies, &one);
	kit_close_sessions(k); /* no answer will come */
	assert_int_equal(one.n, 2);
	assert_int_equal(one.err.code, E_UNAVAILABLE);
	kit_open_sessions(k);
}

static void ses_3_a_refused_request_is_told_with_its_denial(void **state)
{
	static const char denial[] = "environment\x1f"
				     "beyond the policy\x1f"
				     "env\x1fX\x1f\x1f";
	struct kit *k = *state;
	struct session_request request = {.id = kit_text("s1"),
					  .workspace = kit_text("/srv/project")};
	struct launcher_refused m = {.session_id = kit_text("s1"),
				     .code = kit_text("E_POLICY_DENIED"),
				     .subject = kit_text("X"),
				     .message = kit_text("beyond"),
				     .policy = kit_text(denial)};
	struct told t = {0};

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	kit_tell(k, MSG_launcher_refused, &m, NULL, 0);
	assert_int_equal(t.err.code, E_POLICY_DENIED);
	assert_string_equal(t.err.denial, denial);
	assert_int_equal(count(k, EVENT_policy_violation, "\"reason\":\"beyond\""), 1);
	assert_int_equal(count(k, EVENT_policy_violation, "\"rule\":\"environment\""), 1);
	assert_int_equal(count(k, EVENT_policy_violation, "\"target\":\"X\""), 1);
	assert_int_equal(count(k, EVENT_policy_violation, "session_id"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

static void ses_3_a_policy_that_may_not_be_chosen_names_the_others(void **state)
{
	struct config c = {.policy_default = kit_text("observe")};
	cleanup_buf struct buf json = {0};
	struct err err = {.subject = "any"};
	char name[65];

	strv_add(&c.policy_selectable, "a");
	strv_add(&c.policy_selectable, "observe");
	strv_add(&c.policy_selectable, "b");
	denial_of_choice(&c, &err);
	denial_format_text(err.denial, &JW(&json));
	assert_string_equal(
		json.data,
		"{\"rule\":\"policies.selectable\",\"reason\":\"the configuration does not let a "
		"session choose this policy\",\"operation\":\"policy\",\"target\":\"any\","
		"\"final\":false,\"alternatives\":[\"policies observe, a, b\"]}");
	/* what an error has no room for is counted */
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 200; i++)
		strv_add(&c.policy_selectable, name);
	denial_of_choice(&c, &err);
	assert_non_null(strstr(err.denial, " and 191 more\x1f"));
	strv_done(&c.policy_selectable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_a_policy_that_may_not_be_chosen_names_the_others),
		TEST(ses_5_the_smallest_limit_wins_and_is_shown),
		TEST(pol_5_the_version_stays_over_a_restart),
		TEST(pol_5_a_session_without_its_policy_is_not_made),
		TEST(ses_3_variables_beyond_the_policy_are_refused_by_patch),
		TEST(ses_3_variables_beyond_the_policy_are_refused_by_exec),
		TEST(pol_5_a_reload_is_asked_told_and_recorded),
		TEST(ses_3_a_refused_request_is_told_with_its_denial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
