// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/proc.h"
#include "check/check.h"
#include "link/link.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define OPEN "version: 1\nname: p\ndefault: {files: allow, network: allow, commands: allow}\n"

/* A check process, and the launcher's end of its link. */
struct fixture {
	struct link link;
	pid_t pid;
};

static int setup(void **state)
{
	struct fixture *f = mem_new(struct fixture);
	int pair[2];

	assert_int_equal(link_pair(pair, NULL), 0);
	f->pid = fork();
	if (f->pid == 0) {
		close(pair[0]);
		_exit(check_main(pair[1]));
	}
	close(pair[1]);
	link_init(&f->link, pair[0], SIDE_LAUNCHER, SIDE_CHECK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	link_done(&f->link);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	free(f);
	return 0;
}

static void add_file(struct check_ask *ask, const char *name, const char *error, const char *text)
{
	cleanup_free char *file = mem_printf("/etc/%s.yaml", name);
	const uint32_t len = (uint32_t)strlen(text);
	cleanup_buf struct buf lengths = {0}, texts = {0};

	strv_add(&ask->name, name);
	strv_add(&ask->file, file);
	strv_add(&ask->error, error);
	buf_add(&lengths, ask->length.data, ask->length.len);
	buf_add(&lengths, &len, sizeof(len));
	buf_add(&texts, ask->text.data, ask->text.len);
	buf_add(&texts, text, len);
	bytes_set(&ask->length, lengths.data, lengths.len);
	bytes_set(&ask->text, texts.data, texts.len);
}

static void send_ask(struct fixture *f, struct check_ask *ask, int snapshot)
{
	assert_int_equal(
		link_send(&f->link, MSG_check_ask, 0, ask, &snapshot, snapshot != -1, NULL),
		LINK_OK);
	msg_done(MSG_check_ask, ask);
}

/* The next answer; its snapshot, or -1. */
static int receive(struct fixture *f, struct check_policy *out)
{
	struct link_msg m;
	int fd = -1;

	assert_int_equal(link_recv(&f->link, &m, NULL), LINK_OK);
	assert_int_equal(link_unpack(&m, out, NULL), 0);
	if (m.nfds > 0)
		fd = take_fd(m.fd[0]);
	link_msg_done(&m);
	return fd;
}

static int ask_one(struct fixture *f, const char *text, struct check_policy *out)
{
	struct check_ask ask = {.policies = 1};

	add_file(&ask, "p", "", text);
	send_ask(f, &ask, -1);
	return receive(f, out);
}

static void pol_4_a_snapshot_comes_back_sealed(void **state)
{
	struct check_policy p;
	cleanup_fd int fd =
		ask_one(*state, OPEN "description: d\nresource_limits: {pids_max: 7}\n", &p);
	cleanup_free char *bytes = NULL;
	struct policy *opened;
	struct stat st;

	assert_null(p.code);
	assert_string_equal(p.name, "p");
	assert_string_equal(p.description, "d");
	assert_int_equal(p.limits.n, 1);
	assert_string_equal(p.limits.v[0], "pids_max=7");
	assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK),
			 F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = mem_alloc((size_t)st.st_size);
	assert_int_equal(fdio_pread_full(fd, bytes, (size_t)st.st_size, 0), st.st_size);
	assert_int_equal(policy_open(bytes, (size_t)st.st_size, &opened, NULL), 0);
	assert_string_equal(policy_version(opened), p.version);
	policy_close(opened);
	msg_done(MSG_check_policy, &p);
}

static void pol_4_an_error_has_its_place(void **state)
{
	struct check_policy p;

	assert_int_equal(ask_one(*state, OPEN "descripton: d\n", &p), -1);
	assert_string_equal(p.code, "E_BAD_REQUEST");
	assert_non_null(strstr(p.message, "/etc/p.yaml:4:1"));
	assert_null(p.version);
	msg_done(MSG_check_policy, &p);
}

static void pol_4_a_policy_has_the_name_of_its_file(void **state)
{
	struct check_policy p;

	assert_int_equal(ask_one(*state, "version: 1\nname: q\n", &p), -1);
	assert_string_equal(p.code, "E_BAD_REQUEST");
	assert_non_null(strstr(p.message, "its name is 'q', not 'p'"));
	msg_done(MSG_check_policy, &p);
}

#define USES(set) OPEN "network_rules: [{name: n, domains: ['@" set "'], decision: deny}]\n"

/* Every policy has an answer of its own, in their order. A set is looked at only where it is used.
 */
static void pol_6_sets_come_with_the_question(void **state)
{
	struct fixture *f = *state;
	struct check_ask ask = {.policies = 4};
	struct check_policy p[4];
	int fd[4], status;

	add_file(&ask, "p", "", USES("good"));
	add_file(&ask, "p", "", USES("secret"));
	add_file(&ask, "p", "", USES("goo"));
	add_file(&ask, "p", "E_FORBIDDEN others can write it", "");
	add_file(&ask, "good", "", "version: 1\nname: good\nkind: domains\nitems: [x.example]\n");
	add_file(&ask, "secret", "E_NOT_FOUND cannot open it", "");
	send_ask(f, &ask, -1);
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		fd[i] = receive(f, &p[i]);
	assert_true(fd[0] >= 0);
	assert_null(p[0].code);
	assert_int_equal(fd[1], -1);
	assert_non_null(strstr(p[1].message, "cannot read the set /etc/secret.yaml"));
	assert_non_null(strstr(p[2].message, "'goo'"));
	assert_non_null(strstr(p[2].message, "good"));
	assert_string_equal(p[3].code, "E_FORBIDDEN");
	assert_string_equal(p[3].message, "others can write it");
	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		msg_done(MSG_check_policy, &p[i]);
		mem_cleanup_fd(&fd[i]);
	}
	/* then it ends */
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	assert_int_equal(status, 0);
}

