// SPDX-License-Identifier: Apache-2.0
/* What a warden writes into its session's map. */
#include "bpf/bpf_map.h"
#include "bpf/exec_wants.h"
#include "bpf/testkit/bpf_testkit.h"
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#define PID 5000000 /* above PID_MAX_LIMIT */

static const struct exec_decision decision = {
	.path = "/usr/bin/true", .dev = 0x801, .ino = 77, .argv = "true", .argv_len = 5};

static struct exec_wants *new_wants(void)
{
	const uint32_t key = 0;
	const union exec_entry zero = {0};
	const struct bpf_map_shape shape = {"wants",	 BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC,
					    sizeof(key), sizeof(zero),	    EXEC_WANTS_MAX};
	int map;

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	map = bpf_map_new(&shape);
	if (map < 0) {
		print_message("# skipped: no BPF maps here: %s\n", strerror(-map));
		skip();
	}
	assert_int_equal(bpf_map_put(map, &key, &zero), 0);
	return exec_wants_open(map, -1);
}

/* POL-4: each session has a key of its own, so an argv with the hash of another one cannot be
 * looked for elsewhere. */
static void pol_4_sessions_hash_with_different_keys(void **state)
{
	struct exec_wants *w[2] = {new_wants(), new_wants()};
	struct exec_want want[2];

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(exec_wants_put(w[i], PID, &decision), 0);
		assert_int_equal(exec_wants_get(w[i], PID, &want[i]), 0);
		exec_wants_close(w[i]);
	}
	assert_memory_equal(&want[0].decided, &want[1].decided, sizeof(want[0].decided));
	assert_memory_not_equal(want[0].hash_key, want[1].hash_key, sizeof(want[0].hash_key));
	assert_int_not_equal(want[0].argv_hash, want[1].argv_hash);
}

static void pol_4_wants_are_put_walked_and_dropped(void **state)
{
	struct exec_wants *w = new_wants();
	struct exec_record record;
	struct exec_want want;
	unsigned seen = 0;
	pid_t pid = 0;

	for (int i = 0; i < EXEC_WANTS_MAX - 1; i++) /* one is the record's */
		assert_int_equal(exec_wants_put(w, PID + i, &decision), 0);
	assert_int_equal(exec_wants_put(w, PID - 1, &decision), -E2BIG);
	assert_int_equal(exec_wants_pass(w, PID), 0); /* replaces it */
	while (exec_wants_next(w, &pid, &want)) {
		assert_int_equal(want.state, pid == PID ? EXEC_PASS : EXEC_COMPARE);
		seen++;
	}
	assert_int_equal(seen, EXEC_WANTS_MAX - 1);
	assert_true(exec_wants_drop(w, PID));
	assert_false(exec_wants_drop(w, PID));
	assert_int_equal(exec_wants_get(w, PID, &want), -ENOENT);
	assert_int_equal(exec_wants_record(w, &record), 0);
	assert_int_equal(record.done + record.mismatched, 0);
	assert_true(exec_wants_check(w) < 0); /* there is no link */
	exec_wants_close(w);
	exec_wants_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_sessions_hash_with_different_keys),
		cmocka_unit_test(pol_4_wants_are_put_walked_and_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
