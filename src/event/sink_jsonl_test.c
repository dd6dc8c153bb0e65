// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/sink_jsonl.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#define T0 1767323045678901

struct world {
	char dir[64], db[80], path[80];
	struct loop *loop;
	struct clock clock;
	struct store *store;
	struct sink_jsonl *sink;
	struct sink_jsonl_config config;
	struct buf text;
};

static void open_sink(struct world *w)
{
	struct err err = {0};
	const int rc = sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err);

	if (rc < 0)
		print_error("%s\n", err.message);
	assert_int_equal(rc, 0);
}

static void close_sink(struct world *w)
{
	sink_jsonl_close(w->sink);
	w->sink = NULL;
}

static int setup(void **state)
{
	struct world *w = mem_new(struct world);
	struct err err = {0};

	snprintf(w->dir, sizeof(w->dir), "/tmp/sink_jsonl_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->db, sizeof(w->db), "%s/db", w->dir);
	snprintf(w->path, sizeof(w->path), "%s/events.jsonl", w->dir);
	w->loop = loop_new(NULL, NULL);
	w->clock.fixed_us = T0;
	w->config = (struct sink_jsonl_config){.path = w->path, .keep = 2};
	assert_int_equal(store_open(w->db, w->loop, &w->clock, false, &w->store, &err), 0);
	open_sink(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	close_sink(w);
	store_close(w->store);
	loop_free(w->loop);
	buf_done(&w->text);
	snprintf(command, sizeof(command), "rm -r '%s'", w->dir);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static void gather(struct world *w, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct event e = {.type = EVENT_exec};

		store_event(w->store, &e, NULL, 0);
	}
}

static void put(struct world *w, uint64_t n)
{
	gather(w, n);
	assert_int_equal(store_commit(w->store, NULL), 0);
}

/* Bytes of a line with a seq of one digit. */
static size_t line_len(void)
{
	const struct event e = {.type = EVENT_exec, .seq = 1, .time_us = T0};
	struct buf out = {0};
	size_t n;

	event_format(&e, &out);
	n = out.len + 1;
	buf_done(&out);
	return n;
}

/* "1 2 3 " for the lines of path or path.n; "-" if there is no such file. Every line must be whole.
 */
static const char *lines(struct world *w, unsigned n)
{
	struct buf raw = {0};
	struct err err = {0};
	char path[96];
	char *at;

	if (n > 0)
		snprintf(path, sizeof(path), "%s.%u", w->path, n);
	else
		snprintf(path, sizeof(path), "%s", w->path);
	buf_clear(&w->text);
	buf_adds(&w->text, "");
	if (access(path, F_OK) < 0)
		return "-";
	assert_int_equal(fdio_load_path(path, 4 << 20, &raw, &err), 0);
	for (at = raw.data; at != NULL && *at != '\0';) {
		char *end = strchr(at, '\n');
		unsigned long long seq;

		assert_non_null(end);
		assert_int_equal(end[-1], '}');
		assert_int_equal(sscanf(at, "{\"seq\":%llu,\"schema\":1,", &seq), 1);
		buf_addf(&w->text, "%llu ", seq);
		at = end + 1;
	}
	buf_done(&raw);
	return w->text.data;
}

static void append(struct world *w, const char *text)
{
	const int fd = open(w->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void evt_2_lines_follow_the_commit(void **state)
{
	struct world *w = *state;
	struct stat st;

	gather(w, 2);
	assert_string_equal(lines(w, 0), "");
	assert_int_equal(store_commit(w->store, NULL), 0);
	assert_string_equal(lines(w, 0), "1 2 ");
	/* However old and large: no limit was set. */
	w->clock.fixed_us = T0 + 1;
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 3 ");
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 3 * line_len());
}

static int refuse(void *data)
{
	return 1;
}

static void evt_2_a_line_comes_once_however_often_the_commit_fails(void **state)
{
	struct world *w = *state;

	sqlite3_commit_hook(store_db(w->store), refuse, NULL);
	for (int i = 0; i < 2; i++) {
		gather(w, 1);
		assert_int_equal(store_commit(w->store, NULL), -E_UNAVAILABLE);
		assert_string_equal(lines(w, 0), i == 0 ? "1 " : "1 2 ");
	}
	sqlite3_commit_hook(store_db(w->store), NULL, NULL);
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 3 ");
}

static void ses_8_events_beyond_the_last_line_are_written_on_opening(void **state)
{
	struct world *w = *state;

	put(w, 2);
	close_sink(w);
	put(w, 3);
	assert_string_equal(lines(w, 0), "1 2 ");
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 4 5 ");
	/* An open turn comes by itself, once. */
	close_sink(w);
	gather(w, 1);
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 4 5 ");
	assert_int_equal(store_commit(w->store, NULL), 0);
	assert_string_equal(lines(w, 0), "1 2 3 4 5 6 ");
}

static void ses_8_many_batches_are_caught_up(void **state)
{
	struct world *w = *state;
	struct buf raw = {0};
	struct err err = {0};
	size_t n = 0;

	close_sink(w);
	put(w, 2500);
	open_sink(w);
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	assert_int_equal(fdio_load_path(w->path, 1 << 20, &raw, &err), 0);
	for (size_t i = 0; i < raw.len; i++)
		n += raw.data[i] == '\n';
	assert_int_equal(n, 2500);
	buf_done(&raw);
}

static void ses_8_a_torn_last_line_is_cut_and_written_again(void **state)
{
	struct world *w = *state;

	put(w, 3);
	close_sink(w);
	assert_int_equal(truncate(w->path, (off_t)(3 * line_len() - 1)), 0);
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 ");
	close_sink(w);
	append(w, "{\"seq\":4,\"sche");
	open_sink(w);
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 3 4 ");
	/* Nothing but a torn line. */
	close_sink(w);
	assert_int_equal(truncate(w->path, 10), 0);
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 4 ");
}

static void evt_2_a_line_that_would_lead_past_the_limit_goes_into_a_new_file(void **state)
{
	struct world *w = *state;

	close_sink(w);
	w->config.max_bytes = 3 * line_len();
	open_sink(w);
	put(w, 2);
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 3 ");
	assert_string_equal(lines(w, 1), "-");
	errno = 0;
	put(w, 1);
	assert_string_equal(lines(w, 0), "4 ");
	assert_string_equal(lines(w, 1), "1 2 3 ");
	close_sink(w);
	w->config.max_bytes--;
	open_sink(w);
	put(w, 2);
	assert_string_equal(lines(w, 0), "6 ");
	assert_string_equal(lines(w, 1), "4 5 ");
	assert_string_equal(lines(w, 2), "1 2 3 ");
	/* Within one turn, and no more files than are kept. */
	errno = 0;
	put(w, 3);
	assert_string_equal(lines(w, 0), "8 9 ");
	assert_string_equal(lines(w, 1), "6 7 ");
	assert_string_equal(lines(w, 2), "4 5 ");
	assert_string_equal(lines(w, 3), "-");
}

static void evt_2_limits_change_while_it_is_open(void **state)
{
	struct world *w = *state;

	put(w, 3);
	assert_string_equal(lines(w, 0), "1 2 3 ");
	w->config = (struct sink_jsonl_config){.max_bytes = 2 * line_len(), .keep = 1};
	sink_jsonl_limits(w->sink, &w->config);
	put(w, 3);
	assert_string_equal(lines(w, 0), "6 ");
	assert_string_equal(lines(w, 1), "4 5 ");
	assert_string_equal(lines(w, 2), "-");
}

static void evt_2_a_line_longer_than_the_limit_has_a_file_of_its_own(void **state)
{
	struct world *w = *state;

	close_sink(w);
	w->config.max_bytes = 10;
	open_sink(w);
	put(w, 2);
	assert_string_equal(lines(w, 0), "2 ");
	assert_string_equal(lines(w, 1), "1 ");
}

static void evt_2_no_rotated_file_is_kept_if_none_is_asked_for(void **state)
{
	struct world *w = *state;

	close_sink(w);
	w->config.max_bytes = 2 * line_len();
	w->config.keep = 0;
	open_sink(w);
	put(w, 3);
	assert_string_equal(lines(w, 0), "3 ");
	assert_string_equal(lines(w, 1), "-");
	/* Killed between the rotation and the first line: the old file still tells where the log
	 * stands. */
	close_sink(w);
	{
		char old[96];

		snprintf(old, sizeof(old), "%s.1", w->path);
		assert_int_equal(rename(w->path, old), 0);
	}
	open_sink(w);
	assert_string_equal(lines(w, 0), "");
	assert_string_equal(lines(w, 1), "3 ");
	put(w, 1);
	assert_string_equal(lines(w, 0), "4 ");
	assert_string_equal(lines(w, 1), "-");
}

static void evt_2_files_that_others_rotated_are_not_ours_to_remove(void **state)
{
	struct world *w = *state;
	char old[96];

	close_sink(w);
	w->config.keep = 0;
	snprintf(old, sizeof(old), "%s.1", w->path);
	put(w, 1);
	open_sink(w);
	close_sink(w);
	assert_int_equal(rename(w->path, old), 0);
	open_sink(w);
	put(w, 1);
	assert_string_equal(lines(w, 0), "2 ");
	assert_string_equal(lines(w, 1), "1 ");
}

static void evt_2_a_file_is_rotated_when_its_first_line_is_too_old(void **state)
{
	struct world *w = *state;

	close_sink(w);
	w->config.max_age_ms = 1000;
	open_sink(w);
	put(w, 1);
	w->clock.fixed_us = T0 + 1000000;
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 ");
	w->clock.fixed_us = T0 + 1000001;
	put(w, 2);
	assert_string_equal(lines(w, 0), "3 4 ");
	assert_string_equal(lines(w, 1), "1 2 ");
	/* The age is read from the file after a restart. */
	close_sink(w);
	open_sink(w);
	w->clock.fixed_us = T0 + 2000001;
	put(w, 1);
	assert_string_equal(lines(w, 0), "3 4 5 ");
	w->clock.fixed_us = T0 + 2000002;
	put(w, 1);
	assert_string_equal(lines(w, 0), "6 ");
}

static void evt_2_old_events_that_are_caught_up_share_a_file(void **state)
{
	struct world *w = *state;

	close_sink(w);
	put(w, 3);
	w->clock.fixed_us = T0 + 10000000;
	w->config.max_age_ms = 1000;
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 ");
}

static void evt_2_reopening_goes_on_in_the_new_file(void **state)
{
	struct world *w = *state;
	struct err err = {0};
	char moved[96];

	put(w, 2);
	snprintf(moved, sizeof(moved), "%s.9", w->path);
	assert_int_equal(rename(w->path, moved), 0);
	put(w, 1);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), 0);
	put(w, 1);
	assert_string_equal(lines(w, 9), "1 2 3 ");
	assert_string_equal(lines(w, 0), "4 ");
	/* The same file again. */
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), 0);
	put(w, 1);
	assert_string_equal(lines(w, 0), "4 5 ");
	/* A place that cannot be opened: the old file goes on. */
	unlink(w->path);
	assert_int_equal(mkdir(w->path, 0700), 0);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), -E_UNAVAILABLE);
	put(w, 1);
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	rmdir(w->path);
}

