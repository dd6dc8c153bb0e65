// SPDX-License-Identifier: Apache-2.0
/* What a captured API child may try. The answer is always the same: the link is closed (and the
 * child killed), or the request refused. */
#include "launcher/testkit/rig_testkit.h"

static bool link_closed(struct rig *g, void *arg)
{
	return g->l.api.peer.link.fd < 0;
}

/* The frame's head as link.c has it. */
struct head {
	uint32_t magic;
	uint16_t version, type;
	uint32_t req, len, flags, reserved;
};
#define HEAD(type_, len_) ((struct head){0x4b4c4841, LINK_VERSION, (type_), 1, (len_), 0, 0})

static void api_1_whatever_is_no_message_closes_the_link(void **state)
{
	static const char junk[] = "GET / HTTP/1.1\r\nHost: launcher\r\n\r\n";
	struct rig *g = *state;

	rig_greeted(g);
	assert_int_equal(fdio_send(g->api.fd, junk, sizeof(junk), NULL, 0), 0);
	assert_true(rig_until(g, link_closed, NULL));
}

static void api_1_messages_of_others_close_the_link(void **state)
{
	static const enum msg_type types[] = {
		MSG_launcher_hello, MSG_launcher_created, MSG_launcher_found, MSG_launcher_stop,
		MSG_warden_hello,   MSG_init_spawn,	  (enum msg_type)9999};
	struct rig *g = *state;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const struct head h = HEAD((uint16_t)types[i], 0);

		rig_greeted(g);
		assert_int_equal(fdio_send(g->api.fd, &h, sizeof(h), NULL, 0), 0);
		assert_true(rig_until(g, link_closed, NULL));
	}
}

static void api_1_a_payload_that_lies_closes_the_link(void **state)
{
	struct rig *g = *state;
	struct {
		struct head head;
		uint32_t field;
	} frame = {HEAD(MSG_launcher_create, 4), 0xfffffff0};

	rig_greeted(g);
	assert_int_equal(fdio_send(g->api.fd, &frame, sizeof(frame), NULL, 0), 0);
	assert_true(rig_until(g, link_closed, NULL));
	frame.head.type = MSG_launcher_remove;
	rig_greeted(g);
	assert_int_equal(fdio_send(g->api.fd, &frame, sizeof(frame), NULL, 0), 0);
	assert_true(rig_until(g, link_closed, NULL));
}

/* An empty create is well-formed (an older version's): refused, and the link stays. */
static void api_1_an_empty_request_is_refused(void **state)
{
	const struct head h = HEAD(MSG_launcher_create, 0);
	struct rig *g = *state;

	rig_greeted(g);
	assert_int_equal(fdio_send(g->api.fd, &h, sizeof(h), NULL, 0), 0);
	rig_skip(g, MSG_launcher_refused);
	assert_false(link_closed(g, NULL));
}

static void api_1_too_many_descriptors_close_the_link_and_leak_nothing(void **state)
{
	const struct head h = HEAD(MSG_launcher_create, 0);
	struct rig *g = *state;
	const int fds[] = {0, 1, 2};
	int before, after;

	rig_greeted(g);
	before = dup(0);
	close(before);
	assert_int_equal(fdio_send(g->api.fd, &h, sizeof(h), fds, ARRAY_LEN(fds)), 0);
	assert_true(rig_until(g, link_closed, NULL));
	after = dup(0);
	close(after);
	assert_true(after <= before);
}

/* It asks and asks and never reads: reading stops with the first answer that cannot be sent. */
static void api_1_a_child_that_does_not_read_does_not_make_us_grow(void **state)
{
	const struct head h = HEAD(MSG_launcher_create, 0);
	struct rig *g = *state;
	unsigned sent = 0, answered = 0;
	struct link_msg m;
	size_t queued;

	rig_greeted(g);
	for (int turn = 0; turn < 2000; turn++) {
		sent += fdio_send(g->api.fd, &h, sizeof(h), NULL, 0) == 0;
		loop_settle(g->l.loop);
	}
	queued = g->l.api.peer.queued;
	assert_true(sent < 2000);
	/* When it reads again, everything it asked is answered. */
	while (answered < sent) {
		m = rig_expect(g, MSG_launcher_refused);
		assert_int_equal(queued, sizeof(h) + m.len); /* one of them */
		link_msg_done(&m);
		answered++;
	}
	assert_int_equal(g->l.api.peer.queued, 0);
	assert_int_equal(link_recv(&g->api, &m, NULL), LINK_AGAIN);
}

