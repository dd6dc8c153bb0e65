// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "link/testkit/link_testkit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#define NUMBERS 80 /* over every message number */

static enum link_state first_legal(const struct msg_row *row)
{
	for (enum link_state s = LINK_NEW; s <= LINK_ENDING; s++)
		if ((row->in & 1U << s) != 0)
			return s;
	fail();
	return LINK_NEW;
}

static void each_row(void (*fn)(const struct msg_row *row))
{
	size_t seen = 0;

	for (unsigned i = 0; i < NUMBERS; i++)
		if (msg_row(i) != NULL) {
			assert_int_equal(msg_row(i)->number, i);
			fn(msg_row(i));
			seen++;
		}
#define X(...) seen--;
	MSG_TABLE(X)
#undef X
	assert_int_equal(seen, 0);
}

static void check_states(const struct msg_row *row)
{
	cleanup_free void *obj = mem_alloc(row->fields()->size);
	cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int fds[FDIO_MAX_FDS];

	for (size_t i = 0; i < FDIO_MAX_FDS; i++)
		fds[i] = fd;
	for (enum link_state s = LINK_NEW; s <= LINK_ENDING; s++) {
		const bool legal = (row->in & 1U << s) != 0;
		const struct wire_head h = good_head(row->number, 0);
		struct err err = {0};
		struct link_msg m;
		struct pair p;

		pair_open(&p, row->from, row->to, s);
		assert_int_equal(link_send(&p.a, row->number, 1, obj, fds, row->min_fds, &err),
				 legal ? LINK_OK : LINK_BROKEN);
		assert_int_equal(p.a.state, legal && row->next > s ? row->next : s);
		if (!legal)
			raw_send(p.a.fd, &h, NULL, 0, fd, row->min_fds);
		assert_int_equal(link_recv(&p.b, &m, &err), legal ? LINK_OK : LINK_BROKEN);
		assert_int_equal(p.b.state, legal && row->next > s ? row->next : s);
		if (legal) {
			assert_int_equal(m.type, row->number);
			assert_int_equal(m.req, 1);
			assert_int_equal(m.nfds, row->min_fds);
			assert_int_equal(link_unpack(&m, obj, &err), 0);
			msg_done(m.type, obj);
			link_msg_done(&m);
		}
		pair_close(&p);
	}
}

static void sbx_6_each_message_only_in_its_states(void **state)
{
	each_row(check_states);
}

static void check_sides(const struct msg_row *row)
{
	const struct wire_head h = good_head(row->number, 0);
	cleanup_free void *obj = mem_alloc(row->fields()->size);
	cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int fds[] = {fd, fd, fd, fd};

	for (enum link_side from = SIDE_API; from <= SIDE_LEADER; from++)
		for (enum link_side to = SIDE_API; to <= SIDE_LEADER; to++) {
			const bool legal = from == row->from && to == row->to;
			struct link_msg m;
			struct pair p;

			pair_open(&p, from, to, first_legal(row));
			assert_int_equal(
				link_send(&p.a, row->number, 1, obj, fds, row->min_fds, NULL),
				legal ? LINK_OK : LINK_BROKEN);
			if (!legal)
				raw_send(p.a.fd, &h, NULL, 0, fd, row->min_fds);
			assert_int_equal(link_recv(&p.b, &m, NULL), legal ? LINK_OK : LINK_BROKEN);
			if (legal)
				link_msg_done(&m);
			pair_close(&p);
		}
}

static void sbx_6_each_message_only_from_its_side(void **state)
{
	each_row(check_sides);
}

static void check_fds(const struct msg_row *row)
{
	const struct wire_head h = good_head(row->number, 0);
	cleanup_free void *obj = mem_alloc(row->fields()->size);
	cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int fds[FDIO_MAX_FDS];

	for (size_t i = 0; i < FDIO_MAX_FDS; i++)
		fds[i] = fd;
	for (size_t n = 0; n <= FDIO_MAX_FDS; n++) {
		const bool legal = n >= row->min_fds && n <= row->max_fds;
		struct link_msg m;
		struct pair p;

		pair_open(&p, row->from, row->to, first_legal(row));
		assert_int_equal(link_send(&p.a, row->number, 1, obj, fds, n, NULL),
				 legal ? LINK_OK : LINK_BROKEN);
		if (!legal)
			raw_send(p.a.fd, &h, NULL, 0, fd, n);
		assert_int_equal(link_recv(&p.b, &m, NULL), legal ? LINK_OK : LINK_BROKEN);
		if (legal) {
			assert_int_equal(m.nfds, n);
			for (size_t i = 0; i < n; i++)
				assert_true((fcntl(m.fd[i], F_GETFD) & FD_CLOEXEC) != 0);
			link_msg_done(&m);
			assert_int_equal(m.nfds, 0);
		}
		pair_close(&p);
	}
}

