// SPDX-License-Identifier: Apache-2.0
/* The stdio stream: frames and credit in both directions, ends, and clients that break the rules.
 */
#include "api/testkit/api_testkit.h"
#include "wire/stdio_frame.h"
#include <signal.h>

#define S "/api/v1/sessions/s"
#define KEY "X-API-Key: agent-1\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: agentsh-stdio/1\r\n"
#define ALL 31u /* every type of frame */

/* What the frames from the server said. */
struct frames {
	struct buf out[3]; /* by stream number */
	struct buf control, result;
	unsigned n, results;
};

static int on_frame(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	struct frames *f = arg;

	f->n++;
	assert_int_equal(f->results, 0); /* the result is the last one */
	switch (type) {
	case STDIO_STDOUT:
	case STDIO_STDERR:
		buf_add(&f->out[type], p, n);
		break;
	case STDIO_CONTROL:
		buf_add(&f->control, p, n);
		break;
	case STDIO_RESULT:
		f->results++;
		buf_add(&f->result, p, n);
		break;
	case STDIO_STDIN:
		fail();
	}
	return 0;
}

static void frames_done(struct frames *f)
{
	for (int i = 0; i < 3; i++)
		buf_done(&f->out[i]);
	buf_done(&f->control);
	buf_done(&f->result);
	*f = (struct frames){0};
}
#define cleanup_frames __attribute__((cleanup(frames_done)))

/* All frames since the head. */
static void read_frames(struct rig *r, struct got *g, struct frames *f)
{
	struct stdio_parser p = {0};
	struct err err = {0};

	frames_done(f);
	for (int i = 0; i < 3; i++)
		buf_adds(&f->out[i], "");
	buf_adds(&f->control, "");
	for (int i = 0; i < 8; i++)
		rig_turn(r, g);
	assert_int_equal(g->status, 101);
	assert_int_equal(stdio_parse(&p, g->body.data, g->body.len, ALL, on_frame, f, &err), 0);
	stdio_parser_done(&p);
}

static void put(struct got *g, enum stdio_type type, const void *p, size_t n)
{
	cleanup_buf struct buf out = {0};

	stdio_frame(&out, type, p, n);
	rig_put(g, out.data, out.len);
}

static void control(struct got *g, const char *json)
{
	put(g, STDIO_CONTROL, json, strlen(json));
}

struct stdio {
	struct rig *r;
	struct fake *f;
	struct got g;
};

/* A session with a command that has been started; its windows were sent. */
static int setup(void **state)
{
	struct stdio *s = mem_new(struct stdio);
	void *rig = NULL;

	rig_setup(&rig);
	s->r = rig;
	s->f = kit_session(s->r->k, "s");
	s->g = rig_connect(s->r, ON_TCP);
	rig_ask(&s->g, "POST " S "/exec", KEY UPGRADE,
		"{\"command\":\"a\",\"command_id\":\"c\",\"max_output_bytes\":10}");
	rig_turn(s->r, &s->g);
	assert_int_equal(s->g.status, 0);
	fake_take_exec(s->f);
	fake_start(s->r->k, s->f);
	rig_turn(s->r, &s->g);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct stdio *s = *state;
	void *rig = s->r;

	got_done(&s->g);
	kit_turn(s->r->k);
	rig_teardown(&rig);
	free(s);
	return 0;
}

static void assert_window(struct stdio *s, unsigned stream, uint64_t allowed)
{
	struct warden_window w;
	struct link_msg m;

	kit_recv(&s->f->link, MSG_warden_window, &w, &m);
	assert_int_equal(w.stream, stream);
	assert_int_equal(w.allowed, allowed);
	msg_done(MSG_warden_window, &w);
	link_msg_done(&m);
}

static void skip_windows(struct stdio *s)
{
	assert_window(s, 1, 65536 + 262144);
	assert_window(s, 2, 65536 + 262144);
}

static void wrote(struct stdio *s, int stream, const char *text)
{
	struct warden_output m = {.command_id = s->f->command};

	assert_int_equal(fdio_write_all(s->f->out[stream - 1], text, strlen(text)), 0);
	fake_send(s->r->k, s->f, MSG_warden_output, &m);
}

static void finish(struct stdio *s, int code, uint64_t out, uint64_t errors)
{
	struct warden_result end = fake_result(s->f, code, "");

	end.stdout_bytes = end.stdout_kept = out;
	end.stderr_bytes = end.stderr_kept = errors;
	fake_send(s->r->k, s->f, MSG_warden_result, &end);
}