static void ses_8_an_empty_file_is_judged_by_the_one_before(void **state)
{
	struct world *w = *state;
	char old[96];

	put(w, 3);
	close_sink(w);
	snprintf(old, sizeof(old), "%s.1", w->path);
	assert_int_equal(rename(w->path, old), 0);
	put(w, 1);
	open_sink(w);
	assert_string_equal(lines(w, 0), "4 ");
	assert_string_equal(lines(w, 1), "1 2 3 ");
}

/* The numbers of events that the database has lost are not given out again; one event tells. */
static void ses_8_events_go_on_above_a_file_that_is_ahead(void **state)
{
	struct world *w = *state;

	put(w, 2);
	close_sink(w);
	append(w,
	       "{\"seq\":3,\"schema\":1,\"lost\":true}\n{\"seq\":4,\"schema\":1,\"lost\":true}\n");
	open_sink(w);
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 2 3 4 5 6 ");
	/* As far as the database: nothing to do. */
	close_sink(w);
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 2 3 4 5 6 ");
}

/* A new database has nothing to do with an old file. */
static void ses_8_a_file_of_another_database_is_rotated_away(void **state)
{
	struct world *w = *state;

	close_sink(w);
	append(w, "{\"seq\":3,\"schema\":1,\"lost\":true}\n");
	open_sink(w);
	assert_string_equal(lines(w, 0), "");
	put(w, 1);
	assert_string_equal(lines(w, 0), "1 ");
	assert_string_equal(lines(w, 1), "3 ");
}

