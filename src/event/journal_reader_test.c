// SPDX-License-Identifier: Apache-2.0
/* Rings with wrong bytes. */
#include "event/testkit/journal_testkit.h"
#include <fcntl.h>

static void evt_2_every_flipped_byte_of_a_record_is_noticed(void **state)
{
	struct pair *p = *state;
	const size_t record = pair_record_size(24);
	uint8_t byte;

	pair_append(p, 0, 0);
	pair_append(p, 1, 24);
	assert_int_equal(pair_drain(p, 1), 1);
	for (size_t i = 0; i < record; i++) {
		const off_t at = (off_t)(JOURNAL_PAGE + pair_record_size(0) + i);

		assert_int_equal(pread(p->ring_fd, &byte, 1, at), 1);
		byte ^= 0x80;
		assert_int_equal(pwrite(p->ring_fd, &byte, 1, at), 1);
		/* Padding is not covered; pair_record_size(24) is chosen so that there is little of
		 * it. */
		if (pair_drain(p, 10) != -E_BAD_REQUEST) {
			assert_true(i >= record - 7);
			journal_reader_close(p->r);
			pair_reader_open(p);
			p->next = 0;
			assert_int_equal(pair_drain(p, 1), 1);
		}
		byte ^= 0x80;
		assert_int_equal(pwrite(p->ring_fd, &byte, 1, at), 1);
	}
	assert_int_equal(pair_drain(p, 10), 1);
}

static void evt_2_events_before_a_broken_record_are_delivered(void **state)
{
	struct pair *p = *state;

	for (uint64_t i = 0; i < 5; i++)
		pair_append(p, i, 0);
	pair_set_u64(p->ring_fd, (off_t)(JOURNAL_PAGE + 3 * pair_record_size(0)), 77);
	assert_int_equal(pair_drain(p, 100), 3);
	assert_int_equal(pair_drain(p, 100), -E_BAD_REQUEST);
	assert_int_equal(pair_drain(p, 100), -E_BAD_REQUEST);
	assert_int_equal(journal_reader_pos(p->r), 3 * pair_record_size(0));
}

static void evt_2_a_head_that_cannot_be_is_an_error(void **state)
{
	struct pair *p = *state;
	const off_t at = offsetof(struct ring_page, head);
	const size_t record = pair_record_size(0);
	struct err err = {0};
	struct journal *j = NULL;

	pair_append(p, 0, 0);
	pair_drain(p, 1);
	pair_set_u64(p->ring_fd, at, record - 8);
	assert_int_equal(pair_drain(p, 1), -E_BAD_REQUEST);
	pair_set_u64(p->ring_fd, at, record + 4);
	assert_int_equal(pair_drain(p, 1), -E_BAD_REQUEST);
	assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &j, &err), -E_BAD_REQUEST);
	pair_set_u64(p->ring_fd, at, record + PAIR_SIZE + 8);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "head"));
	/* The farthest possible head gets as far as the records that are not there. */
	pair_set_u64(p->ring_fd, at, record + PAIR_SIZE);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_null(strstr(err.message, "head"));
	pair_set_u64(p->ring_fd, at, record);
	assert_int_equal(pair_drain(p, 1), 0);
}

static void evt_2_a_told_head_is_read_to_and_then_looked_for(void **state)
{
	struct pair *p = *state;
	const off_t at = offsetof(struct ring_page, head);
	const size_t record = pair_record_size(0);

	for (uint64_t i = 0; i < 3; i++)
		pair_append(p, i, 0);
	/* Up to there the file is not asked. */
	pair_set_u64(p->ring_fd, at, 4);
	journal_tell_head(p->r, 2 * record);
	assert_int_equal(pair_drain(p, 1), 1);
	assert_int_equal(pair_drain(p, 100), 1);
	assert_int_equal(pair_drain(p, 100), -E_BAD_REQUEST);
	pair_set_u64(p->ring_fd, at, 3 * record);
	assert_int_equal(pair_drain(p, 100), 1);
	/* An old word changes nothing. */
	journal_tell_head(p->r, record);
	assert_int_equal(pair_drain(p, 100), 0);
	pair_append(p, 3, 0);
	assert_int_equal(pair_drain(p, 100), 1);
}