static void exe_6_output_comes_in_frames_and_the_result_last(void **state)
{
	struct stdio *s = *state;
	cleanup_frames struct frames f = {0};
	char value[256];

	assert_int_equal(s->g.status, 101);
	assert_string_equal(got_header(&s->g, "Upgrade", value), "agentsh-stdio/1");
	wrote(s, 1, "out\n");
	wrote(s, 2, "err\n");
	read_frames(s->r, &s->g, &f);
	assert_string_equal(f.out[1].data, "out\n");
	assert_string_equal(f.out[2].data, "err\n");
	assert_int_equal(f.results, 0);
	finish(s, 7, 4, 4);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.results, 1);
	assert_at(&f.result, "result.exit_code", "7");
	assert_at(&f.result, "command_id", "c");
	assert_true(s->g.closed);
	assert_int_equal(rig_metric(s->r, "agentsh_http_requests_total"), 1);
}

/* Not a byte over the credit; what is left comes with more of it, and only then the result. */
static void exe_6_output_waits_for_credit(void **state)
{
	struct stdio *s = *state;
	cleanup_free char *text = mem_alloc(70001);
	cleanup_frames struct frames f = {0};

	memset(text, 'x', 70000);
	skip_windows(s);
	wrote(s, 1, text);
	finish(s, 0, 70000, 0);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 65536);
	assert_int_equal(f.results, 0);
	control(&s->g, "{\"credit\":{\"stream\":\"stdout\",\"bytes\":1}}");
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 65537);
	control(&s->g, "{\"credit\":{\"stream\":\"stderr\",\"bytes\":10000}}");
	control(&s->g, "{\"credit\":{\"stream\":\"stdout\",\"bytes\":4462}}");
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 69999);
	assert_int_equal(f.results, 0);
	control(&s->g, "{\"credit\":{\"stream\":\"stdout\",\"bytes\":1}}");
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 70000);
	assert_int_equal(f.results, 1);
}

/* Output that the warden reports goes from the file to the client; its end, which is short, as
 * well. */
static void exe_6_reported_output_comes_whole(void **state)
{
	struct stdio *s = *state;
	struct warden_output m = {.command_id = s->f->command,
				  .stdout_bytes = 70000,
				  .stdout_kept = 70000,
				  .stdout_from = 70000};
	cleanup_frames struct frames f = {0};
	uint32_t text[17500];

	for (uint32_t i = 0; i < ARRAY_LEN(text); i++)
		text[i] = i * 2654435761U;
	skip_windows(s);
	assert_int_equal(fdio_write_all(s->f->out[0], text, sizeof(text)), 0);
	fake_send(s->r->k, s->f, MSG_warden_output, &m);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 65536);
	control(&s->g, "{\"credit\":{\"stream\":\"stdout\",\"bytes\":10000}}");
	finish(s, 0, 70000, 0);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, sizeof(text));
	assert_memory_equal(f.out[1].data, text, sizeof(text));
	assert_int_equal(f.results, 1);
	assert_at(&f.result, "result.error", "null");
}

/* A file that is shorter than what was reported is named in the result. */
static void exe_6_a_damaged_file_is_named(void **state)
{
	struct stdio *s = *state;
	struct warden_output m = {.command_id = s->f->command,
				  .stdout_bytes = 70000,
				  .stdout_kept = 70000,
				  .stdout_from = 70000};
	cleanup_frames struct frames f = {0};

	skip_windows(s);
	assert_int_equal(fdio_write_all(s->f->out[0], "short", 5), 0);
	fake_send(s->r->k, s->f, MSG_warden_output, &m);
	finish(s, 0, 70000, 0);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.out[1].len, 0);
	assert_int_equal(f.results, 1);
	cleanup_free char *message = kit_at(&f.result, "result.error.message");

	assert_non_null(strstr(message, "damaged"));
}

static void exe_6_credit_opens_the_wardens_window(void **state)
{
	struct stdio *s = *state;

	skip_windows(s);
	control(&s->g, "{\"credit\":{\"stream\":\"stderr\",\"bytes\":100}}");
	rig_turn(s->r, &s->g);
	assert_window(s, 2, 65536 + 262144 + 100);
	control(&s->g, "{\"credit\":{\"stream\":\"stdout\",\"bytes\":7}}");
	rig_turn(s->r, &s->g);
	assert_window(s, 1, 65536 + 262144 + 7);
	kit_recv_nothing(&s->f->link);
}

