// SPDX-License-Identifier: Apache-2.0
#include "event/testkit/journal_testkit.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static void evt_2_what_is_appended_comes_out_in_order(void **state)
{
	struct pair *p = *state;

	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(pair_append(p, i, i % 50), 0);
	assert_int_equal(pair_drain(p, 30), 30);
	assert_int_equal(p->seen, 30);
	assert_int_equal(pair_drain(p, 0), 0);
	assert_int_equal(pair_drain(p, 1000), 70);
	assert_int_equal(pair_drain(p, 1000), 0);
	assert_int_equal(journal_reader_pos(p->r), journal_head(p->j));
	assert_int_equal(journal_acked(p->j), 0);
	journal_ack_to(p->r, 2 * pair_record_size(0));
	assert_int_equal(journal_acked(p->j), 2 * pair_record_size(0));
	journal_ack_to(p->r, journal_reader_pos(p->r));
	assert_int_equal(journal_acked(p->j), journal_head(p->j));
}

static void evt_2_files_are_private_and_preallocated(void **state)
{
	struct pair *p = *state;
	struct stat st;

	assert_int_equal(fstat(p->ring_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 4096 + PAIR_SIZE);
	assert_true(st.st_blocks * 512 >= 4096 + PAIR_SIZE);
	assert_int_equal(fstat(p->ack_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 4096);
	assert_int_equal(fcntl(p->ring_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(p->ack_fd, F_GETFD), FD_CLOEXEC);
}

static void evt_2_creation_refuses_bad_sizes_and_leaves_nothing(void **state)
{
	struct pair *p = *state;
	static const uint32_t bad[] = {0, JOURNAL_RING_MIN - 8, JOURNAL_RING_MIN + 4,
				       JOURNAL_RING_MAX + 8};
	char other[96];
	struct err err = {0};
	int a = -7, b = -7;

	snprintf(other, sizeof(other), "%s/other", p->dir);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(
			journal_create(AT_FDCWD, other, "/nowhere/x", bad[i], &a, &b, &err),
			-E_BAD_REQUEST);
	assert_int_equal(journal_create(AT_FDCWD, p->ring, other, PAIR_SIZE, &a, &b, &err),
			 -E_UNAVAILABLE);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(journal_create(AT_FDCWD, other, p->ack, PAIR_SIZE, &a, &b, &err),
			 -E_UNAVAILABLE);
	assert_string_equal(err.subject, p->ack);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(a, -7);
	assert_int_equal(b, -7);
}

static void evt_2_a_ring_of_the_largest_size_can_be_made(void **state)
{
	struct pair *p = *state;
	char ring[96], ack[96];
	struct err err = {0};
	struct journal *j = NULL;
	struct journal_reader *r = NULL;
	int a, b;

	snprintf(ring, sizeof(ring), "%s/big", p->dir);
	snprintf(ack, sizeof(ack), "%s/bigack", p->dir);
	assert_int_equal(journal_create(AT_FDCWD, ring, ack, JOURNAL_RING_MAX, &a, &b, &err), 0);
	assert_int_equal(journal_open(a, b, &j, &err), 0);
	journal_close(j);
	assert_int_equal(journal_reader_open(a, b, "big", &r, &err), 0);
	journal_reader_close(r);
	unlink(ring);
	unlink(ack);
}

static void evt_2_the_end_of_the_ring_at_every_alignment(void **state)
{
	const size_t record = pair_record_size(16);

	for (uint64_t left = 0; left <= record + 16; left += 8) {
		struct pair *p = *state;
		uint64_t n = pair_fill_to(p, 0, left);
		const uint64_t before = journal_head(p->j);

		assert_true(pair_drain(p, 100000) > 0);
		journal_ack_to(p->r, journal_reader_pos(p->r));
		assert_int_equal(pair_append(p, n++, 16), 0);
		/* It fits exactly, or goes behind the end. */
		assert_int_equal(journal_head(p->j),
				 left >= record ? before + record : PAIR_SIZE + record);
		assert_int_equal(pair_append(p, n++, 16), 0);
		assert_int_equal(pair_drain(p, 100), 2);
		assert_int_equal(p->last_path, 16);
		assert_int_equal(p->seen, n);
		assert_int_equal(journal_reader_pos(p->r), journal_head(p->j));
		pair_again(state);
	}
}

static void evt_2_many_laps_with_every_length(void **state)
{
	struct pair *p = *state;
	uint64_t n = 0;

	while (journal_head(p->j) < 6 * (uint64_t)PAIR_SIZE) {
		for (int i = 0; i < 40; i++, n++)
			assert_int_equal(pair_append(p, n, (size_t)(n * 7 % 4200)), 0);
		while (pair_drain(p, 7) == 7)
			;
		journal_ack_to(p->r, journal_reader_pos(p->r));
	}
	assert_int_equal(p->seen, n);
}

static void evt_2_full_is_full_to_the_byte(void **state)
{
	struct pair *p = *state;
	const size_t record = pair_record_size(16);
	uint64_t n = pair_fill_to(p, 0, record), head;

	assert_int_equal(pair_append(p, n, 17 + 8), -E_RATE_LIMITED);
	assert_int_equal(pair_append(p, n, 16), 0);
	assert_int_equal(journal_head(p->j), PAIR_SIZE);
	assert_int_equal(pair_append(p, n + 1, 0), -E_RATE_LIMITED);
	assert_int_equal(journal_head(p->j), PAIR_SIZE);

	/* Room comes with the acknowledgement, and only as much as it gives. */
	assert_int_equal(pair_drain(p, 1), 1);
	assert_int_equal(pair_append(p, n + 1, 0), -E_RATE_LIMITED);
	journal_ack_to(p->r, journal_reader_pos(p->r));
	head = PAIR_SIZE + journal_reader_pos(p->r);
	for (n = n + 1; pair_append(p, n, 0) == 0; n++)
		;
	assert_in_range(journal_head(p->j), head - pair_record_size(0) + 8, head);
	while (pair_drain(p, 100) > 0)
		;
	assert_int_equal(p->seen, n);
}

static void evt_2_a_filler_counts_as_used_room(void **state)
{
	struct pair *p = *state;
	const size_t record = pair_record_size(16);
	uint64_t n = pair_fill_to(p, 0, record - 8), tail;

	/* Free are the rest and the first record; a record behind the rest needs the first one's
	 * place. */
	assert_int_equal(pair_drain(p, 1), 1);
	tail = journal_reader_pos(p->r);
	assert_int_equal(pair_append(p, n, 16), -E_RATE_LIMITED);
	journal_ack_to(p->r, journal_reader_pos(p->r));
	assert_true(tail >= record);
	assert_int_equal(pair_append(p, n, 16), 0);
	assert_int_equal(journal_head(p->j), PAIR_SIZE + record);
	while (pair_drain(p, 100) > 0)
		;
	assert_int_equal(p->seen, n + 1);
}

static void ses_8_a_reader_starts_again_at_what_was_acknowledged(void **state)
{
	struct pair *p = *state;

	for (uint64_t i = 0; i < 10; i++)
		pair_append(p, i, 0);
	assert_int_equal(pair_drain(p, 4), 4);
	journal_ack_to(p->r, journal_reader_pos(p->r));
	assert_int_equal(pair_drain(p, 4), 4);
	journal_reader_close(p->r);
	pair_reader_open(p);
	p->next = 4;
	assert_int_equal(pair_drain(p, 100), 6);
	assert_int_equal(p->last_pos, 9 * pair_record_size(0));
}

static void ses_8_a_producer_continues_at_the_head(void **state)
{
	struct pair *p = *state;
	uint64_t n = 0, head;

	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 5; i++)
			assert_int_equal(pair_append(p, n++, 3000), 0);
		head = journal_head(p->j);
		journal_close(p->j);
		pair_producer_open(p);
		assert_int_equal(journal_head(p->j), head);
		assert_int_equal(pair_drain(p, 100), 5);
		journal_ack_to(p->r, journal_reader_pos(p->r));
	}
}

/* Mappings of this process that show the file. */
static unsigned mapped(const char *path)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, path) != NULL;
	fclose(maps);
	return n;
}