/* An orderly end leaves nothing to the next start. */
static void evt_2_an_orderly_end_brings_the_file_up_to_date(void **state)
{
	struct world *w = *state;
	struct event e = {.type = EVENT_exec, .count = 1};

	store_event(w->store, &e, NULL, 0);
	sink_jsonl_finish(w->sink);
	assert_string_equal(lines(w, 0), "1 ");
}

static void fill_disk(struct world *w, rlim_t room)
{
	struct rlimit limit;
	struct stat st;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(stat(w->path, &st), 0);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = room == RLIM_INFINITY ? limit.rlim_max : (rlim_t)st.st_size + room;
	setrlimit(RLIMIT_FSIZE, &limit);
}

static void evt_2_a_full_disk_leaves_whole_lines_and_is_made_up_for(void **state)
{
	struct world *w = *state;
	struct err err = {0};
	struct buf big = {0};

	close_sink(w);
	/* The limit holds for every file: this one is larger than the database gets here. */
	buf_reserve(&big, 1 << 20);
	memset(big.data, 'x', 1 << 20);
	memcpy(big.data, "{\"seq\":0,\"schema\":1,", 20);
	memcpy(big.data + (1 << 20) - 2, "}\n", 3);
	append(w, big.data);
	append(w, "{\"seq\":0,\"schema\":1}\n");
	buf_done(&big);
	open_sink(w);
	put(w, 1);
	fill_disk(w, line_len() + 10);
	put(w, 2);
	fill_disk(w, RLIM_INFINITY);
	assert_int_equal(sink_jsonl_behind(w->sink), 2);
	put(w, 1);
	assert_int_equal(sink_jsonl_behind(w->sink), 3);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), 0);
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	put(w, 1);
	assert_string_equal(lines(w, 0), "0 0 1 2 3 4 5 ");

	/* By itself, a second later; not while the disk is full. */
	fill_disk(w, 3);
	put(w, 1);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "File too large"));
	loop_turn(w->loop);
	assert_int_equal(sink_jsonl_behind(w->sink), 1);
	fill_disk(w, RLIM_INFINITY);
	loop_turn(w->loop);
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	assert_string_equal(lines(w, 0), "0 0 1 2 3 4 5 6 ");
}