static void assert_stdin(struct stdio *s, const char *text, bool eof)
{
	struct warden_stdin in;
	struct link_msg m;

	rig_turn(s->r, &s->g);
	kit_recv(&s->f->link, MSG_warden_stdin, &in, &m);
	assert_int_equal(in.data.len, strlen(text));
	if (in.data.len > 0)
		assert_memory_equal(in.data.data, text, in.data.len);
	assert_int_equal(in.eof, eof);
	msg_done(MSG_warden_stdin, &in);
	link_msg_done(&m);
}

static void exe_4_stdin_and_its_end(void **state)
{
	struct stdio *s = *state;

	skip_windows(s);
	put(&s->g, STDIO_STDIN, "hello", 5);
	assert_stdin(s, "hello", false);
	control(&s->g, "{\"eof\":true}");
	assert_stdin(s, "", true);
	control(&s->g, "{\"eof\":true}"); /* once is enough */
	control(&s->g, "{\"eof\":false}");
	put(&s->g, STDIO_STDIN, "", 0);
	rig_turn(s->r, &s->g);
	kit_recv_nothing(&s->f->link);
}

static void exe_4_an_empty_frame_ends_stdin(void **state)
{
	struct stdio *s = *state;
	static const uint8_t empty[8] = {STDIO_STDIN};

	skip_windows(s);
	rig_put(&s->g, empty, sizeof(empty));
	assert_stdin(s, "", true);
}

static void exe_4_a_half_close_ends_stdin(void **state)
{
	struct stdio *s = *state;
	cleanup_frames struct frames f = {0};

	skip_windows(s);
	put(&s->g, STDIO_STDIN, "x", 1);
	shutdown(s->g.fd, SHUT_WR);
	assert_stdin(s, "x", false);
	assert_stdin(s, "", true);
	finish(s, 0, 0, 0);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.results, 1);
}

static void taken(struct stdio *s, uint64_t total)
{
	struct warden_taken m = {.command_id = s->f->command, .total = total};

	fake_send(s->r->k, s->f, MSG_warden_taken, &m);
}

/* Credit for stdin comes in steps, and whole once everything is taken. */
static void exe_6_stdin_credit(void **state)
{
	struct stdio *s = *state;
	cleanup_free char *text = mem_alloc(40000);
	cleanup_frames struct frames f = {0};

	memset(text, 'x', 40000);
	put(&s->g, STDIO_STDIN, text, 40000);
	rig_turn(s->r, &s->g);
	taken(s, 16383);
	read_frames(s->r, &s->g, &f);
	assert_string_equal(f.control.data, "");
	taken(s, 16384);
	read_frames(s->r, &s->g, &f);
	assert_string_equal(f.control.data, "{\"credit\":{\"stream\":\"stdin\",\"bytes\":16384}}");
	taken(s, 16384); /* the same again says nothing */
	taken(s, 39999);
	taken(s, 40000);
	read_frames(s->r, &s->g, &f);
	assert_string_equal(f.control.data, "{\"credit\":{\"stream\":\"stdin\",\"bytes\":16384}}"
					    "{\"credit\":{\"stream\":\"stdin\",\"bytes\":23615}}"
					    "{\"credit\":{\"stream\":\"stdin\",\"bytes\":1}}");
}

static void assert_kill(struct stdio *s, unsigned signal, bool gone)
{
	struct warden_kill kill;
	struct link_msg m;

	rig_turn(s->r, &s->g);
	kit_recv(&s->f->link, MSG_warden_kill, &kill, &m);
	assert_int_equal(kill.signal, signal);
	assert_int_equal(kill.client_gone, gone);
	msg_done(MSG_warden_kill, &kill);
	link_msg_done(&m);
}

static void exe_5_signals(void **state)
{
	struct stdio *s = *state;

	skip_windows(s);
	control(&s->g, "{\"signal\":\"INT\"}");
	assert_kill(s, SIGINT, false);
	control(&s->g, "{\"signal\":\"SIGTERM\"}");
	assert_kill(s, SIGTERM, false);
	control(&s->g, "{\"resize\":{\"cols\":80,\"rows\":24}}"); /* there is no terminal */
	rig_turn(s->r, &s->g);
	kit_recv_nothing(&s->f->link);
}