static void api_1_the_end_of_the_link_ends_it(void **state)
{
	struct rig *g = *state;

	rig_greeted(g);
	link_done(&g->api);
	assert_true(rig_until(g, link_closed, NULL));
	/* What is posted now goes nowhere, with its descriptors. */
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	api_link_post(&g->l, MSG_launcher_found_all, 0, &(struct msg_empty){0}, &fd, 1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* The child has sent what it had to say and closed its end, while an answer to it is queued. */
static void ses_8_the_last_message_before_the_end_counts(void **state)
{
	const struct launcher_remove ask = {(char *)(uintptr_t) "s"};
	struct rig *g = *state;

	rig_greeted(g);
	entry_new(&g->l, "s")->told = true;
	close(openat(g->l.place.sessions_fd, "s.ring", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(link_send(&g->api, MSG_launcher_remove, 0, &ask, NULL, 0, NULL), 0);
	api_link_post(&g->l, MSG_launcher_hup, 0, &(struct msg_empty){0}, NULL, 0);
	link_done(&g->api);
	assert_true(rig_until(g, link_closed, NULL));
	assert_null(entry_find(&g->l, "s"));
	assert_false(rig_file(g, "s.ring"));
}

static void say_idle(struct rig *g)
{
	assert_int_equal(
		link_send(&g->api, MSG_launcher_idle, 0, &(struct msg_empty){0}, NULL, 0, NULL), 0);
	for (int i = 0; i < 20; i++)
		loop_settle(g->l.loop);
}

static void cli_1_only_an_auto_started_server_ends_when_idle(void **state)
{
	struct rig *g = *state;

	g->l.deadline = watch_timer(g->l.loop, loop_kit_nothing, NULL);
	g->l.api.child.pid = 1; /* not to be killed here: no pidfd */
	rig_greeted(g);
	say_idle(g);
	assert_false(g->l.stopping);
	g->l.auto_start = true;
	say_idle(g);
	assert_true(g->l.stopping);
	rig_skip(g, MSG_launcher_stop);
	g->l.api.child.pid = 0;
}

/* The greeting tells of every session before the stop: they can only be ended in order by who knows
 * them. */
static void ses_8_the_stop_comes_after_the_greeting(void **state)
{
	struct rig *g = *state;

	g->l.deadline = watch_timer(g->l.loop, loop_kit_nothing, NULL);
	g->l.api.child.pid = 1;
	rig_connect(g);
	launcher_stop(&g->l, "test");
	rig_skip(g, MSG_launcher_hello);
	rig_skip(g, MSG_launcher_found_all);
	rig_skip(g, MSG_launcher_stop);
	/* Once. */
	api_link_kick(&g->l);
	for (int i = 0; i < 20; i++)
		loop_settle(g->l.loop);
	assert_int_equal(link_recv(&g->api, &(struct link_msg){0}, NULL), LINK_AGAIN);
	g->l.api.child.pid = 0;
}

static void cfg_1_the_greeting_carries_settings_and_listeners(void **state)
{
	struct rig *g = *state;
	struct launcher_hello hello;
	cleanup_free char *name = mem_printf("unix %s", g->l.place.socket);
	struct link_msg m;
	struct stat st;
	char text[32] = "";

	buf_adds(&g->l.settings.config_text, "config bytes");
	buf_adds(&g->l.settings.keys_text, "key bytes");
	g->l.settings.has_config = g->l.settings.has_keys = true;
	g->l.auto_start = true;
	strv_add(&g->l.source.overrides, "logging.level=debug");
	rig_connect(g);
	m = rig_expect(g, MSG_launcher_hello);
	assert_int_equal(link_unpack(&m, &hello, NULL), 0);
	assert_int_equal(hello.version, LINK_VERSION);
	assert_int_equal(hello.privileged, rig_root());
	assert_int_equal(hello.auto_started, 1);
	assert_int_equal(hello.owner_uid, getuid());
	assert_string_equal(hello.runtime_dir, g->l.place.runtime);
	assert_string_equal(hello.state_dir, g->l.settings.config.base_dir);
	assert_string_equal(hello.overrides.v[0], "logging.level=debug");
	assert_int_equal(hello.listeners.n, 1);
	assert_string_equal(hello.listeners.v[0], name);
	assert_true(hello.has_config && hello.has_keys);
	assert_int_equal(m.nfds, 3);
	assert_int_equal(read(m.fd[0], text, sizeof(text)), 12);
	assert_string_equal(text, "config bytes");
	assert_true((fcntl(m.fd[0], F_GET_SEALS) & F_SEAL_WRITE) != 0);
	assert_int_equal(read(m.fd[1], text, sizeof(text)), 9);
	assert_int_equal(fstat(m.fd[2], &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	msg_done(MSG_launcher_hello, &hello);
	link_msg_done(&m);
}

/* Keys are the second descriptor, whether there is a configuration file or not. */
static void cfg_1_a_reload_hands_on_the_new_files(void **state)
{
	static const struct {
		bool config, keys;
		size_t nfds;
	} rows[] = {{false, false, 1}, {true, false, 1}, {false, true, 2}, {true, true, 2}};
	struct rig *g = *state;

	rig_greeted(g);
	buf_adds(&g->l.settings.keys_text, "key bytes");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct link_msg m;
		char text[32];

		g->l.settings.has_config = rows[i].config;
		g->l.settings.has_keys = rows[i].keys;
		api_child_hup(&g->l);
		m = rig_expect(g, MSG_launcher_hup);
		assert_int_equal(m.nfds, rows[i].nfds + 1); /* the log comes first */
		if (rows[i].keys)
			assert_int_equal(read(m.fd[2], text, sizeof(text)), 9);
		link_msg_done(&m);
	}
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(api_1_whatever_is_no_message_closes_the_link),
		T(api_1_messages_of_others_close_the_link),
		T(api_1_a_payload_that_lies_closes_the_link),
		T(api_1_an_empty_request_is_refused),
		T(api_1_too_many_descriptors_close_the_link_and_leak_nothing),
		T(api_1_a_child_that_does_not_read_does_not_make_us_grow),
		T(api_1_the_end_of_the_link_ends_it),
		T(ses_8_the_last_message_before_the_end_counts),
		T(cli_1_only_an_auto_started_server_ends_when_idle),
		T(ses_8_the_stop_comes_after_the_greeting),
		T(cfg_1_the_greeting_carries_settings_and_listeners),
		T(cfg_1_a_reload_hands_on_the_new_files),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