static void evt_2_what_the_store_lost_is_not_waited_for(void **state)
{
	struct world *w = *state;

	close_sink(w);
	put(w, 3);
	sqlite3_exec(store_db(w->store), "DELETE FROM events WHERE seq IN (1, 3)", NULL, NULL,
		     NULL);
	assert_int_equal(store_commit(w->store, NULL), 0);
	open_sink(w);
	assert_string_equal(lines(w, 0), "2 ");
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	put(w, 1);
	assert_string_equal(lines(w, 0), "2 4 ");
}

/* Safe, but not to be read as long as the database cannot be written. */
static void evt_2_what_the_store_cannot_bring_in_yet_is_waited_for(void **state)
{
	struct world *w = *state;
	struct err err = {0};
	sqlite3 *other = NULL;

	close_sink(w);
	put(w, 1);
	sqlite3_busy_timeout(store_db(w->store), 0);
	assert_int_equal(sqlite3_open(w->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	gather(w, 2);
	assert_int_equal(store_commit(w->store, NULL), -E_UNAVAILABLE);
	open_sink(w);
	assert_string_equal(lines(w, 0), "1 ");
	assert_int_equal(sink_jsonl_behind(w->sink), 2);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), -E_UNAVAILABLE);
	assert_int_equal(sink_jsonl_behind(w->sink), 2);
	sqlite3_close(other);
	put(w, 1);
	assert_int_equal(sink_jsonl_reopen(w->sink, &err), 0);
	assert_int_equal(sink_jsonl_behind(w->sink), 0);
	assert_string_equal(lines(w, 0), "1 2 3 4 ");
}