static void assert_gone(struct stdio *s)
{
	struct warden_kill kill;
	struct link_msg m;

	kit_turn(s->r->k);
	kit_recv(&s->f->link, MSG_warden_kill, &kill, &m);
	assert_int_equal(kill.signal, SIGHUP);
	assert_int_equal(kill.client_gone, 1);
	msg_done(MSG_warden_kill, &kill);
	link_msg_done(&m);
}

/* TCP does not tell a client that has gone from one that only ended its input: writing does, so
 * something is written although the command is silent. */
static void exe_6_a_tcp_client_that_leaves_is_noticed(void **state)
{
	struct stdio *s = *state;

	skip_windows(s);
	close(s->g.fd);
	s->g.fd = -1;
	kit_turn(s->r->k);
	kit_skip(&s->f->link, MSG_warden_stdin);
	assert_gone(s);
}

/* One that ends its input first, and goes later: by the next probe. */
static void exe_6_a_half_closed_tcp_client_that_leaves_is_noticed(void **state)
{
	struct stdio *s = *state;
	struct link_msg m;
	enum link_status r = LINK_AGAIN;

	skip_windows(s);
	shutdown(s->g.fd, SHUT_WR);
	assert_stdin(s, "", true);
	rig_turn(s->r, &s->g);
	assert_non_null(
		strstr(s->g.body.data + 8, "{\"credit\":{\"stream\":\"stdin\",\"bytes\":0}}"));
	kit_recv_nothing(&s->f->link);
	close(s->g.fd);
	s->g.fd = -1;
	for (int i = 0; i < 2000 && r == LINK_AGAIN; i++) {
		loop_run_ms(s->r->api.loop, 5);
		r = link_recv(&s->f->link, &m, NULL);
	}
	assert_int_equal(r, LINK_OK);
	assert_int_equal(m.type, MSG_warden_kill);
	link_msg_done(&m);
}

static void exe_6_a_unix_client_that_leaves_is_noticed_at_once(void **state)
{
	struct stdio *s = *state;
	struct got g = rig_connect(s->r, ON_UNIX);

	finish(s, 0, 0, 0);
	skip_windows(s);
	kit_skip(&s->f->link, MSG_warden_ack);
	rig_ask(&g, "POST " S "/exec", KEY UPGRADE, "{\"command\":\"a\"}");
	rig_turn(s->r, &g);
	fake_take_exec(s->f);
	fake_start(s->r->k, s->f);
	skip_windows(s);
	got_done(&g);
	assert_gone(s);
}

/* The answer is an error body; the command is ended as if the client had gone. */
static void assert_broken_off(struct stdio *s, const char *part)
{
	cleanup_frames struct frames f = {0};

	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.results, 1);
	assert_at(&f.result, "error.code", "E_BAD_REQUEST");
	cleanup_free char *message = kit_at(&f.result, "error.message");

	if (strstr(message, part) == NULL)
		fail_msg("%s not in %s", part, message);
	assert_true(s->g.closed);
	assert_kill(s, SIGHUP, true);
}

