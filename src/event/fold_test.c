// SPDX-License-Identifier: Apache-2.0
#include "event/fold.h"
#include "event/testkit/journal_testkit.h"
#include <stdio.h>
#include <unistd.h>

#define DELAY_US 10000

struct fixture {
	struct pair *pair;
	struct recorder r;
	struct clock clock;
	struct fold *fold;
	struct buf read;     /* "file_delete /a 1 bytes=3, …" */
	uint64_t operations; /* sum of the counts */
};

static int make(void **state)
{
	struct fixture *f = mem_new(struct fixture);
	void *pair = NULL;

	if (pair_setup(&pair) != 0)
		return -1;
	f->pair = pair;
	if (recorder_open(&f->r, dup(f->pair->ring_fd), dup(f->pair->ack_fd), NULL) < 0)
		return -1;
	f->clock.fixed_us = 5000000;
	f->fold = fold_new(&f->r, &f->clock);
	fold_set(f->fold, 100, DELAY_US);
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;
	void *pair = f->pair;

	fold_free(f->fold);
	fold_free(NULL);
	recorder_close(&f->r);
	buf_done(&f->read);
	free(f);
	return pair_teardown(&pair);
}

static bool on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct fixture *f = arg;

	f->operations += e->count;
	buf_addf(&f->read, "%s%s %s %u", f->read.len > 0 ? ", " : "",
		 event_type_name((enum event_type)e->type), e->path, e->count);
	if (e->op_has & EVENT_HAS_BYTES)
		buf_addf(&f->read, " bytes=%llu", (unsigned long long)e->op_bytes);
	if (e->op_has & EVENT_HAS_SIZES)
		buf_addf(&f->read, " size=%llu-%llu", (unsigned long long)e->size_before,
			 (unsigned long long)e->size_after);
	if (e->op_offset != 0 || e->op_has & EVENT_HAS_OFFSET)
		buf_adds(&f->read, " offset");
	return true;
}

/* What was recorded since the last call. */
static void expect(struct fixture *f, const char *want)
{
	buf_clear(&f->read);
	while (journal_drain(f->pair->r, 100, on_event, f, NULL) > 0)
		;
	assert_string_equal(f->read.len > 0 ? f->read.data : "", want);
}

static struct event event_of(enum event_type type, const char *path)
{
	return (struct event){.schema = EVENT_SCHEMA,
			      .type = type,
			      .time_us = 1,
			      .pid = 7,
			      .count = 1,
			      .command_id = event_lend("c1"),
			      .path = event_lend(path),
			      .decision = event_lend("allow")};
}

static bool put(struct fixture *f, enum event_type type, const char *path)
{
	const struct event e = event_of(type, path);

	return fold_event(f->fold, &e);
}

static void fil_5_repeats_become_a_count(void **state)
{
	struct fixture *f = *state;

	assert_false(put(f, EVENT_file_stat, "/a"));
	expect(f, "file_stat /a 1"); /* at once */
	assert_true(put(f, EVENT_file_stat, "/a"));
	assert_true(put(f, EVENT_file_stat, "/a"));
	assert_false(put(f, EVENT_file_open, "/a"));
	expect(f, "file_open /a 1");
	assert_int_equal(fold_flush(f->fold, false), f->clock.fixed_us + DELAY_US);
	expect(f, "");
	f->clock.fixed_us += DELAY_US - 1;
	assert_int_equal(fold_flush(f->fold, false), f->clock.fixed_us + 1);
	f->clock.fixed_us += 1;
	assert_int_equal(fold_flush(f->fold, false), -1);
	expect(f, "file_stat /a 2");
	assert_int_equal(fold_flush(f->fold, true), -1);
	expect(f, "");
}

static void fil_5_a_batch_has_its_size(void **state)
{
	struct fixture *f = *state;

	fold_set(f->fold, 3, DELAY_US);
	for (int i = 0; i < 8; i++)
		put(f, EVENT_file_stat, "/a");
	expect(f, "file_stat /a 1, file_stat /a 3, file_stat /a 3");
	fold_set(f->fold, 1, DELAY_US); /* what is gathered is recorded */
	expect(f, "file_stat /a 1");
	for (int i = 0; i < 3; i++)
		assert_false(put(f, EVENT_file_stat, "/a"));
	expect(f, "file_stat /a 1, file_stat /a 1, file_stat /a 1");
}

