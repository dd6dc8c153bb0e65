// SPDX-License-Identifier: Apache-2.0
/* Commands that wait for an approver. This program is also the warden: executed by that name it
 * hands an approver to the session, which passes questions to the test and answers back. */
#include "base/log.h"
#include "command/testkit/warden_testkit.h"
#include "gate/gate.h"
#include "spawn/assignment.h"
#include "warden/warden.h"
#include <pthread.h>
#include <stddef.h>
#include <sys/uio.h>

static const char rules[] =
	"command_rules:\n  - {name: ask, commands: [expr], decision: approve}\n";

/* Behind a question comes its text: its id, operations and paths. */
struct message {
	uint64_t id;
	char what; /* 'a' asked, 'c' cancelled; 'y', 'n' answers; 't' the approver's time-out */
};

/* ---- in the warden ---- */

static struct {
	int sock;
	struct gate *gate;
} asking;

static void pass_on(uint64_t id, char what, const char *text)
{
	struct message m = {id, what};
	const struct iovec parts[] = {{&m, sizeof(m)}, {(char *)(uintptr_t)text, strlen(text)}};

	if (writev(asking.sock, parts, ARRAY_LEN(parts)) < 0)
		_exit(99);
}

static void on_ask(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
		   int64_t deadline_us)
{
	cleanup_buf struct buf text = {0};

	asking.gate = g;
	buf_addf(&text, "%s ", k->approval_id);
	op_format_kind(k->op, &text);
	for (unsigned op = 0; op < OP_FILES; op++)
		if ((k->also & 1U << op) != 0)
			buf_addf(&text, "+%s", op_file_name((enum op_file)op));
	buf_addc(&text, ' ');
	op_format_target(k->op, &text);
	if (k->to != NULL)
		buf_addf(&text, " -> %s", k->to);
	pass_on(id, 'a', text.data);
}

static void on_cancel(void *arg, uint64_t id)
{
	pass_on(id, 'c', "");
}

static void *pass_answers(void *arg)
{
	struct message m;

	while (recv(asking.sock, &m, sizeof(m), 0) == sizeof(m))
		gate_answer(asking.gate, m.id, m.what == 'y');
	return NULL;
}

/* The parent of the warden is the test, or the server of tests/integration/test_approval.py. */
static socklen_t socket_name(pid_t test, struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1,
					    "agentsh-approver-%d", (int)test));
}

static int be_warden(int argc, char **argv)
{
	struct gate_approver approver = {.ask = on_ask, .cancel = on_cancel};
	struct process_args args;
	struct sockaddr_un a;
	const socklen_t n = socket_name(getppid(), &a);
	struct message m;
	pthread_t thread;

	log_init("agentsh-warden", LOG_INFO, LOG_TEXT, 2);
	asking.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* The stub of a server starts a warden that waits. */
	if ((strcmp(argv[1], ASSIGNMENT_ID) == 0
		     ? assignment_await(argc, argv, warden_holds, &args, NULL)
		     : process_args_parse(&process_table[PROCESS_warden], argc, argv, &args,
					  NULL)) < 0 ||
	    connect(asking.sock, (struct sockaddr *)&a, n) < 0 ||
	    recv(asking.sock, &m, sizeof(m), 0) != sizeof(m))
		return 98;
	approver.timeout_ms = (int64_t)m.id;
	if (pthread_create(&thread, NULL, pass_answers, NULL) != 0)
		return 98;
	return warden_main(&args, &approver);
}

/* ---- in the test ---- */

static int approver = -1;

static struct wkit *open_with(void **state, uint64_t timeout_ms)
{
	const struct wkit_request request = {.rules = rules, .no_hello = true};
	const struct message timeout = {timeout_ms, 't'};
	const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	const socklen_t n = socket_name(getpid(), &a);
	struct wkit *k;