static void ses_8_closing_unmaps_both_files(void **state)
{
	struct pair *p = *state;

	assert_int_equal(mapped(p->ring), 1);
	assert_int_equal(mapped(p->ack), 1);
	journal_close(p->j);
	p->j = NULL;
	assert_int_equal(mapped(p->ring), 0);
	assert_int_equal(mapped(p->ack), 0);
}

static void evt_2_drops_are_told_before_the_next_event(void **state)
{
	struct pair *p = *state;

	journal_count_drops(p->j, 1);
	journal_count_drops(p->j, 1);
	assert_int_equal(pair_append(p, 0, 0), 0);
	assert_int_equal(pair_append(p, 1, 0), 0);
	assert_int_equal(pair_drain(p, 1), 1);
	assert_int_equal(p->dropped, 2);
	assert_int_equal(p->seen, 0);
	assert_int_equal(pair_drain(p, 10), 2);
	assert_int_equal(p->dropped, 2);
	assert_int_equal(p->seen, 2);
}

static bool on_dropped(const struct event *e, uint64_t pos, void *arg)
{
	struct buf *text = arg;

	buf_clear(text);
	event_format(e, text);
	return true;
}

static void evt_2_the_event_of_dropped_events_names_session_count_and_reason(void **state)
{
	struct pair *p = *state;
	const struct event e = {.type = EVENT_exec,
				.time_us = 1000000,
				.session_id = (char[]){"s-1"},
				.agent_id = (char[]){"a-1"}};
	struct buf text = {0};
	struct err err = {0};
	uint64_t end;

	journal_count_drops(p->j, 1);
	assert_int_equal(journal_append(p->j, &e, &end, &err), 0);
	assert_int_equal(journal_drain(p->r, 1, on_dropped, &text, &err), 1);
	assert_string_equal(
		text.data,
		"{\"seq\":0,\"schema\":1,\"timestamp\":\"1970-01-01T00:00:01.000000Z\","
		"\"type\":\"events_dropped\",\"session_id\":\"s-1\",\"agent_id\":\"a-1\","
		"\"count\":1,\"reason\":\"the ring was full\"}");
	buf_done(&text);
}