static void fil_5_a_repeat_after_the_delay_is_an_event(void **state)
{
	struct fixture *f = *state;

	put(f, EVENT_file_stat, "/a");
	f->clock.fixed_us += DELAY_US + 1;
	assert_false(put(f, EVENT_file_stat, "/a"));
	expect(f, "file_stat /a 1, file_stat /a 1");
	fold_set(f->fold, 100, 1000000);
	f->clock.fixed_us += DELAY_US + 1;
	assert_true(put(f, EVENT_file_stat, "/a"));
	expect(f, "");
}

static void fil_2_bytes_are_added_and_sizes_span(void **state)
{
	struct fixture *f = *state;
	struct event e = event_of(EVENT_file_write, "/a");

	e.op_has = EVENT_HAS_BYTES | EVENT_HAS_SIZES | EVENT_HAS_OFFSET;
	for (e.op_bytes = 3; e.op_bytes < 6; e.op_bytes++) {
		e.size_before = e.size_after;
		e.size_after += e.op_bytes;
		e.op_offset = e.size_before;
		fold_event(f->fold, &e);
	}
	fold_flush(f->fold, true);
	expect(f, "file_write /a 1 bytes=3 size=0-3 offset, file_write /a 2 bytes=9 size=3-12");
	/* one that does not know its bytes: the sum is not known */
	fold_event(f->fold, &e);
	e.op_has = 0;
	e.op_bytes = 0;
	fold_event(f->fold, &e);
	fold_flush(f->fold, true);
	expect(f, "file_write /a 2");
}

static void fil_2_what_differs_is_not_folded(void **state)
{
	struct fixture *f = *state;
	struct event e[9];

	for (size_t i = 0; i < ARRAY_LEN(e); i++)
		e[i] = event_of(EVENT_file_stat, "/a");
	e[1].pid = 8;
	e[2].command_id = event_lend("c2");
	e[3].op_error = 2;
	e[4].decision = event_lend("deny");
	e[5].policy_rule = event_lend("x");
	e[6].op_flags = event_lend("O_RDONLY");
	e[7].op_to = event_lend("O_RDONLY"); /* the same text elsewhere */
	e[8].type = EVENT_file_chmod;
	for (size_t i = 0; i < ARRAY_LEN(e); i++)
		assert_false(fold_event(f->fold, &e[i]));
	expect(f, "file_stat /a 1, file_stat /a 1, file_stat /a 1, file_stat /a 1, "
		  "file_stat /a 1, file_stat /a 1, file_stat /a 1, file_stat /a 1, "
		  "file_chmod /a 1");
	/* limits and the like are never folded */
	put(f, EVENT_resource_limit, "/a");
	put(f, EVENT_resource_limit, "/a");
	expect(f, "resource_limit /a 1, resource_limit /a 1");
}

/* Every operation is in an event or in a count, however many kinds there are. */
static void fil_2_nothing_is_uncounted(void **state)
{
	struct fixture *f = *state;
	char path[32];

	for (int i = 0; i < 20000; i++) {
		snprintf(path, sizeof(path), "/%d", i % 3 == 0 ? i : i % 200);
		put(f, EVENT_file_delete, path);
		f->clock.fixed_us += i % 7;
		if (i % 500 == 0) {
			buf_clear(&f->read);
			while (journal_drain(f->pair->r, 100, on_event, f, NULL) > 0)
				;
			journal_ack_to(f->pair->r, journal_reader_pos(f->pair->r));
		}
	}
	fold_flush(f->fold, true);
	while (journal_drain(f->pair->r, 100, on_event, f, NULL) > 0)
		;
	assert_int_equal(f->operations, 20000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fil_5_repeats_become_a_count),
		TEST(fil_5_a_batch_has_its_size),
		TEST(fil_5_a_repeat_after_the_delay_is_an_event),
		TEST(fil_2_bytes_are_added_and_sizes_span),
		TEST(fil_2_what_differs_is_not_folded),
		TEST(fil_2_nothing_is_uncounted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