	wkit_of(state);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(listener, 1), 0);
	k = wkit_open_with(&request);
	approver = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(approver >= 0);
	close(listener);
	assert_int_equal(send(approver, &timeout, sizeof(timeout), 0), sizeof(timeout));
	wkit_say_hello(k);
	return k;
}

static void close_session(struct wkit *k)
{
	wkit_close((void **)&k);
	close(approver);
}

/* The next message to the approver; its id. */
static uint64_t expect_message(char what)
{
	struct pollfd p = {approver, POLLIN, 0};
	struct message m;

	assert_int_equal(poll(&p, 1, WKIT_WAIT_MS), 1);
	assert_int_equal(recv(approver, &m, sizeof(m), 0), sizeof(m));
	assert_int_equal(m.what, what);
	return m.id;
}

static void answer(uint64_t id, bool allow)
{
	const struct message m = {id, allow ? 'y' : 'n'};

	assert_int_equal(send(approver, &m, sizeof(m), 0), sizeof(m));
}

static struct wkit_command start_expr(struct wkit *k, uint64_t timeout_ms)
{
	struct wkit_command c = wkit_command(k);

	strv_add(&c.ask.argv, "expr");
	strv_add(&c.ask.argv, "1");
	strv_add(&c.ask.argv, "+");
	strv_add(&c.ask.argv, "1");
	c.ask.timeout_ms = timeout_ms;
	wkit_send(k, &c);
	return c;
}

static void send_kill(struct wkit *k, const struct wkit_command *c, int sig)
{
	const struct warden_kill m = {
		.command_id = (char *)(uintptr_t)c->id, .signal = (uint32_t)sig, .tree = 1};

	assert_int_equal(link_send(&k->api, MSG_warden_kill, 0, &m, NULL, 0, NULL), 0);
}

static void expect_output(struct wkit_command *c, const char *text)
{
	cleanup_free char *out = wkit_text(c, 0);

	assert_null(c->refused.code);
	assert_string_equal(out, text);
	assert_int_equal(c->result.exit_code, 0);
}

/* POL-2: a command whose program must be approved waits before there is a process, and holds up no
 * other command. */
static void pol_2_an_approved_command_runs(void **state)
{
	struct wkit *k = open_with(state, WKIT_WAIT_MS);
	struct wkit_command c = start_expr(k, 0), other;
	const uint64_t id = expect_message('a');

	other = wkit_run(k, "echo", "meanwhile");
	expect_output(&other, "meanwhile\n");
	wkit_drain(k);
	assert_null(strstr(k->events, "command_started cmd-1"));
	assert_null(strstr(k->execs, "expr"));
	answer(id, true);
	wkit_wait(k, &c);
	expect_output(&c, "2\n");
	wkit_drain(k);
	assert_non_null(strstr(k->execs, "/usr/bin/expr allow cmd-1 ask;"));
	wkit_done(&c);
	wkit_done(&other);
	close_session(k);
}

static void pol_2_a_disapproved_command_does_not_start(void **state)
{
	struct wkit *k = open_with(state, WKIT_WAIT_MS);
	struct wkit_command c = start_expr(k, 0);

	answer(expect_message('a'), false);
	wkit_wait(k, &c);
	assert_string_equal(c.refused.code, "E_APPROVAL_DENIED");
	assert_int_equal(strncmp(c.refused.policy, "ask\x1f", 4), 0);
	wkit_drain(k);
	assert_string_equal(k->execs, "/usr/bin/expr deny cmd-1 ask;");
	assert_null(strstr(k->events, "command_started"));
	wkit_done(&c);
	close_session(k);
}

static void pol_2_a_command_that_nobody_approves_in_time_is_refused(void **state)
{
	struct wkit *k = open_with(state, 50);
	struct wkit_command c = start_expr(k, 0);
	const uint64_t id = expect_message('a');

	wkit_wait(k, &c);
	assert_string_equal(c.refused.code, "E_APPROVAL_TIMEOUT");
	assert_int_equal(expect_message('c'), id);
	wkit_done(&c);
	wkit_expect(k, "echo after", "after\n", 0);
	close_session(k);
}