static void evt_2_drops_survive_a_full_ring_and_a_new_producer(void **state)
{
	struct pair *p = *state;
	uint64_t n = 0;

	while (pair_append(p, n, 0) == 0)
		n++;
	journal_count_drops(p->j, 1);
	journal_count_drops(p->j, 1);
	journal_count_drops(p->j, 1);
	/* Room for the event alone is not enough: the count comes first. */
	pair_drain(p, 1);
	journal_ack_to(p->r, journal_reader_pos(p->r));
	assert_int_equal(pair_append(p, n, 0), -E_RATE_LIMITED);
	journal_close(p->j);
	pair_producer_open(p);
	while (pair_drain(p, 100) > 0)
		;
	journal_ack_to(p->r, journal_reader_pos(p->r));
	assert_int_equal(pair_append(p, n, 0), 0);
	pair_drain(p, 100);
	assert_int_equal(p->dropped, 3);
	assert_int_equal(p->seen, n + 1);
}

static void evt_2_a_torn_acknowledgement_does_not_count(void **state)
{
	struct pair *p = *state;
	const uint64_t n = pair_fill_to(p, 0, 0);
	struct err err = {0};

	/* Half written, and in the future: both would free unread records. */
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, pos), 4096);
	assert_int_equal(journal_acked(p->j), 0);
	assert_int_equal(pair_append(p, n, 0), -E_RATE_LIMITED);
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, pos), PAIR_SIZE + 8);
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, not_pos), ~(uint64_t)(PAIR_SIZE + 8));
	assert_int_equal(journal_acked(p->j), 0);
	assert_int_equal(pair_append(p, n, 0), -E_RATE_LIMITED);
	/* All that there is: fine. */
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, pos), PAIR_SIZE);
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, not_pos), ~(uint64_t)PAIR_SIZE);
	assert_int_equal(journal_acked(p->j), PAIR_SIZE);

	/* A new producer on a full ring that sees no whole one takes nothing for free. */
	assert_int_equal(pair_append(p, n, 0), 0);
	pair_set_u64(p->ack_fd, offsetof(struct ack_page, not_pos), 1);
	journal_close(p->j);
	pair_producer_open(p);
	assert_int_equal(journal_acked(p->j), pair_record_size(0));
	journal_reader_close(p->r);
	p->r = NULL;
	assert_int_equal(journal_reader_open(dup(p->ring_fd), dup(p->ack_fd), "x", &p->r, &err),
			 -E_BAD_REQUEST);
	assert_null(p->r);
}

