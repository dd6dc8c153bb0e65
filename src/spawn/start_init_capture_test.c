// SPDX-License-Identifier: Apache-2.0
/* Captures of the shell's state in a real session made by root. */
#include "base/mem.h"
#include "spawn/capture.h"
#include "spawn/testkit/init_testkit.h"
#include <sys/socket.h>
#include <sys/stat.h>

/* Runs a script that ends with the helper, and receives what it sends. */
static void capture_of(struct box_session *s, const char *script, struct strv *env, char **cwd)
{
	struct capture c = {0};
	struct init_spawn ask;
	struct box_run run;
	cleanup_fd int conn = -1;
	char datagram[CAPTURE_CHUNK];

	box_ask(&ask, script);
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(conn >= 0);
	while (!c.ended) {
		const ssize_t n = recv(conn, datagram, sizeof(datagram), MSG_TRUNC);

		assert_in_range(n, 1, (long)sizeof(datagram));
		assert_int_equal(capture_feed(&c, datagram, (size_t)n, 256 * 1024, NULL), 0);
	}
	assert_int_equal(capture_finish(&c, env, cwd, NULL), 0);
	assert_int_equal(send(conn, "A", 1, MSG_NOSIGNAL), 1);
	box_read_all(&run);
	assert_string_equal(run.text.data, "0\n");
	capture_done(&c);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void sta_3_the_environment_comes_back_as_data(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *cwd = NULL;
	struct strv env = {0};

	capture_of(s,
		   "export BIG=$(head -c 70000 /dev/zero | tr '\\0' x) LINES='a\nb'; "
		   "/run/agentsh/bin/state; "
		   "echo $?",
		   &env, &cwd);
	assert_int_equal(strlen(strv_env_get(&env, "BIG")), 70000);
	assert_string_equal(strv_env_get(&env, "LINES"), "a\nb");
	assert_string_equal(strv_env_get(&env, "HOME"), "/home/agent");
	assert_string_equal(cwd, "/workspace");
	strv_done(&env);
}

/* STA-2: the shell's own name of the directory counts if it is one, else the kernel's. */
static void sta_2_the_directory_keeps_the_links_that_were_walked(void **state)
{
	static const struct {
		const char *script, *cwd;
	} rows[] = {
		{"ln -s /usr /tmp/link; cd /tmp/link; /run/agentsh/bin/state; echo $?",
		 "/tmp/link"},
		{"cd /usr; PWD=/tmp /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; PWD=/no/such /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; PWD=../usr /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; env -u PWD /run/agentsh/bin/state; echo $?", "/usr"},
		{"mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone; /run/agentsh/bin/state; echo $?",
		 "/tmp/gone"},
	};
	struct box_session *s = box_session_of(state);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *cwd = NULL;
		struct strv env = {0};

		capture_of(s, rows[i].script, &env, &cwd);
		assert_string_equal(cwd, rows[i].cwd);
		strv_done(&env);
	}
}

/* STA-6: the sender is recognised by the inode of its program. */
static void sta_6_the_sender_is_our_program(void **state)
{
	box_expect_sender(box_session_of(state),
			  "LD_PRELOAD=/none /run/agentsh/bin/state; echo $?");
}

static void sta_5_a_capture_that_is_refused_fails(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	int conn;

	box_ask(&ask, "/run/agentsh/bin/state; echo $?");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(send(conn, "F", 1, MSG_NOSIGNAL), 1);
	box_read_all(&run);
	assert_string_equal(run.text.data, "1\n");
	close(conn);
	box_run_done(&run);
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	close(accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC));
	box_read_all(&run);
	assert_string_equal(run.text.data, "1\n");
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_3_the_environment_comes_back_as_data),
		cmocka_unit_test(sta_2_the_directory_keeps_the_links_that_were_walked),
		cmocka_unit_test(sta_6_the_sender_is_our_program),
		cmocka_unit_test(sta_5_a_capture_that_is_refused_fails),
	};

	box_ready = geteuid() == 0 && box_prepare(0) == 0;
	return box_finish(cmocka_run_group_tests(tests, box_group_open, box_group_close));
}
