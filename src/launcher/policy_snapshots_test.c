// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

static void write_policy(struct rig *g, const char *name, const char *rest)
{
	cleanup_free char *dir = mem_printf("%s/policies", g->dir);
	cleanup_free char *path = mem_printf("%s/%s.yaml", dir, name);
	cleanup_free char *set = mem_printf("policies.dir=%s", dir);
	cleanup_free char *text = mem_printf("version: 1\nname: %s\n%s", name, rest);
	int fd;

	assert_int_equal(config_override(set, &g->l.settings.config, NULL), 0);
	/* no rule is refused because of the mode */
	assert_int_equal(config_override("monitoring.mode=fuse", &g->l.settings.config, NULL), 0);
	mkdir(dir, 0755);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

/* The next announcement to the API child. */
static struct launcher_policies told(struct rig *g)
{
	struct link_msg m = rig_expect(g, MSG_launcher_policies);
	struct launcher_policies p;

	assert_int_equal(link_unpack(&m, &p, NULL), 0);
	link_msg_done(&m);
	return p;
}

static const char *version_of(const struct launcher_policies *p, const char *name)
{
	for (size_t i = 0; i < p->name.n; i++)
		if (strcmp(p->name.v[i], name) == 0)
			return p->version.v[i];
	fail_msg("no %s", name);
	return NULL;
}

#define OPEN "default: {files: allow, network: allow, commands: allow}\n"

/* A question for agentsh-check, and its answer. */
struct question {
	struct check_job job;
	const char *name;
	const struct launcher_create *request; /* NULL: none */
	const char *workspace, *own_dir;       /* without namespaces, else NULL */
	struct checked got;
	bool answered;
};

static bool question_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			     int *snapshot)
{
	const struct question *q = (const struct question *)job;
	char *name = (char *)(uintptr_t)q->name;

	if (q->request != NULL) {
		strv_copy(&ask->domains, &q->request->domains);
		strv_copy(&ask->ports, &q->request->ports);
		strv_copy(&ask->variables, &q->request->variables);
	}
	if (q->workspace != NULL) {
		ask->workspace = mem_strdup(q->workspace);
		ask->home = mem_printf("%s/home", q->own_dir);
		strv_add(&ask->places, ask->workspace);
		strv_add(&ask->places, ask->home);
	}
	policies_question(l, &(struct strv){&name, 1}, true, ask);
	return true;
}

static void question_done(struct launcher *l, struct check_job *job, struct checked *got, size_t n)
{
	struct question *q = (struct question *)job;

	assert_int_equal(n, 1);
	q->got = got[0];
	got[0] = (struct checked){.fd = -1};
	q->answered = true;
}

static bool is_answered(struct rig *g, void *arg)
{
	return ((struct question *)arg)->answered;
}

static int look(struct rig *g, struct question *q, struct err *err)
{
	q->job = (struct check_job){.prepare = question_prepare, .done = question_done};
	q->answered = false;
	check_start(&g->l, &q->job);
	assert_true(rig_until(g, is_answered, q));
	return checked_error(&q->got, err);
}

/* As a session that uses the policy does. */
static const struct checked *use(struct rig *g, const char *name)
{
	struct question q = {.name = name};

	assert_int_equal(look(g, &q, NULL), 0);
	return policies_add(&g->l, &q.got);
}

