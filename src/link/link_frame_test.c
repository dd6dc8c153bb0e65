// SPDX-License-Identifier: Apache-2.0
/* Frames as a hostile peer sends them. */
#include "base/mem.h"
#include "link/testkit/link_testkit.h"
#include <fcntl.h>
#include <sys/mman.h>

static void refuse_raw(const struct wire_head *h, const void *payload, size_t len, int fd,
		       size_t nfds, const char *why)
{
	struct err err = {0};
	struct link_msg m;
	struct pair p;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	raw_send(p.a.fd, h, payload, len, fd, nfds);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_BROKEN);
	if (strstr(err.message, why) == NULL)
		fail_msg("'%s' does not say '%s'", err.message, why);
	assert_int_equal(p.b.state, LINK_OPEN);
	pair_close(&p);
}

static void sbx_6_a_broken_frame_is_refused(void **state)
{
	static const char payload[16];
	const struct {
		struct wire_head h;
		size_t len;
		const char *why;
	} row[] = {
		{{0x4b4c4842, 1, MSG_warden_end, 0, 0, 0, 0}, 0, "not a frame"},
		{{0x4b4c4841, 0, MSG_warden_end, 0, 0, 0, 0}, 0, "version 0"},
		{{0x4b4c4841, 2, MSG_warden_end, 0, 0, 0, 0}, 0, "version 2"},
		{{0x4b4c4841, 1, 0, 0, 0, 0, 0}, 0, "unknown message 0"},
		{{0x4b4c4841, 1, 79, 0, 0, 0, 0}, 0, "unknown message 79"},
		{{0x4b4c4841, 1, UINT16_MAX, 0, 0, 0, 0}, 0, "unknown message 65535"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 0, 2, 0}, 0, "unknown flags"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 0, 0, 1}, 0, "unknown flags"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 5, 0, 0}, 4, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 3, 0, 0}, 4, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 4, 1, 0}, 4, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, 4, 1, 0}, 0, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, LINK_INLINE + 1, 0, 0}, 4, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, LINK_INLINE + 1, 1, 0}, 4, "another length"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, LINK_INLINE + 1, 1, 0}, 0, "without its"},
		{{0x4b4c4841, 1, MSG_warden_end, 0, UINT32_MAX, 1, 0}, 0, "too long"},
		{{0x4b4c4841, 1, MSG_warden_exec, 0, LINK_PAYLOAD_MAX + 1, 1, 0}, 0, "too long"},
		{{0x4b4c4841, 1, MSG_warden_exec, 0, LINK_PAYLOAD_MAX, 1, 0}, 0, "too long"},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		refuse_raw(&row[i].h, payload, row[i].len, -1, 0, row[i].why);
}

static void sbx_6_a_truncated_datagram_is_refused(void **state)
{
	cleanup_free char *payload = mem_alloc(LINK_INLINE + 1);
	const struct wire_head h = good_head(MSG_warden_end, LINK_INLINE + 1);
	struct link_msg m;
	struct pair p;

	refuse_raw(&h, payload, LINK_INLINE + 1, 0, 1, "frame too long");
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	assert_int_equal(fdio_send(p.a.fd, &h, sizeof(h) - 1, NULL, 0), 0);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_BROKEN);
	pair_close(&p);
}

static int memfd(size_t len, int seals)
{
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* A row's own longest payload, and the room for fields that a newer peer adds, is the bound. */
static void sbx_6_a_payload_is_bounded_by_its_row(void **state)
{
	const size_t max = msg_max(msg_row(MSG_warden_end)) + 64 * 1024;
	cleanup_fd int fd = memfd(max, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
	struct wire_head h = good_head(MSG_warden_end, max);
	struct link_msg m;
	struct pair p;

	h.flags = 1;
	refuse_raw(&h, NULL, 0, fd, 2, "descriptors");
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	raw_send(p.a.fd, &h, NULL, 0, fd, 1);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	assert_int_equal(m.len, max);
	pair_close(&p);
	h.len++;
	refuse_raw(&h, NULL, 0, fd, 1, "too long");
}

static void sbx_6_a_payload_must_be_sealed_and_of_its_size(void **state)
{
	enum { LEN = LINK_INLINE + 4, ALL = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };
	static const struct {
		size_t len;
		int seals;
		const char *why;
	} row[] = {
		{LEN, 0, "not sealed"},
		{LEN, F_SEAL_GROW | F_SEAL_SHRINK, "not sealed"},
		{LEN, F_SEAL_WRITE | F_SEAL_SHRINK, "not sealed"},
		{LEN, F_SEAL_WRITE | F_SEAL_GROW, "not sealed"},
		{LEN, F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK, "not sealed"},
		{LEN - 1, ALL, "another size"},
		{LEN + 1, ALL, "another size"},
	};
	struct wire_head h = good_head(MSG_warden_end, LEN);
	struct link_msg m;
	struct pair p;
	int pipes[2];

	h.flags = 1;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_fd int fd = memfd(row[i].len, row[i].seals);

		refuse_raw(&h, NULL, 0, fd, 1, row[i].why);
	}
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	refuse_raw(&h, NULL, 0, pipes[0], 1, "not sealed");
	close(pipes[0]);
	close(pipes[1]);

	/* the control: with all seals and its size it is accepted */
	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	pipes[0] = memfd(LEN, ALL);
	raw_send(p.a.fd, &h, NULL, 0, pipes[0], 1);
	assert_int_equal(link_recv(&p.b, &m, NULL), LINK_OK);
	close(pipes[0]);
	assert_int_equal(m.nfds, 0);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sbx_6_a_broken_frame_is_refused),
		TEST(sbx_6_a_truncated_datagram_is_refused),
		TEST(sbx_6_a_payload_is_bounded_by_its_row),
		TEST(sbx_6_a_payload_must_be_sealed_and_of_its_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