static void evt_2_a_told_head_that_cannot_be_is_an_error(void **state)
{
	struct pair *p = *state;
	const size_t record = pair_record_size(0);
	const uint64_t heads[] = {record + 4, record + PAIR_SIZE + 8, UINT64_MAX};
	struct err err = {0};

	pair_append(p, 0, 0);
	pair_drain(p, 1);
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		journal_tell_head(p->r, heads[i]);
		assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
		assert_non_null(strstr(err.message, "head"));
	}
	/* The farthest possible one gets as far as the records that are not there. */
	journal_tell_head(p->r, record + PAIR_SIZE);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_null(strstr(err.message, "head"));
}

static void evt_2_a_head_inside_a_record_is_an_error(void **state)
{
	struct pair *p = *state;

	pair_append(p, 0, 0);
	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), 8);
	assert_int_equal(pair_drain(p, 1), -E_BAD_REQUEST);
	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), pair_record_size(0) - 8);
	assert_int_equal(pair_drain(p, 1), -E_BAD_REQUEST);
	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), pair_record_size(0));
	assert_int_equal(pair_drain(p, 1), 1);
}

static void evt_2_a_record_of_an_earlier_lap_does_not_pass(void **state)
{
	struct pair *p = *state;
	const uint64_t n = pair_fill_to(p, 0, 0);
	struct err err = {0};

	while (pair_drain(p, 1000) > 0)
		;
	assert_int_equal(p->seen, n);
	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), PAIR_SIZE + 2000);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "another place"));
}

static void write_record(struct pair *p, uint64_t pos, uint32_t len, const void *body, size_t n)
{
	struct ring_record r = {len, 0, pos};

	r.crc = record_crc(&r, body, n);
	assert_int_equal(pwrite(p->ring_fd, &r, sizeof(r), (off_t)(JOURNAL_PAGE + pos % PAIR_SIZE)),
			 sizeof(r));
	assert_int_equal(
		pwrite(p->ring_fd, body, n, (off_t)(JOURNAL_PAGE + pos % PAIR_SIZE + sizeof(r))),
		n);
}

static void evt_2_fillers_are_checked(void **state)
{
	struct pair *p = *state;
	const off_t head = offsetof(struct ring_page, head);
	struct err err = {0};
	uint64_t n;

	write_record(p, 0, RECORD_FILLER | (PAIR_SIZE - 8), "", 0);
	pair_set_u64(p->ring_fd, head, PAIR_SIZE);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "reach the end"));
	write_record(p, 0, RECORD_FILLER | PAIR_SIZE, "", 0);
	pair_set_u64(p->ring_fd, head, PAIR_SIZE - 8);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "behind the head"));
	pair_set_u64(p->ring_fd, head, PAIR_SIZE);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), 0);
	assert_int_equal(journal_reader_pos(p->r), PAIR_SIZE);

	/* A filler is not an event. */
	pair_again(state);
	p = *state;
	n = pair_fill_to(p, 0, 16);
	assert_int_equal(pair_drain(p, 1000), n);
	journal_ack_to(p->r, journal_reader_pos(p->r));
	pair_append(p, n, 0);
	assert_int_equal(pair_drain(p, 1000), 1);
}

static void evt_2_records_with_good_frames_and_bad_events_are_refused(void **state)
{
	struct pair *p = *state;
	static uint8_t big[EVENT_MAX + 8];
	struct err err = {0};

	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), 65536);
	write_record(p, 0, 3, "abc", 3);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "broken at 0: event.schema"));
	write_record(p, 0, EVENT_MAX + 1, big, EVENT_MAX + 1);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "over the limit"));
	write_record(p, 0, EVENT_MAX, big, EVENT_MAX);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), -E_BAD_REQUEST);
	assert_null(strstr(err.message, "over the limit"));
}

static void evt_2_an_event_of_the_longest_form_passes(void **state)
{
	struct pair *p = *state;
	struct event e = {.type = EVENT_file_read};
	struct buf out = {0};
	struct err err = {0};

	event_pack(&e, &out);
	while (out.len < EVENT_MAX)
		buf_addc(&out, 'n');
	write_record(p, 0, EVENT_MAX, out.data, out.len);
	write_record(p, RECORD_MAX, EVENT_MAX, out.data, out.len);
	((struct pair *)*state)->next = 0;
	pair_set_u64(p->ring_fd, offsetof(struct ring_page, head), RECORD_MAX);
	assert_int_equal(journal_drain(p->r, 1, pair_on_event, p, &err), 1);
	buf_done(&out);
}