/* A snapshot that is there is not compiled again: only what the request asks for is looked at. */
static void ses_3_a_snapshot_is_asked_about_a_request(void **state)
{
	struct fixture *f = *state, *second;
	struct check_ask ask = {.policies = 1};
	struct check_policy p;
	cleanup_free char *version = NULL;
	int fd = ask_one(f, OPEN "environment: {allow: [LANG]}\n", &p);

	version = mem_strdup(p.version);
	msg_done(MSG_check_policy, &p);
	setup((void **)&second);
	add_file(&ask, "p", "", "nonsense");
	strv_add(&ask.variables, "TERM");
	send_ask(second, &ask, fd);
	close(fd);
	fd = receive(second, &p);
	assert_string_equal(p.version, version);
	assert_string_equal(p.code, "E_POLICY_DENIED");
	assert_non_null(strstr(p.denial, "\x1f"
					 "TERM\x1f"));
	assert_true(fd >= 0);
	close(fd);
	msg_done(MSG_check_policy, &p);
	teardown((void **)&second);
}

/* Where a mode is named, it must be able to enforce every rule about files in what all sessions
 * see.
 */
static void fil_3_a_rule_that_the_mode_cannot_enforce(void **state)
{
#define FILES(pattern) OPEN "file_rules: [{name: n, paths: ['" pattern "'], decision: deny}]\n"
	static const struct {
		const char *text, *mode, *place; /* that the error names; NULL: it is loaded */
	} cases[] = {
		{FILES("/workspace/a/**"), "native", "in /workspace with"},
		{FILES("**/.env"), "native", "in /workspace, /home/agent, /tmp and"},
		{FILES("/workspace/a/**"), NULL, NULL},
		{FILES("/srv/**"), "native", NULL},
		{FILES("/workspace/shut/x"), "native", NULL},
		{OPEN, "native", NULL},
		{"version: 1\nname: p\n", "native", "rule 'default' of"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct check_ask ask = {.policies = 1};
		struct check_policy p;
		struct fixture *f;
		int fd;

		setup((void **)&f);
		ask.mode = cases[i].mode != NULL ? mem_strdup(cases[i].mode) : NULL;
		for (const char *const *at = sandbox_places; *at != NULL; at++)
			strv_add(&ask.places, *at);
		strv_add(&ask.closed, "/workspace/shut");
		add_file(&ask, "p", "", cases[i].text);
		send_ask(f, &ask, -1);
		fd = receive(f, &p);
		assert_int_equal(fd == -1, cases[i].place != NULL);
		if (cases[i].place != NULL) {
			assert_string_equal(p.code, "E_ENFORCEMENT");
			assert_string_equal(p.subject, "file_rules");
			assert_non_null(strstr(p.message, cases[i].place));
			assert_non_null(strstr(p.message, "monitoring.mode native"));
		}
		mem_cleanup_fd(&fd);
		msg_done(MSG_check_policy, &p);
		teardown((void **)&f);
	}
}

static void pol_4_lists_that_do_not_belong_together(void **state)
{
	struct fixture *f = *state;
	struct check_ask ask = {.policies = 1};
	struct link_msg m;
	int status;

	add_file(&ask, "p", "", OPEN);
	ask.text.len--;
	send_ask(f, &ask, -1);
	assert_int_equal(link_recv(&f->link, &m, NULL), LINK_EOF);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	assert_int_equal(WEXITSTATUS(status), 1);
}

/* Before it reads anything, the process is held by a filter and by limits. */
static void sbx_6_it_is_held_before_it_reads(void **state)
{
	struct fixture *f = *state;
	cleanup_free char *status = mem_printf("/proc/%d/status", f->pid);
	cleanup_free char *limits = mem_printf("/proc/%d/limits", f->pid);
	cleanup_buf struct buf text = {0};

	do {
		buf_clear(&text);
		assert_int_equal(fdio_load_path(status, 65536, &text, NULL), 0);
		sched_yield();
	} while (strstr(text.data, "Seccomp:\t2\n") == NULL);
	buf_clear(&text);
	assert_int_equal(fdio_load_path(limits, 65536, &text, NULL), 0);
	assert_non_null(strstr(text.data, "Max cpu time              5                    5 "));
	assert_non_null(strstr(text.data, "Max core file size        0 "));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(pol_4_a_snapshot_comes_back_sealed),
		T(pol_4_an_error_has_its_place),
		T(pol_4_a_policy_has_the_name_of_its_file),
		T(pol_6_sets_come_with_the_question),
		T(ses_3_a_snapshot_is_asked_about_a_request),
		T(fil_3_a_rule_that_the_mode_cannot_enforce),
		T(pol_4_lists_that_do_not_belong_together),
		T(sbx_6_it_is_held_before_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