static void exe_6_bad_control_frames_end_the_stream(void **state)
{
	static const struct {
		const char *json, *message;
	} rows[] = {
		{"{", "1:"},
		{"[]", "object"},
		{"{\"nope\":1}", "nope"},
		{"{\"signal\":\"NOPE\"}", "no signal 'NOPE'"},
		{"{\"credit\":{\"stream\":\"stdin\",\"bytes\":1}}",
		 "credit is for stdout or stderr"},
		{"{\"credit\":{\"bytes\":1}}", "credit is for stdout or stderr"},
		{"{\"credit\":{\"stream\":\"stdout\",\"bytes\":0}}", "credit.bytes"},
		{"{\"credit\":{\"stream\":\"stdout\",\"bytes\":2147483648}}", "credit.bytes"},
		{"{\"resize\":{\"cols\":0,\"rows\":1}}", "resize.cols"},
		{"{\"resize\":{\"cols\":1,\"rows\":65536}}", "resize.rows"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		void *one = NULL;
		struct stdio *s;

		setup(&one);
		s = one;
		skip_windows(s);
		control(&s->g, rows[i].json);
		assert_broken_off(s, rows[i].message);
		teardown(&one);
	}
}

static void exe_6_bad_frames_end_the_stream(void **state)
{
	struct stdio *s = *state;
	static const uint8_t odd[8] = {STDIO_STDOUT, 0, 0, 0, 0, 0, 0, 0};

	skip_windows(s);
	rig_put(&s->g, odd, sizeof(odd));
	assert_broken_off(s, "");
}

static void exe_6_bytes_behind_the_end_of_stdin(void **state)
{
	struct stdio *s = *state;

	skip_windows(s);
	control(&s->g, "{\"eof\":true}");
	assert_stdin(s, "", true);
	put(&s->g, STDIO_STDIN, "x", 1);
	assert_broken_off(s, "bytes after the end of stdin");
}

/* Twice the window is the most that is taken unread. */
static void exe_6_more_stdin_than_the_credit(void **state)
{
	struct stdio *s = *state;
	cleanup_free char *text = mem_alloc(65536);
	cleanup_frames struct frames f = {0};
	struct link_msg m;
	unsigned n = 0;

	skip_windows(s);
	for (int i = 0; i < 2; i++) {
		put(&s->g, STDIO_STDIN, text, 65536);
		read_frames(s->r, &s->g, &f);
	}
	assert_int_equal(f.results, 0);
	taken(s, 1);
	put(&s->g, STDIO_STDIN, text, 1);
	read_frames(s->r, &s->g, &f);
	assert_int_equal(f.results, 0);
	while (link_recv(&s->f->link, &m, NULL) == 0) {
		n++;
		link_msg_done(&m);
	}
	assert_true(n > 4);
	put(&s->g, STDIO_STDIN, text, 1);
	assert_broken_off(s, "more bytes than the credit allows");
}

static void exe_6_what_is_refused_has_its_own_status(void **state)
{
	struct stdio *s = *state;
	static const struct {
		const char *headers, *body;
		int status;
	} rows[] = {
		{KEY UPGRADE, "{}", 400},
		{KEY UPGRADE, "{\"command\":\"a\",\"detach\":true}", 400},
		{KEY UPGRADE "Idempotency-Key: k\r\n", "{\"command\":\"a\"}", 400},
		{KEY UPGRADE, "{\"command\":\"a\",\"queue\":false}", 409},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_got struct got g = rig_connect(s->r, ON_TCP);

		rig_ask(&g, "POST " S "/exec", rows[i].headers, rows[i].body);
		rig_finish(s->r, &g);
		assert_int_equal(g.status, rows[i].status);
	}
}

/* A command that its warden refuses after the stream was asked for. */
static void exe_6_a_refusal_by_the_warden(void **state)
{
	struct stdio *s = *state;
	cleanup_got struct got g = rig_connect(s->r, ON_TCP);

	finish(s, 0, 0, 0);
	skip_windows(s);
	kit_skip(&s->f->link, MSG_warden_ack);
	rig_ask(&g, "POST " S "/exec", KEY UPGRADE, "{\"command\":\"a\"}");
	rig_turn(s->r, &g);
	fake_take_exec(s->f);
	fake_send(s->r->k, s->f, MSG_warden_refused,
		  &(struct warden_refused){.command_id = s->f->command,
					   .code = (char *)"E_POLICY_DENIED",
					   .message = (char *)"not that"});
	rig_finish(s->r, &g);
	assert_int_equal(g.status, 403);
	assert_at(&g.body, "error.message", "not that");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_6_output_comes_in_frames_and_the_result_last),
		TEST(exe_6_output_waits_for_credit),
		TEST(exe_6_reported_output_comes_whole),
		TEST(exe_6_a_damaged_file_is_named),
		TEST(exe_6_credit_opens_the_wardens_window),
		TEST(exe_4_stdin_and_its_end),
		TEST(exe_4_an_empty_frame_ends_stdin),
		TEST(exe_4_a_half_close_ends_stdin),
		TEST(exe_6_stdin_credit),
		TEST(exe_5_signals),
		TEST(exe_6_a_tcp_client_that_leaves_is_noticed),
		TEST(exe_6_a_half_closed_tcp_client_that_leaves_is_noticed),
		TEST(exe_6_a_unix_client_that_leaves_is_noticed_at_once),
		cmocka_unit_test(exe_6_bad_control_frames_end_the_stream),
		TEST(exe_6_bad_frames_end_the_stream),
		TEST(exe_6_bytes_behind_the_end_of_stdin),
		TEST(exe_6_more_stdin_than_the_credit),
		TEST(exe_6_what_is_refused_has_its_own_status),
		TEST(exe_6_a_refusal_by_the_warden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