static void evt_2_a_shrunk_ring_is_an_error_and_no_signal(void **state)
{
	struct pair *p = *state;
	const uint64_t n = pair_fill_to(p, 0, 0);
	struct err err = {0};
	struct journal *j = NULL;

	assert_true(n > 40);
	journal_close(p->j);
	p->j = NULL;
	assert_int_equal(ftruncate(p->ring_fd, JOURNAL_PAGE + PAIR_SIZE - 1), 0);
	assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &j, &err), -E_BAD_REQUEST);
	assert_int_equal(ftruncate(p->ring_fd, JOURNAL_PAGE + PAIR_SIZE / 2), 0);
	while (pair_drain(p, 10) > 0)
		;
	assert_int_equal(pair_drain(p, 10), -E_BAD_REQUEST);
	assert_int_equal(ftruncate(p->ring_fd, 20), 0);
	assert_int_equal(pair_drain(p, 10), -E_BAD_REQUEST);
	assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &j, &err), -E_BAD_REQUEST);
	assert_null(j);
}

static void evt_2_foreign_files_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint64_t v;
		bool ack;
	} bad[] = {
		{offsetof(struct ring_page, magic), 1, false},
		{offsetof(struct ring_page, version), (uint64_t)PAIR_SIZE << 32 | 2, false},
		{offsetof(struct ring_page, version), (uint64_t)(PAIR_SIZE - 8) << 32 | 1, false},
		{offsetof(struct ring_page, version), (uint64_t)(PAIR_SIZE + 4) << 32 | 1, false},
		{offsetof(struct ring_page, version), (uint64_t)(JOURNAL_RING_MAX + 8) << 32 | 1,
		 false},
		{offsetof(struct ack_page, magic), 1, true},
	};
	struct pair *p = *state;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct journal *j = NULL;
		struct journal_reader *r = NULL;
		const int fd = bad[i].ack ? p->ack_fd : p->ring_fd;
		uint64_t good;

		assert_int_equal(pread(fd, &good, 8, (off_t)bad[i].at), 8);
		pair_set_u64(fd, (off_t)bad[i].at, bad[i].v);
		assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &j, &err), -E_BAD_REQUEST);
		assert_int_equal(
			journal_reader_open(dup(p->ring_fd), dup(p->ack_fd), "x", &r, &err),
			-E_BAD_REQUEST);
		assert_null(j);
		assert_null(r);
		pair_set_u64(fd, (off_t)bad[i].at, good);
	}
	assert_int_equal(ftruncate(p->ack_fd, JOURNAL_PAGE - 1), 0);
	{
		struct journal *j = NULL;

		assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &j, &err), -E_BAD_REQUEST);
	}
}

static bool take_two(const struct event *e, uint64_t pos, void *arg)
{
	return e->op_offset < 2 && pair_on_event(e, pos, arg);
}

static void evt_2_an_event_that_is_not_taken_comes_again(void **state)
{
	struct pair *p = *state;

	for (uint64_t n = 0; n < 4; n++)
		assert_int_equal(pair_append(p, n, 10), 0);
	assert_int_equal(journal_drain(p->r, 4, take_two, p, NULL), 2);
	assert_int_equal(journal_reader_pos(p->r), 2 * pair_record_size(10));
	assert_int_equal(journal_drain(p->r, 4, take_two, p, NULL), 0);
	assert_int_equal(pair_drain(p, 4), 2);
	assert_int_equal(p->seen, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(evt_2_every_flipped_byte_of_a_record_is_noticed,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_events_before_a_broken_record_are_delivered,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_an_event_that_is_not_taken_comes_again,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_head_that_cannot_be_is_an_error, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_told_head_is_read_to_and_then_looked_for,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_told_head_that_cannot_be_is_an_error,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_head_inside_a_record_is_an_error,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_record_of_an_earlier_lap_does_not_pass,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_fillers_are_checked, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_records_with_good_frames_and_bad_events_are_refused, pair_setup,
			pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_an_event_of_the_longest_form_passes,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_shrunk_ring_is_an_error_and_no_signal,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_foreign_files_are_refused, pair_setup,
						pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