static void cfg_1_what_is_no_log_of_events_is_refused(void **state)
{
	static const char *const bad[] = {"hello\n",	   "{\"seq\":,\n",    "{\"seq\":-1,\n",
					  "{\"seq\":1}\n", "{\"seq\":1,\n\n", "[{\"seq\":1,\n"};
	struct world *w = *state;
	struct err err = {0};
	struct buf big = {0};

	close_sink(w);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		unlink(w->path);
		append(w, bad[i]);
		assert_int_equal(sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err),
				 -E_UNAVAILABLE);
		assert_non_null(strstr(err.message, "is not a log of events; move it away"));
		assert_null(w->sink);
	}
	/* No end of a line, and none before the last one, in all that a line may be. */
	buf_reserve(&big, 300000);
	memset(big.data, 'x', 300000);
	big.data[300000] = '\0';
	unlink(w->path);
	append(w, big.data);
	assert_int_equal(sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err),
			 -E_UNAVAILABLE);
	append(w, "\n");
	assert_int_equal(sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err),
			 -E_UNAVAILABLE);
	buf_done(&big);

	unlink(w->path);
	assert_int_equal(mkfifo(w->path, 0600), 0);
	assert_int_equal(sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err),
			 -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "not a regular file"));
	w->config.path = "/nowhere/events.jsonl";
	assert_int_equal(sink_jsonl_open(w->store, &w->clock, &w->config, &w->sink, &err),
			 -E_UNAVAILABLE);
	assert_string_equal(err.subject, "/nowhere/events.jsonl");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(evt_2_lines_follow_the_commit, setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_line_comes_once_however_often_the_commit_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(
			ses_8_events_beyond_the_last_line_are_written_on_opening, setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_many_batches_are_caught_up, setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_torn_last_line_is_cut_and_written_again,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_line_that_would_lead_past_the_limit_goes_into_a_new_file, setup,
			teardown),
		cmocka_unit_test_setup_teardown(evt_2_limits_change_while_it_is_open, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_line_longer_than_the_limit_has_a_file_of_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_no_rotated_file_is_kept_if_none_is_asked_for,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_files_that_others_rotated_are_not_ours_to_remove, setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_file_is_rotated_when_its_first_line_is_too_old, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_old_events_that_are_caught_up_share_a_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_reopening_goes_on_in_the_new_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ses_8_an_empty_file_is_judged_by_the_one_before,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_file_of_another_database_is_rotated_away,
						setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_an_orderly_end_brings_the_file_up_to_date,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_events_go_on_above_a_file_that_is_ahead,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_full_disk_leaves_whole_lines_and_is_made_up_for, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_what_the_store_lost_is_not_waited_for, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_what_the_store_cannot_bring_in_yet_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(cfg_1_what_is_no_log_of_events_is_refused, setup,
						teardown),
	};

	log_init("test", LOG_ERROR, LOG_TEXT, 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
