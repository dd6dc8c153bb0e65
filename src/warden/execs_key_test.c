// SPDX-License-Identifier: Apache-2.0
/* The key of a first exec, with the real exec thread and a guest in the leader's place: what it
 * opens, and how often. */
#include "exec/exec_testkit.h"
#include "policy/policy.h"
#include "warden/execs.h"

#define SPAWN 7
#define LET_GO 1   /* false was executed */
#define DENIED 126 /* it was not */

static const struct event cmd = {.command_id = (char *)"cmd"};
static const struct event cmd_1 = {.command_id = (char *)"cmd-1"};
static const struct event cmd_2 = {.command_id = (char *)"cmd-2"};
static const char rules[] =
	"version: 1\nname: test\ndefault: {files: allow, network: allow, commands: allow}\n"
	"command_rules:\n  - {name: no, commands: [\"false\"], decision: deny}\n";

static int make_policy(void)
{
	const struct policy_options o = {0};
	cleanup_buf struct buf bytes = {0}, report = {0};
	struct err err = {0};

	if (policy_compile("test.yaml", rules, strlen(rules), &o, &report, &bytes, &err) < 0)
		fail_msg("%s", report.data);
	return fdio_sealed("policy", bytes.data, bytes.len);
}

/* A guest that executes false once for each key that it reads, in a child. */
static int try_keys(void *arg)
{
	const int sock = *(const int *)arg;
	uint64_t key;

	while (read(sock, &key, sizeof(key)) == sizeof(key)) {
		const pid_t pid = fork();
		int status;

		if (pid == 0) {
			char *argv[] = {(char *)"false", NULL};

			syscall(SYS_execve, "/usr/bin/false", argv, argv + 1, 0L, 0L, key);
			_exit(DENIED);
		}
		status = kit_status(pid);
		if (write(sock, &status, sizeof(status)) != sizeof(status))
			return KIT_BROKEN;
		if (write(sock, &pid, sizeof(pid)) != sizeof(pid))
			return KIT_BROKEN;
	}
	return 0;
}

static struct fixture {
	struct execs *execs;
	struct actor_table *actors;
	int sock;
	pid_t guest, last; /* last: the child of the last try */
	struct event recorded;
} f;

static void wake(void *arg)
{
}

/* On the exec thread, while the caller waits in its exec. */
static void on_first(void *arg, const struct event *e)
{
	f.recorded = *e;
}

static void begin(void)
{
	struct execs_setup s = {.root = -1, .wake = wake, .first = on_first, .helper = ""};
	struct wall_report walls;
	struct err err = {0};
	int to[2], keys[2], listener = -1;
	size_t nfds = 1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keys), 0);
	kit.keeper = fork();
	if (kit.keeper == 0) {
		close(keys[0]);
		kit_be_keeper(to[1], try_keys, &keys[1]);
	}
	close(to[1]);
	close(keys[1]);
	assert_int_equal(fdio_recv(to[0], &f.guest, sizeof(pid_t), &listener, &nfds, NULL),
			 sizeof(pid_t));
	kit.go = to[0];
	f.sock = keys[0];
	s.listener = listener;
	s.policy_fd = make_policy();
	wall_report_init(&walls);
	assert_int_equal(actor_table_open(&f.actors, &err), 0);
	s.actors = f.actors;
	if (execs_open(&s, &f.execs, &walls, &err) < 0)
		fail_msg("%s", err.message);
	close(s.policy_fd);
	kit_go();
}

static void end(void)
{
	close(f.sock);
	assert_int_equal(kit_wait(), 0);
	execs_close(f.execs);
	actor_table_close(f.actors);
}

static int try_key(uint64_t key)
{
	int status = -1;

	assert_int_equal(write(f.sock, &key, sizeof(key)), sizeof(key));
	assert_int_equal(read(f.sock, &status, sizeof(status)), sizeof(status));
	assert_int_equal(read(f.sock, &f.last, sizeof(f.last)), sizeof(f.last));
	return status;
}

static uint64_t expect(uint32_t spawn, const struct event *first)
{
	actor_table_expect(f.actors, spawn, &(struct actor_leader){0}, first->command_id);
	return execs_expect(f.execs, spawn, first);
}

/* POL-4: a key lets one exec go, whatever the policy says of it, and no second one: also not of the
 * same process. */
static void pol_4_a_key_is_good_once(void **state)
{
	uint64_t key;

	begin();
	assert_int_equal(try_key(0), DENIED);
	key = expect(SPAWN, &cmd_1);
	assert_true(key != 0);
	assert_int_equal(try_key(key + 1), DENIED);
	assert_int_equal(try_key(key ^ UINT64_C(1) << 63), DENIED);
	assert_int_equal(try_key(0), DENIED);
	assert_int_equal(execs_initial_pid(f.execs, SPAWN), 0);
	assert_null(f.recorded.command_id);
	assert_int_equal(try_key(key), LET_GO);
	assert_string_equal(f.recorded.command_id, "cmd-1");
	assert_int_equal(f.recorded.pid, f.last);
	assert_int_equal(f.recorded.exec_ppid, f.guest);
	assert_int_equal(execs_initial_pid(f.execs, SPAWN), f.last);
	assert_int_equal(try_key(key), DENIED);
	assert_int_equal(try_key(0), DENIED);
	end();
}

/* POL-4: the key of a command that is over opens nothing; each command has its own. */
static void pol_4_a_key_ends_with_its_command(void **state)
{
	uint64_t first, second;

	begin();
	first = expect(SPAWN, &cmd_1);
	second = expect(SPAWN + 1, &cmd_2);
	assert_true(first != second);
	execs_over(f.execs, SPAWN);
	assert_int_equal(try_key(first), DENIED);
	assert_int_equal(try_key(second), LET_GO);
	assert_int_equal(execs_initial_pid(f.execs, SPAWN + 1), f.last);
	assert_int_equal(execs_initial_pid(f.execs, SPAWN), 0);
	end();
}

/* More keys than are drawn at once. */
static void pol_4_no_key_comes_twice(void **state)
{
	uint64_t keys[100];

	begin();
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		keys[i] = expect((uint32_t)i + 1, &cmd);
		assert_true(keys[i] != 0);
		for (size_t k = 0; k < i; k++)
			assert_true(keys[k] != keys[i]);
	}
	assert_int_equal(execs_expect(NULL, 1, &cmd), 0);
	end();
}

static int prepare(void **state)
{
	alarm(KIT_TIMEOUT_S);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_key_is_good_once),
		cmocka_unit_test(pol_4_a_key_ends_with_its_command),
		cmocka_unit_test(pol_4_no_key_comes_twice),
	};

	return cmocka_run_group_tests(tests, prepare, NULL);
}