/* The producer of the kill test: numbers its events and tells, after each pair_append, how many
 * there are. */
static _Noreturn void produce(struct pair *p, _Atomic uint64_t *appended, int ready)
{
	struct err err = {0};
	struct journal *j = NULL;
	uint64_t n = *appended, end;
	char path[3000];

	memset(path, 'x', sizeof(path));
	if (journal_open(p->ring_fd, p->ack_fd, &j, &err) < 0 || write(ready, "r", 1) != 1)
		_exit(1);
	for (;;) {
		struct event e = {.type = EVENT_file_read, .op_offset = n, .path = path};

		path[n * 131 % 2900] = '\0';
		if (journal_append(j, &e, &end, &err) == 0)
			atomic_store(appended, ++n);
		memset(path, 'x', sizeof(path));
	}
}

/* Whole records only, none lost that was reported, at most one that was not reported any more. */
static void ses_8_a_killed_producer_leaves_whole_records(void **state)
{
	struct pair *p = *state;
	_Atomic uint64_t *appended =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned seed = (unsigned)time(NULL);
	int ready[2];

	print_message("seed %u\n", seed);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (int round = 0; round < 60; round++) {
		const long life_ns = rand_r(&seed) % 2000000;
		struct timespec now, start;
		pid_t pid = fork();
		char c;

		if (pid == 0)
			produce(p, appended, ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 1);
		clock_gettime(CLOCK_MONOTONIC, &start);
		do {
			assert_true(pair_drain(p, 50) >= 0);
			journal_ack_to(p->r, journal_reader_pos(p->r));
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec <
			 life_ns);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		for (int n = 1; n > 0;) {
			n = pair_drain(p, 50);
			assert_true(n >= 0);
		}
		journal_ack_to(p->r, journal_reader_pos(p->r));
		assert_in_range(p->next, *appended, *appended + 1);
		*appended = p->next;
		/* The reader is replaced as well. */
		if (round % 3 == 0) {
			journal_reader_close(p->r);
			pair_reader_open(p);
		}
	}
	assert_true(p->seen > 1000);
	close(ready[0]);
	close(ready[1]);
	munmap((void *)appended, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(evt_2_what_is_appended_comes_out_in_order,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_files_are_private_and_preallocated,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_creation_refuses_bad_sizes_and_leaves_nothing,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_ring_of_the_largest_size_can_be_made,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_the_end_of_the_ring_at_every_alignment,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_many_laps_with_every_length, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_full_is_full_to_the_byte, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_filler_counts_as_used_room, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(
			ses_8_a_reader_starts_again_at_what_was_acknowledged, pair_setup,
			pair_teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_producer_continues_at_the_head, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(ses_8_closing_unmaps_both_files, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_drops_are_told_before_the_next_event,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_the_event_of_dropped_events_names_session_count_and_reason,
			pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_drops_survive_a_full_ring_and_a_new_producer,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_torn_acknowledgement_does_not_count,
						pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_killed_producer_leaves_whole_records,
						pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