static void sbx_6_each_message_with_its_descriptors(void **state)
{
	each_row(check_fds);
}

/* What the peer sent before it could see our END is legal; what it sends after its own END is not.
 */
static void ses_8_messages_may_cross(void **state)
{
	struct warden_exec ask = {.command_id = (char *)(uintptr_t) "c"};
	struct warden_failed failed = {0};
	struct warden_hello hello = {0};
	struct warden_end end = {0};
	struct warden_state told = {0};
	const int fds[] = {0, 1};
	struct link_msg m;
	struct pair p;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_NEW);
	assert_int_equal(link_send(&p.a, MSG_warden_hello, 1, &hello, NULL, 0, NULL), LINK_OK);
	assert_int_equal(link_send(&p.a, MSG_warden_exec, 2, &ask, fds, 2, NULL), LINK_OK);
	assert_int_equal(link_send(&p.b, MSG_warden_failed, 0, &failed, NULL, 0, NULL), LINK_OK);
	assert_int_equal(p.b.state, LINK_ENDING);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(m.nfds, 2);
	link_msg_done(&m);
	assert_int_equal(p.b.state, LINK_ENDING);
	assert_int_equal(link_recv(&p.a, &m, NULL), LINK_OK);
	assert_int_equal(p.a.state, LINK_ENDING);
	assert_int_equal(link_send(&p.a, MSG_warden_exec, 2, &ask, fds, 2, NULL), LINK_BROKEN);
	pair_close(&p);

	/* greeting and end before the answer to the greeting */
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_NEW);
	assert_int_equal(link_send(&p.a, MSG_warden_hello, 1, &hello, NULL, 0, NULL), LINK_OK);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 2, &end, NULL, 0, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(link_send(&p.b, MSG_warden_state, 1, &told, NULL, 0, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.a, &m, NULL), LINK_OK);
	assert_int_equal(p.a.state, LINK_ENDING);
	assert_int_equal(p.a.seen, LINK_OPEN);
	pair_close(&p);
}