static void pol_5_what_is_read_is_told(void **state)
{
	struct rig *g = *state;
	struct launcher_policies p;
	struct question none = {.name = "none"};
	const struct checked *a;
	struct err err = {0};

	rig_greeted(g);
	write_policy(g, "a", OPEN);
	write_policy(g, "b", OPEN);
	assert_null(policies_find(&g->l, "a"));
	a = use(g, "a");
	p = told(g);
	assert_int_equal(p.ticket, 0);
	assert_int_equal(p.loaded.n, 1);
	assert_string_equal(p.loaded.v[0], "a");
	assert_string_equal(version_of(&p, "a"), a->is.version);
	assert_string_equal(version_of(&p, "b"), "");
	msg_done(MSG_launcher_policies, &p);
	assert_ptr_equal(policies_find(&g->l, "a"), a); /* once is enough */
	assert_int_equal(look(g, &none, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "none");
	assert_non_null(strstr(err.message, "no policy 'none'; there is 'a', 'b'"));
	checked_done(&none.got);
	for (int turn = 0; turn < 5; turn++)
		loop_settle(g->l.loop);
	assert_int_equal(link_recv(&g->api, &(struct link_msg){0}, NULL), LINK_AGAIN);
}

static void ask(struct rig *g, uint32_t ticket, uint32_t reload)
{
	const struct launcher_ask m = {ticket, reload};

	assert_int_equal(link_send(&g->api, MSG_launcher_ask, 0, &m, NULL, 0, NULL), 0);
}

/* Questions that wait are answered by one run of agentsh-check; each has its answer. */
static void pol_5_lists_that_wait_are_read_together(void **state)
{
	struct rig *g = *state;
	struct launcher_policies p;
	size_t jobs = 0;
	struct check_job *job;

	rig_greeted(g);
	write_policy(g, "a", OPEN);
	for (uint32_t i = 1; i <= 70; i++)
		policies_ask(&g->l, &(struct launcher_ask){.ticket = i, .reload = i == 5}, NULL);
	STAILQ_FOREACH(job, &g->l.checks.jobs, next)
	jobs++;
	assert_int_equal(jobs, 3); /* the one that runs, one with 64 tickets, and one more */
	for (uint32_t i = 1; i <= 70; i++) {
		p = told(g);
		assert_int_equal(p.ticket, i);
		assert_string_not_equal(version_of(&p, "a"), "");
		msg_done(MSG_launcher_policies, &p);
	}
	assert_true(STAILQ_EMPTY(&g->l.checks.jobs));
}

static void pol_5_a_reload_takes_what_is_good_and_keeps_the_rest(void **state)
{
	struct rig *g = *state;
	struct launcher_policies p;
	cleanup_free char *a = NULL, *b = NULL;
	int fd;

	rig_greeted(g);
	write_policy(g, "a", OPEN);
	write_policy(g, "b", OPEN);
	a = mem_strdup(use(g, "a")->is.version);
	b = mem_strdup(use(g, "b")->is.version);
	fd = policies_find(&g->l, "b")->fd;
	for (int i = 0; i < 2; i++) {
		p = told(g);
		msg_done(MSG_launcher_policies, &p);
	}
	write_policy(g, "a", OPEN "description: new\n");
	write_policy(g, "b", OPEN "descripton: broken\n");
	ask(g, 7, 1);
	p = told(g);
	assert_int_equal(p.ticket, 7);
	assert_int_equal(p.loaded.n, 1);
	assert_string_equal(p.loaded.v[0], "a");
	assert_int_equal(p.failed.n, 1);
	assert_string_equal(p.failed.v[0], "b");
	assert_non_null(strstr(p.why.v[0], "b.yaml:4"));
	assert_string_not_equal(version_of(&p, "a"), a);
	assert_string_equal(version_of(&p, "b"), b);
	msg_done(MSG_launcher_policies, &p);
	assert_int_equal(policies_find(&g->l, "b")->fd, fd);
	assert_true(policies_find(&g->l, "b")->stale);
	assert_false(policies_find(&g->l, "a")->stale);
	ask(g, 8, 0);
	p = told(g);
	assert_int_equal(p.ticket, 8);
	assert_int_equal(p.loaded.n + p.failed.n, 0);
	assert_string_equal(p.description.v[0], "new");
	msg_done(MSG_launcher_policies, &p);
}

/* Listing compiles a policy that no session has used, and again once its file or a set changes. */
static void pol_7_unused_policies_are_listed_whole(void **state)
{
	struct rig *g = *state;
	struct launcher_policies p;
	cleanup_free char *before = NULL, *set = NULL;
	int fd;

	rig_greeted(g);
	write_policy(g, "a", OPEN "description: one\n");
	write_policy(g, "b", OPEN "descripton: broken\n");
	ask(g, 1, 0);
	p = told(g);
	assert_string_equal(p.description.v[0], "one");
	assert_string_equal(version_of(&p, "b"), "");
	assert_string_equal(p.description.v[1], "");
	before = mem_strdup(version_of(&p, "a"));
	assert_int_equal(strlen(before), strlen("sha256:") + 64);
	msg_done(MSG_launcher_policies, &p);

	write_policy(g, "a",
		     OPEN "description: two\n"
			  "network_rules: [{name: n, domains: ['@s'], decision: allow}]\n");
	ask(g, 2, 0);
	p = told(g);
	assert_string_equal(p.description.v[0], "two");
	assert_string_not_equal(version_of(&p, "a"), before);
	free(before);
	before = mem_strdup(version_of(&p, "a"));
	msg_done(MSG_launcher_policies, &p);

	set = mem_printf("%s/policies/sets", g->dir);
	mkdir(set, 0755);
	free(set);
	set = mem_printf("%s/policies/sets/s.yaml", g->dir);
	fd = open(set, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	dprintf(fd, "version: 1\nname: s\nkind: domains\nitems: [x.example]\n");
	close(fd);
	ask(g, 3, 0);
	p = told(g);
	assert_string_not_equal(version_of(&p, "a"), before);
	free(before);
	before = mem_strdup(version_of(&p, "a"));
	msg_done(MSG_launcher_policies, &p);

	/* it is the version that a session gets */
	assert_string_equal(use(g, "a")->is.version, before);
}

static void ses_3_an_agent_chooses_among_the_listed_policies(void **state)
{
	struct rig *g = *state;
	struct config *c = &g->l.settings.config;
	struct err err = {0};

	assert_int_equal(policies_selectable(c, "any", &err), 0);
	strv_add(&c->policy_selectable, "a");
	strv_add(&c->policy_selectable, "observe"); /* the default */
	strv_add(&c->policy_selectable, "b");
	assert_int_equal(policies_selectable(c, "a", &err), 0);
	assert_int_equal(policies_selectable(c, "b", &err), 0);
	assert_int_equal(policies_selectable(c, "observe", &err), 0);
	assert_int_equal(policies_selectable(c, "any", &err), -E_POLICY_DENIED);
	assert_string_equal(err.subject, "any");
}

static void cfg_1_listed_policies_must_exist(void **state)
{
	static const char good[] = "policies:\n  selectable: [a]\n",
			  bad[] = "policies:\n  selectable: [a, x]\n",
			  said[] = "c.yaml:2:15: policies.selectable: no policy 'x'; there is 'a'";
	struct rig *g = *state;
	struct config *c = &g->l.settings.config;
	struct err err = {0};

	write_policy(g, "a", OPEN);
	assert_int_equal(policies_check(c, &err), 0);
	assert_int_equal(config_parse("c.yaml", good, strlen(good), c, NULL, &err), 0);
	assert_int_equal(policies_check(c, &err), 0);
	assert_int_equal(config_parse("c.yaml", bad, strlen(bad), c, NULL, &err), 0);
	assert_int_equal(policies_check(c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "policies.selectable");
	assert_memory_equal(err.message, said, strlen(said));
}

static char *text(const char *s)
{
	return (char *)s;
}

static void ses_3_what_is_beyond_the_policy_is_refused(void **state)
{
	static const struct {
		const char *domain, *port, *variable;
		int r;
	} rows[] = {
		{NULL, NULL, NULL, 0},
		{"m.example", "443", "LANG", 0},
		{"x.example", NULL, NULL, -E_POLICY_DENIED},
		{NULL, "444", NULL, -E_POLICY_DENIED},
		{NULL, NULL, "TERM", -E_POLICY_DENIED},
	};
	struct rig *g = *state;
	struct err err = {0};

	rig_greeted(g);
	write_policy(g, "a",
		     "network_rules:\n  - {name: m, domains: [m.example], ports: [443], decision: "
		     "allow}\nenvironment: {allow: [LANG]}\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *lists[][2] = {{text(rows[i].domain), NULL},
				    {text(rows[i].port), NULL},
				    {text(rows[i].variable), NULL}};
		const struct launcher_create m = {
			.domains = {lists[0], rows[i].domain != NULL},
			.ports = {lists[1], rows[i].port != NULL},
			.variables = {lists[2], rows[i].variable != NULL}};

		struct question q = {.name = "a", .request = &m};

		err = (struct err){0};
		assert_int_equal(look(g, &q, &err), rows[i].r);
		assert_int_equal(err.denial[0] != '\0', rows[i].r != 0);
		/* the snapshot serves other requests */
		assert_int_equal(fcntl(q.got.fd, F_GETFD), FD_CLOEXEC);
		checked_done(&q.got);
	}
}

static void expect_list(const struct strv *list, const char *text)
{
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "");
	for (size_t i = 0; i < list->n; i++)
		buf_addf(&b, "%s ", list->v[i]);
	assert_string_equal(b.data, text);
}

static void expect_shut(struct rig *g, const char *rules, const char *withheld)
{
	static unsigned number;
	char name[16];
	struct question q = {.name = name};
	cleanup_free char *text = mem_printf(OPEN "file_rules:\n%s", rules);

	snprintf(name, sizeof(name), "p%u", number++);
	write_policy(g, name, text);
	assert_int_equal(look(g, &q, NULL), 0);
	expect_list(&q.got.is.withheld, withheld);
	checked_done(&q.got);
}

#define RULE(path, ops) \
	"  - {name: n, paths: [\"" path "\"], operations: [" ops "], decision: deny}\n"

/* A right to a directory is one to all below it, and rules shut what they shut wholly. */
static void sbx_2_rules_shut_places_of_the_view(void **state)
{
	struct rig *g = *state;
	struct config *c = &g->l.settings.config;

	assert_int_equal(config_override("filesystem.read_only_passthrough_paths=/usr", c, NULL),
			 0);
	assert_int_equal(
		config_override("filesystem.passthrough_paths=/data,/data/in,/usr/share", c, NULL),
		0);
	assert_int_equal(config_override("filesystem.monitored_paths=/workspace", c, NULL), 0);
	expect_shut(g, RULE("/data/**", "write, create, delete"), "98 /data 98 /data/in ");
	expect_shut(g, RULE("/data/**", "write"), "2 /data 2 /data/in ");
	expect_shut(g, RULE("/data/**", "read, stat, list"), "1 /data 1 /data/in ");
	expect_shut(g, RULE("/data/**", "rename"), "");
	expect_shut(g, RULE("/data/**", "rename, link"), "256 /data 256 /data/in ");
	expect_shut(g, RULE("/data/**", "\"*\""), "503 /data 503 /data/in ");
	/* what lies in another place */
	expect_shut(g, RULE("/data/in/**", "\"*\""), "");
	expect_shut(g, RULE("/usr/**", "read"), "1 /usr/share 1 /usr ");
	expect_shut(g, RULE("${WORKSPACE}/**", "truncate, symlink"), "144 /workspace ");
	expect_shut(g, RULE("/dev/**", "\"*\""), "");
	expect_shut(g, RULE("/data/x", "\"*\""), "");
}

/* Without namespaces the workspace and the home are elsewhere, for the policy too. */
static void sbx_5_a_policy_of_a_bare_session(void **state)
{
	struct rig *g = *state;
	struct config *c = &g->l.settings.config;
	struct question q = {.name = "placed"};

	assert_int_equal(config_override("filesystem.monitored_paths=/workspace", c, NULL), 0);
	write_policy(g, "placed",
		     OPEN
		     "file_rules:\n"
		     "  - {name: a, paths: ['${WORKSPACE}/**'], operations: [truncate], decision: "
		     "deny}\n"
		     "  - {name: b, paths: ['${HOME}/**'], operations: [symlink], decision: "
		     "deny}\n"
		     "  - {name: c, paths: ['/workspace/**'], operations: [write], decision: "
		     "deny}\n");
	q.workspace = "/home/me/a [b]";
	q.own_dir = "/home/me/own";
	assert_int_equal(look(g, &q, NULL), 0);
	assert_string_equal(q.got.is.name, "placed");
	expect_list(&q.got.is.withheld, "16 /home/me/a [b] 128 /home/me/own/home 2 /workspace ");
	checked_done(&q.got);
	write_policy(g, "placed", "nonsense\n");
	assert_true(look(g, &q, NULL) < 0);
	assert_int_equal(q.got.fd, -1);
	checked_done(&q.got);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(pol_5_what_is_read_is_told),
		T(pol_5_lists_that_wait_are_read_together),
		T(pol_5_a_reload_takes_what_is_good_and_keeps_the_rest),
		T(ses_3_an_agent_chooses_among_the_listed_policies),
		T(pol_7_unused_policies_are_listed_whole),
		T(cfg_1_listed_policies_must_exist),
		T(ses_3_what_is_beyond_the_policy_is_refused),
		T(sbx_2_rules_shut_places_of_the_view),
		T(sbx_5_a_policy_of_a_bare_session),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
