// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "event/recorder.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	char dir[64];
	struct recorder r;
	struct journal_reader *reader;
	unsigned read, dropped;
	uint32_t last_pid;
	bool gap;
};

static int make(void **state)
{
	struct fixture *f = mem_new(struct fixture);
	cleanup_free char *ring = NULL;
	cleanup_free char *ack = NULL;
	struct err err = {0};
	int ring_fd, ack_fd;

	strcpy(f->dir, "/tmp/agentsh-record-XXXXXX");
	if (mkdtemp(f->dir) == NULL)
		return -1;
	ring = mem_printf("%s/ring", f->dir);
	ack = mem_printf("%s/ack", f->dir);
	if (journal_create(AT_FDCWD, ring, ack, JOURNAL_RING_MIN, &ring_fd, &ack_fd, &err) < 0 ||
	    recorder_open(&f->r, ring_fd, ack_fd, &err) < 0 ||
	    journal_reader_open(ring_fd, ack_fd, "r", &f->reader, &err) < 0)
		return -1;
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;
	cleanup_free char *command = mem_printf("rm -rf '%s'", f->dir);

	recorder_close(&f->r);
	recorder_close(&f->r);
	journal_reader_close(f->reader);
	free(f);
	return system(command);
}

static void on_end(uint64_t end, void *arg)
{
	*(uint64_t *)arg = end;
}

static void put(struct fixture *f, uint32_t pid, uint64_t *end)
{
	char line[] = "x";
	const struct event e = {.type = EVENT_command_started,
				.time_us = 1,
				.pid = pid,
				.count = 1,
				.command_line = line};

	recorder_event(&f->r, &e, end != NULL ? on_end : NULL, end);
}

static bool on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct fixture *f = arg;

	if (e->type == EVENT_events_dropped) {
		f->dropped += e->count;
		return true;
	}
	f->gap |= f->last_pid + 1 != e->pid;
	f->last_pid = e->pid;
	f->read++;
	return true;
}

static void drain(struct fixture *f)
{
	while (journal_drain(f->reader, 100, on_event, f, NULL) > 0)
		;
	journal_ack_to(f->reader, journal_reader_pos(f->reader));
}

/* EVT-2: events that find no room wait in order, and say when they are in. */
static void evt_2_a_full_ring_waits(void **state)
{
	struct fixture *f = *state;
	uint64_t first = 0, last = 0;
	uint32_t pid = 0;

	put(f, ++pid, &first);
	assert_int_equal(first, journal_head(f->r.journal));
	while (recorder_flush(&f->r))
		put(f, ++pid, NULL);
	put(f, ++pid, &last);
	assert_false(recorder_has_room(&f->r));
	assert_false(recorder_flush(&f->r));
	assert_int_equal(last, 0);
	drain(f);
	assert_int_equal(f->read, pid - 2);
	assert_true(recorder_flush(&f->r));
	assert_int_equal(last, journal_head(f->r.journal));
	drain(f);
	assert_int_equal(f->read, pid);
	assert_false(f->gap);
	assert_int_equal(f->dropped, 0);
}

/* EVT-2: or they are dropped, and counted. */
static void evt_2_or_drops(void **state)
{
	struct fixture *f = *state;
	uint64_t end = 0;
	uint32_t pid = 0;

	f->r.drop = true;
	while (pid < 100000 && (end == 0 || end != journal_head(f->r.journal) || pid < 2)) {
		put(f, ++pid, NULL);
		end = 0;
		if (journal_head(f->r.journal) > JOURNAL_RING_MIN - 200)
			break;
	}
	for (int i = 0; i < 10; i++)
		put(f, ++pid, &end);
	assert_true(recorder_flush(&f->r));
	assert_int_equal(end, journal_head(f->r.journal));
	drain(f);
	assert_true(f->read < pid);
	put(f, ++pid, NULL);
	drain(f);
	assert_int_equal(f->read + f->dropped, pid);
	assert_true(f->dropped > 0);
}

/* EVT-2: one bell for what is unread; the next when that is read. */
static void evt_2_the_bell_rings_once(void **state)
{
	struct fixture *f = *state;
	uint64_t head, end;

	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_NONE);
	put(f, 1, &end);
	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_DUE);
	assert_int_equal(head, end);
	recorder_rung(&f->r, end);
	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_NONE);
	put(f, 2, &end);
	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_LATER);
	drain(f);
	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_DUE);
	recorder_rung(&f->r, end);
	recorder_rung(&f->r, 0);
	assert_int_equal(recorder_bell(&f->r, &head), RECORDER_BELL_NONE);
}

static void put_exec(struct fixture *f, const char *decision, uint64_t *end)
{
	const struct event e = {.type = EVENT_exec,
				.time_us = 1,
				.pid = 1,
				.count = 1,
				.decision = event_lend(decision)};

	recorder_event(&f->r, &e, on_end, end);
}

/* EVT-2: the bell need not ring at once for an allowed program; it must for all other events. */
static void evt_2_refusals_are_urgent(void **state)
{
	struct fixture *f = *state;
	uint64_t first, end;

	put_exec(f, "allow", &first);
	assert_false(f->r.urgent);
	put_exec(f, NULL, &end);
	assert_false(f->r.urgent);
	put_exec(f, "deny", &end);
	assert_true(f->r.urgent);
	recorder_rung(&f->r, first);
	assert_true(f->r.urgent);
	recorder_rung(&f->r, end);
	assert_false(f->r.urgent);
	put(f, 1, &end);
	assert_true(f->r.urgent);
	recorder_rung(&f->r, end);
	put_exec(f, "allow", &end);
	assert_false(f->r.urgent);
}

#define EACH 300

static void *put_many(void *arg)
{
	for (uint32_t pid = 1; pid <= EACH; pid++)
		put(arg, pid, NULL);
	return NULL;
}

static bool add_pid(const struct event *e, uint64_t pos, void *arg)
{
	*(uint64_t *)arg += e->pid;
	return true;
}

/* EVT-2: threads of one process share its ring. */
static void evt_2_threads_append_whole_events(void **state)
{
	struct fixture *f = *state;
	uint64_t sum = 0;
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, put_many, f), 0);
	put_many(f);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(journal_drain(f->reader, 3 * EACH, add_pid, &sum, NULL), 2 * EACH);
	assert_int_equal(sum, EACH * (EACH + 1));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(evt_2_a_full_ring_waits),		 TEST(evt_2_or_drops),
		TEST(evt_2_the_bell_rings_once),	 TEST(evt_2_refusals_are_urgent),
		TEST(evt_2_threads_append_whole_events),
	};

	return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}