static void ses_8_a_message_arrives_whole(void **state)
{
	struct warden_exec ask = {.command_id = mem_strdup("cmd-1"),
				  .argv0 = mem_strdup(""),
				  .timeout_ms = UINT64_MAX,
				  .cols = UINT32_MAX};
	struct warden_exec got;
	const int fds[] = {0, 1};
	struct link_msg m;
	struct pair p;

	strv_add(&ask.argv, "true");
	strv_add(&ask.argv, "");
	bytes_set(&ask.stdin_data, "a\0b", 3);
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(link_send(&p.a, MSG_warden_exec, UINT32_MAX, &ask, fds, 2, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(m.req, UINT32_MAX);
	assert_int_equal(m.cred.pid, 0);
	assert_int_equal(link_unpack(&m, &got, NULL), 0);
	link_msg_done(&m);
	assert_string_equal(got.command_id, "cmd-1");
	assert_string_equal(got.argv0, "");
	assert_null(got.script);
	assert_int_equal(got.argv.n, 2);
	assert_string_equal(got.argv.v[0], "true");
	assert_int_equal(got.stdin_data.len, 3);
	assert_memory_equal(got.stdin_data.data, "a\0b", 3);
	assert_true(got.timeout_ms == UINT64_MAX && got.cols == UINT32_MAX && got.rows == 0);
	msg_done(MSG_warden_exec, &got);
	msg_done(MSG_warden_exec, &ask);
	pair_close(&p);
}

/* Sends stdin so that the payload has exactly len bytes; returns the datagram's bytes and
 * descriptors. */
static void send_stdin(struct pair *p, size_t len)
{
	const size_t n = len - 12;
	struct warden_stdin in = {.data = {mem_alloc(n), n}};

	memset(in.data.data, 'x', n);
	assert_int_equal(link_send(&p->a, MSG_warden_stdin, 3, &in, NULL, 0, NULL), LINK_OK);
	msg_done(MSG_warden_stdin, &in);
}

static void ses_8_a_large_payload_travels_in_a_memfd(void **state)
{
	static const size_t sizes[] = {LINK_INLINE - 1, LINK_INLINE, LINK_INLINE + 1, 1024 * 1024};
	static char room[sizeof(struct wire_head) + LINK_INLINE];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const bool outside = sizes[i] > LINK_INLINE;
		int fds[2] = {-1, -1};
		struct warden_stdin got;
		size_t nfds = 2;
		struct link_msg m;
		struct pair p;

		pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
		send_stdin(&p, sizes[i]);
		assert_int_equal(fdio_recv(p.b.fd, room, sizeof(room), fds, &nfds, NULL),
				 sizeof(struct wire_head) + (outside ? 0 : sizes[i]));
		assert_int_equal(nfds, outside);
		if (outside)
			close(fds[0]);

		send_stdin(&p, sizes[i]);
		assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
		assert_int_equal(m.len, sizes[i]);
		assert_int_equal(m.nfds, 0);
		assert_int_equal(link_unpack(&m, &got, NULL), 0);
		assert_int_equal(got.data.len, sizes[i] - 12);
		assert_int_equal(got.data.data[sizes[i] - 13], 'x');
		msg_done(MSG_warden_stdin, &got);

		/* a buffer that a large frame needed is not kept */
		send_stdin(&p, 100);
		assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
		assert_true(p.b.in.cap < 1024 * 1024);
		pair_close(&p);
	}
}

static void ses_8_a_large_payload_comes_with_its_descriptors(void **state)
{
	struct warden_exec ask = {0};
	const int fds[] = {0, 1};
	struct stat want, have;
	struct link_msg m;
	struct pair p;

	ask.stdin_data = (struct bytes){mem_alloc(2 * LINK_INLINE), 2 * LINK_INLINE};
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(link_send(&p.a, MSG_warden_exec, 1, &ask, fds, 2, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(m.nfds, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fstat(fds[i], &want), 0);
		assert_int_equal(fstat(m.fd[i], &have), 0);
		assert_true(want.st_ino == have.st_ino && want.st_dev == have.st_dev);
	}
	link_msg_done(&m);
	msg_done(MSG_warden_exec, &ask);
	pair_close(&p);
}

static void ses_8_the_end_of_a_link_is_told(void **state)
{
	struct warden_end end = {0};
	struct err err = {0};
	struct link_msg m;
	struct pair p;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(fdio_nonblock(p.b.fd), 0);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_AGAIN);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, NULL), LINK_OK);
	link_done(&p.a);
	assert_int_equal(p.a.fd, -1);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_EOF);
	pair_close(&p);

	/* What a peer has sent before it closes comes first, though it has not read all. */
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, NULL), LINK_OK);
	assert_int_equal(link_send(&p.b, MSG_warden_bell, 1, &(struct msg_empty){0}, NULL, 0, NULL),
			 LINK_OK);
	link_done(&p.b);
	assert_int_equal(link_recv(&p.a, &m, &err), LINK_OK);
	assert_int_equal(m.type, MSG_warden_bell);
	assert_int_equal(link_recv(&p.a, &m, &err), LINK_EOF);
	pair_close(&p);

	/* a peer that closes without reading is an end as well */
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, NULL), LINK_OK);
	link_done(&p.b);
	assert_int_equal(link_recv(&p.a, &m, &err), LINK_EOF);
	p.a.state = LINK_OPEN;
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, &err), LINK_EOF);
	assert_int_equal(p.a.state, LINK_OPEN);
	pair_close(&p);
}

static void ses_8_a_full_socket_is_told(void **state)
{
	struct warden_acks ack = {0};
	struct warden_end end = {0};
	struct err err = {0};
	struct link_msg m;
	struct pair p;
	enum link_status r;
	int sent = 0;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(fdio_nonblock(p.a.fd), 0);
	while ((r = link_send(&p.a, MSG_warden_ack, 1, &ack, NULL, 0, &err)) == LINK_OK)
		sent++;
	assert_int_equal(r, LINK_FULL);
	assert_int_equal(err.code, E_UNAVAILABLE);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, &err), LINK_FULL);
	assert_int_equal(p.a.state, LINK_OPEN);
	for (int i = 0; i < sent; i++)
		assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, &err), LINK_OK);
	pair_close(&p);

	link_init(&p.a, -1, SIDE_API, SIDE_WARDEN);
	p.a.state = LINK_OPEN;
	assert_int_equal(link_send(&p.a, MSG_warden_end, 1, &end, NULL, 0, &err), LINK_BROKEN);
	assert_int_equal(link_recv(&p.a, &m, &err), LINK_BROKEN);
	link_done(&p.a);
}

