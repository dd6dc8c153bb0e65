// SPDX-License-Identifier: Apache-2.0
/* The key of an initial exec, with the real listener thread and a guest in the leader's place: what
 * it opens, and how often. */
#include "exec/testkit/exec_testkit.h"

#define SPAWN 7
#define LET_GO 1   /* false was executed */
#define DENIED 126 /* it was not */

/* A guest that executes false once for each key that it reads, in a child. What is shorter than a
 * key ends it. */
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
	struct exec_looker *looker;
	struct exec_initial *initial[128];
	size_t ninitial;
	int sock;
	pid_t last; /* the child of the last try */
} f;

static void begin(void)
{
	int keys[2];

	f = (struct fixture){
		.looker = exec_looker_new(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), NULL)};
	kit.rules = "  - {name: no, commands: [\"false\"], decision: deny}\n";
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keys), 0);
	kit_start(try_keys, &keys[1]);
	close(keys[1]);
	f.sock = keys[0];
	kit_go();
}

static void end(void)
{
	assert_int_equal(write(f.sock, "", 1), 1);
	assert_int_equal(kit_wait(), 0);
	close(f.sock);
	for (size_t i = 0; i < f.ninitial; i++)
		exec_over(kit.control, (uint32_t)i + SPAWN);
	while (f.ninitial > 0)
		exec_initial_free(f.initial[--f.ninitial]);
	kit_stop();
	exec_looker_free(f.looker);
}

static int try_key(uint64_t key)
{
	int status = -1;

	assert_int_equal(write(f.sock, &key, sizeof(key)), sizeof(key));
	assert_int_equal(read(f.sock, &status, sizeof(status)), sizeof(status));
	assert_int_equal(read(f.sock, &f.last, sizeof(f.last)), sizeof(f.last));
	return status;
}

/* The next command; the first one has the number SPAWN. */
static uint64_t expect(const char *command_id)
{
	const uint32_t spawn = (uint32_t)f.ninitial + SPAWN;
	struct exec_initial *i = kit_initial(f.looker, command_id);

	f.initial[f.ninitial++] = i;
	actor_table_expect(kit.actors, spawn, &(struct actor_leader){0}, command_id);
	return exec_expect(kit.control, spawn, i);
}

static pid_t pid_of(uint32_t spawn)
{
	struct exec_news news;

	exec_take_news(kit.control, spawn, &news);
	return news.pid;
}

/* It is in the journal before the program runs. */
static const struct kit_record *find_initial(void)
{
	for (size_t i = 0; i < kit.nrecords; i++)
		if (kit.record[i].initial)
			return &kit.record[i];
	return NULL;
}

/* POL-4: a key lets one exec go, whatever the policy says of it, and no second one: also not of the
 * same process. */
static void pol_4_a_key_is_good_once(void **state)
{
	uint64_t key;

	begin();
	assert_int_equal(try_key(0), DENIED);
	key = expect("cmd-1");
	assert_true(key != 0);
	assert_int_equal(try_key(key + 1), DENIED);
	assert_int_equal(try_key(key ^ UINT64_C(1) << 63), DENIED);
	assert_int_equal(try_key(0), DENIED);
	assert_int_equal(pid_of(SPAWN), 0);
	assert_null(find_initial());
	assert_int_equal(try_key(key), LET_GO);
	assert_non_null(find_initial());
	assert_string_equal(find_initial()->command_id, "cmd-1");
	assert_int_equal(find_initial()->pid, f.last);
	assert_int_equal(find_initial()->ppid, kit.guest);
	assert_int_equal(pid_of(SPAWN), f.last);
	assert_int_equal(try_key(key), DENIED);
	assert_int_equal(try_key(0), DENIED);
	end();
}

/* POL-4: the key of a command that is over opens nothing; each command has its own. */
static void pol_4_a_key_ends_with_its_command(void **state)
{
	uint64_t first, second;

	begin();
	first = expect("cmd-1");
	second = expect("cmd-2");
	assert_true(first != second);
	exec_over(kit.control, SPAWN);
	assert_int_equal(try_key(first), DENIED);
	assert_int_equal(try_key(second), LET_GO);
	assert_int_equal(pid_of(SPAWN + 1), f.last);
	assert_int_equal(pid_of(SPAWN), 0);
	end();
}

/* More keys than are drawn at once. */
static void pol_4_no_key_comes_twice(void **state)
{
	uint64_t keys[100];

	begin();
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		keys[i] = expect("cmd");
		assert_true(keys[i] != 0);
		for (size_t k = 0; k < i; k++)
			assert_true(keys[k] != keys[i]);
	}
	assert_int_equal(exec_expect(NULL, 1, NULL), 0);
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
