// SPDX-License-Identifier: Apache-2.0
/* The test plays agentsh-check: what it does depends on the name of the policy. */
#include "launcher/testkit/rig_testkit.h"
#include <sys/mman.h>

static void send_answer(struct link *l, struct check_policy *p, int fd)
{
	struct err err = {0};

	if (link_send(l, MSG_check_policy, 0, p, &fd, fd != -1, &err) != LINK_OK)
		_exit(7);
}

static void tell_status(struct link *l, char *name)
{
	cleanup_buf struct buf text = {0};

	int n = 0;

	fdio_load_path("/proc/self/status", 8192, &text, NULL);
	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	buf_addf(&text, "%d descriptors\n", n);
	send_answer(l,
		    &(struct check_policy){
			    .name = name, .code = (char[]){"E_BAD_REQUEST"}, .message = text.data},
		    -1);
}

static void answer_with(struct link *l, char *name, int fd)
{
	char *limits[] = {strcmp(name, "limits") == 0 ? (char[]){"nothing=1"}
						      : (char[]){"pids_max=5"}};
	char another[] = "another";
	struct check_policy p = {.name = name,
				 .version = (char[]){"sha256:1"},
				 .description = (char[]){""},
				 .limits = {limits, 1}};

	if (strcmp(name, "other") == 0)
		p.name = another;
	if (strcmp(name, "nothing") == 0)
		fd = -1;
	send_answer(l, &p, fd);
}

static _Noreturn void fake_check(int fd)
{
	struct link l;
	struct link_msg m;
	struct check_ask ask;

	link_init(&l, fd, SIDE_CHECK, SIDE_LAUNCHER);
	if (link_recv(&l, &m, NULL) != LINK_OK || link_unpack(&m, &ask, NULL) < 0)
		_exit(8);
	for (size_t i = 0; i < ask.policies; i++) {
		char *name = ask.name.v[i];

		if (strcmp(name, "status") == 0)
			tell_status(&l, name);
		else if (strcmp(name, "killed") == 0)
			raise(SIGKILL);
		else if (strcmp(name, "cpu") == 0)
			raise(SIGXCPU);
		else if (strcmp(name, "exit") == 0)
			_exit(9);
		else if (strcmp(name, "garbage") == 0)
			(void)!send(fd, "?", 1, 0);
		else if (strcmp(name, "unsealed") == 0)
			answer_with(&l, name, memfd_create("x", MFD_CLOEXEC));
		else if (strcmp(name, "empty") == 0)
			answer_with(&l, name, fdio_sealed("x", "", 0));
		else
			answer_with(&l, name, fdio_sealed("x", "bytes", 5));
	}
	for (;;) /* the launcher does not wait for its end */
		pause();
}

struct question {
	struct check_job job;
	const char *names[4];
	struct checked got[4];
	size_t n;
	bool answered;
};

static bool question_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			     int *snapshot)
{
	const struct question *q = (const struct question *)job;
	struct strv names = {0};

	if (q->names[0] == NULL)
		return false;
	for (size_t i = 0; q->names[i] != NULL; i++)
		strv_add(&names, q->names[i]);
	policies_question(l, &names, true, ask);
	strv_done(&names);
	return true;
}

static void question_done(struct launcher *l, struct check_job *job, struct checked *got, size_t n)
{
	struct question *q = (struct question *)job;

	for (size_t i = 0; i < n; i++) {
		q->got[i] = got[i];
		got[i] = (struct checked){.fd = -1};
	}
	q->n = n;
	q->answered = true;
}

static bool is_answered(struct rig *g, void *arg)
{
	return ((struct question *)arg)->answered;
}

static void start(struct rig *g, struct question *q)
{
	q->job = (struct check_job){.prepare = question_prepare, .done = question_done};
	check_start(&g->l, &q->job);
}

static void question_free(struct question *q)
{
	for (size_t i = 0; i < q->n; i++)
		checked_done(&q->got[i]);
}

static void sbx_6_the_child_has_no_power(void **state)
{
	static const char *const lines[] = {"CapInh:\t0000000000000000",
					    "CapPrm:\t0000000000000000",
					    "CapEff:\t0000000000000000",
					    "CapAmb:\t0000000000000000",
					    "NoNewPrivs:\t1",
					    "4 descriptors\n"}; /* stdio and the link */
	struct rig *g = *state;
	struct question q = {.names = {"status"}};
	const char *text;
	unsigned uid = 0;

	start(g, &q);
	assert_true(rig_until(g, is_answered, &q));
	assert_int_equal(q.n, 1);
	text = q.got[0].is.message;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_non_null(strstr(text, lines[i]));
	if (rig_root()) {
		const struct config *c = &g->l.settings.config;

		assert_non_null(strstr(text, "CapBnd:\t0000000000000000"));
		assert_int_equal(sscanf(strstr(text, "\nUid:") + 5, "%u", &uid), 1);
		assert_true(uid_range_has(&c->session_uids, uid));
		assert_int_not_equal(uid, c->api_uid);
	}
	question_free(&q);
}