/* Our own oversized field is refused before it is sent. */
static void ses_8_an_oversized_field_is_not_sent(void **state)
{
	char id[66] = {0};
	struct warden_stdin in = {.command_id = id};
	struct warden_patch patch = {0};
	struct err err = {0};
	struct pair p;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	memset(id, 'a', 64);
	assert_int_equal(link_send(&p.a, MSG_warden_stdin, 1, &in, NULL, 0, &err), LINK_OK);
	id[64] = 'a';
	assert_int_equal(link_send(&p.a, MSG_warden_stdin, 1, &in, NULL, 0, &err), LINK_BROKEN);
	assert_string_equal(err.message, "warden_stdin.command_id is too long");
	in.command_id = NULL;
	in.data = (struct bytes){mem_alloc(1024 * 1024 + 1), 1024 * 1024};
	assert_int_equal(link_send(&p.a, MSG_warden_stdin, 1, &in, NULL, 0, &err), LINK_OK);
	in.data.len++;
	assert_int_equal(link_send(&p.a, MSG_warden_stdin, 1, &in, NULL, 0, &err), LINK_BROKEN);
	bytes_done(&in.data);

	patch.set.v = mem_alloc(3 * sizeof(char *));
	patch.set.n = 2;
	patch.set.v[0] = mem_alloc(256 * 1024);
	patch.set.v[1] = mem_strdup("b");
	memset(patch.set.v[0], 'a', 256 * 1024 - 1);
	assert_int_equal(link_send(&p.a, MSG_warden_patch, 1, &patch, NULL, 0, &err), LINK_OK);
	free(patch.set.v[1]);
	patch.set.v[1] = mem_strdup("bc");
	assert_int_equal(link_send(&p.a, MSG_warden_patch, 1, &patch, NULL, 0, &err), LINK_BROKEN);
	assert_string_equal(err.message, "warden_patch.set is too long");
	msg_done(MSG_warden_patch, &patch);
	pair_close(&p);
}

static void exe_5_a_leader_is_known_by_its_credentials(void **state)
{
	struct leader_started started = {0};
	const int on = 1, fd = 0;
	struct link_msg m;
	struct pair p;

	pair_open(&p, SIDE_LEADER, SIDE_WARDEN, LINK_NEW);
	assert_int_equal(setsockopt(p.b.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_int_equal(link_send(&p.a, MSG_leader_started, 1, &started, &fd, 1, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(m.cred.pid, getpid());
	assert_int_equal(m.cred.uid, getuid());
	assert_int_equal(m.nfds, 1);
	link_msg_done(&m);
	pair_close(&p);
}

static void ses_8_a_pair_is_wide_and_close_on_exec(void **state)
{
	static const int option[] = {SO_SNDBUF, SO_RCVBUF};
	int fd[2], n;
	socklen_t len = sizeof(n);

	assert_int_equal(link_pair(fd, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(getsockopt(fd[i / 2], SOL_SOCKET, option[i % 2], &n, &len), 0);
		assert_true(n >= 256 * 1024);
	}
	assert_true((fcntl(fd[0], F_GETFD) & fcntl(fd[1], F_GETFD) & FD_CLOEXEC) != 0);
	close(fd[0]);
	close(fd[1]);
}

static void ses_8_taken_descriptors_stay_open(void **state)
{
	struct leader_started started = {0};
	const int zero = 0;
	struct link_msg m;
	struct pair p;
	int fd;

	pair_open(&p, SIDE_LEADER, SIDE_WARDEN, LINK_NEW);
	assert_int_equal(link_send(&p.a, MSG_leader_started, 1, &started, &zero, 1, NULL), LINK_OK);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	fd = take_fd(m.fd[0]);
	link_msg_done(&m);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	pair_close(&p);
}

/* Descriptor 0 is one like the others. */
static void ses_8_descriptor_zero_is_closed_too(void **state)
{
	const int saved = fcntl(0, F_DUPFD_CLOEXEC, 3);
	struct link_msg m = {.nfds = 1};
	struct link l;

	assert_true(saved >= 3);
	link_init(&l, 0, SIDE_API, SIDE_WARDEN);
	link_done(&l);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(dup2(saved, 0), 0);
	link_msg_done(&m);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(dup2(saved, 0), 0);
	close(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sbx_6_each_message_only_in_its_states),
		TEST(sbx_6_each_message_only_from_its_side),
		TEST(sbx_6_each_message_with_its_descriptors),
		TEST(ses_8_messages_may_cross),
		TEST(ses_8_a_message_arrives_whole),
		TEST(ses_8_a_large_payload_travels_in_a_memfd),
		TEST(ses_8_a_large_payload_comes_with_its_descriptors),
		TEST(ses_8_the_end_of_a_link_is_told),
		TEST(ses_8_a_full_socket_is_told),
		TEST(ses_8_an_oversized_field_is_not_sent),
		TEST(exe_5_a_leader_is_known_by_its_credentials),
		TEST(ses_8_a_pair_is_wide_and_close_on_exec),
		TEST(ses_8_taken_descriptors_stay_open),
		TEST(ses_8_descriptor_zero_is_closed_too),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