/* POL-2: the end of the command is the end of the question. */
static void pol_2_a_kill_ends_a_command_that_waits(void **state)
{
	static const int signals[] = {SIGTERM, SIGKILL};
	struct wkit *k = open_with(state, WKIT_WAIT_MS);

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		struct wkit_command c = start_expr(k, 0);
		const uint64_t id = expect_message('a');

		send_kill(k, &c, signals[i]);
		wkit_wait(k, &c);
		assert_int_equal(c.result.signal, signals[i]);
		assert_string_equal(c.result.error_code, "E_COMMAND_KILLED");
		assert_int_equal(expect_message('c'), id);
		answer(id, true); /* comes too late */
		wkit_done(&c);
	}
	wkit_expect(k, "echo after", "after\n", 0);
	wkit_drain(k);
	assert_null(strstr(k->execs, "expr allow"));
	assert_non_null(strstr(k->events, "command_killed cmd-1"));
	close_session(k);
}

static void pol_2_a_time_out_ends_a_command_that_waits(void **state)
{
	struct wkit *k = open_with(state, WKIT_WAIT_MS);
	struct wkit_command c = start_expr(k, 50);
	const uint64_t id = expect_message('a');

	wkit_wait(k, &c);
	assert_string_equal(c.result.error_code, "E_COMMAND_TIMEOUT");
	assert_int_equal(c.result.exit_code, 124);
	assert_int_equal(expect_message('c'), id);
	wkit_done(&c);
	close_session(k);
}

static void pol_2_the_end_of_a_session_ends_a_command_that_waits(void **state)
{
	struct wkit *k = open_with(state, WKIT_WAIT_MS);
	struct wkit_command c = start_expr(k, 0);
	const uint64_t id = expect_message('a');

	wkit_end(k);
	wkit_wait(k, &c);
	assert_string_equal(c.refused.code, "E_SESSION_STOPPED");
	assert_int_equal(expect_message('c'), id);
	assert_int_equal(wkit_wait_warden(k), 0);
	wkit_free(k);
	wkit_done(&c);
	close(approver);
}

/* POL-2: so does a program that a running command executes, and is asked about with it. */
static void pol_2_a_nested_program_waits(void **state)
{
	struct wkit *k = open_with(state, WKIT_WAIT_MS);
	struct wkit_command c = wkit_start_script(k, "echo before; expr 1 + 1; echo after", 0),
			    other;
	uint64_t id = expect_message('a');

	other = wkit_run(k, "true");
	wkit_done(&other);
	answer(id, true);
	wkit_wait(k, &c);
	expect_output(&c, "before\n2\nafter\n");
	wkit_done(&c);
	c = wkit_start_script(k, "expr 1 + 1; echo after", 0);
	id = expect_message('a');
	send_kill(k, &c, SIGKILL);
	wkit_wait(k, &c);
	assert_int_equal(c.result.signal, SIGKILL);
	assert_int_equal(expect_message('c'), id);
	wkit_done(&c);
	close_session(k);
}

static int prepare(void **state)
{
	const int r = wkit_prepare(state);

	if (wkit_warden_fd >= 0)
		close(wkit_warden_fd);
	wkit_warden_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return r;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_2_an_approved_command_runs),
		cmocka_unit_test(pol_2_a_disapproved_command_does_not_start),
		cmocka_unit_test(pol_2_a_command_that_nobody_approves_in_time_is_refused),
		cmocka_unit_test(pol_2_a_kill_ends_a_command_that_waits),
		cmocka_unit_test(pol_2_a_time_out_ends_a_command_that_waits),
		cmocka_unit_test(pol_2_the_end_of_a_session_ends_a_command_that_waits),
		cmocka_unit_test(pol_2_a_nested_program_waits),
	};

	if (argc > 2)
		return be_warden(argc, argv);
	return cmocka_run_group_tests_name("approval", tests, prepare, wkit_clean);
}