/* What a child that dies or lies leaves is an error with the policy's name; what it answered before
 * counts. */
static void pol_4_no_half_answer_is_taken(void **state)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
		{"killed", "agentsh-check was killed by signal KILL (9)"},
		{"cpu", "agentsh-check needed too much CPU time for it"},
		{"exit", "agentsh-check ended with exit status 9"},
		{"garbage", "link: frame shorter than its head"},
		{"other", "agentsh-check sent a broken answer"},
		{"limits", "nothing"},
		{"nothing", "agentsh-check sent a broken answer"},
		{"unsealed", "agentsh-check sent a broken answer"},
		{"empty", "agentsh-check sent a broken answer"},
	};
	struct rig *g = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct question q = {.names = {"good", rows[i].name, "good"}};
		struct err err = {0};
		struct stat st;

		start(g, &q);
		assert_true(rig_until(g, is_answered, &q));
		assert_int_equal(q.n, 3);
		assert_int_equal(checked_error(&q.got[0], &err), 0);
		assert_int_equal(fstat(q.got[0].fd, &st), 0);
		assert_int_equal(st.st_size, 5);
		assert_int_equal(q.got[0].limits.value[LIMIT_pids_max], 5);
		assert_int_equal(q.got[1].fd, -1);
		assert_int_equal(checked_error(&q.got[1], &err), -E_UNAVAILABLE);
		assert_string_equal(err.subject, rows[i].name);
		if (strstr(err.message, rows[i].why) == NULL)
			fail_msg("%s: %s", rows[i].name, err.message);
		assert_non_null(strstr(err.message, "agentsh policy validate"));
		assert_int_equal(q.got[2].fd, -1);
		assert_string_equal(q.got[2].is.name, "good");
		assert_string_equal(q.got[2].is.code, "E_UNAVAILABLE");
		question_free(&q);
		assert_int_equal(g->l.checks.child.pid, 0);
	}
}

/* One child at a time; questions that have nothing to ask need none. */
static void pol_4_questions_wait_for_each_other(void **state)
{
	struct rig *g = *state;
	struct question first = {.names = {"a", "b"}}, nothing = {0}, last = {.names = {"c"}};
	pid_t pid;

	start(g, &first);
	pid = g->l.checks.child.pid;
	assert_true(pid > 0);
	start(g, &nothing);
	start(g, &last);
	assert_int_equal(g->l.checks.child.pid, pid);
	assert_true(rig_until(g, is_answered, &last));
	assert_true(first.answered && nothing.answered);
	assert_int_equal(first.n, 2);
	assert_int_equal(nothing.n, 0);
	assert_string_equal(last.got[0].is.name, "c");
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* it was waited for */
	question_free(&first);
	question_free(&last);
}

static void pol_4_a_child_that_cannot_be_had_is_an_error(void **state)
{
	struct rig *g = *state;
	struct question q = {.names = {"good"}};
	struct err err = {0};

	close(g->l.programs.fd[PROGRAM_CHECK]);
	g->l.programs.fd[PROGRAM_CHECK] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	start(g, &q);
	assert_true(rig_until(g, is_answered, &q));
	assert_int_equal(checked_error(&q.got[0], &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "agentsh-check ended with exit status 125"));
	question_free(&q);
}

static void ses_8_a_stopping_server_drops_its_questions(void **state)
{
	struct rig *g = *state;
	struct question first = {.names = {"a"}}, second = {.names = {"b"}};
	pid_t pid;

	start(g, &first);
	start(g, &second);
	pid = g->l.checks.child.pid;
	checks_stop(&g->l);
	assert_true(first.answered && second.answered);
	assert_int_equal(first.n + second.n, 0);
	assert_int_equal(kill(pid, 0), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(sbx_6_the_child_has_no_power),
		T(pol_4_no_half_answer_is_taken),
		T(pol_4_questions_wait_for_each_other),
		T(pol_4_a_child_that_cannot_be_had_is_an_error),
		T(ses_8_a_stopping_server_drops_its_questions),
	};

	if (strcmp(argv[0], "agentsh-check") == 0)
		fake_check(atoi(argv[2]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
